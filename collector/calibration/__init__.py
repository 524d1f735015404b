"""Agreement of evaluators with people, for `evalstream calibrate` and the metrics."""
