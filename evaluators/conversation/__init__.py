"""One file per evaluator of a whole conversation."""
