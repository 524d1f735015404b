"""One file per evaluator of a single turn."""
