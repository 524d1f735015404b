"""`evalstream align`: from labels to a better evaluator."""
