"""`evalstream plan sampling`: the sampling that reaches a standard error at the least cost, by a monitor's past."""
