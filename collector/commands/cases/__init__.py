"""`evalstream cases`: from production to a test set."""
