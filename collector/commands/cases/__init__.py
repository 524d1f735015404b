"""`evalstream dataset`: from production to a test set."""
