"""`evalstream calibrate`: how far an evaluator agrees with people."""
