"""How far an evaluator agrees with people: `evalstream calibrate`."""
