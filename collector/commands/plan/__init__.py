"""`evalstream plan`: the sampling that reaches a standard error at the least cost, from the past of a monitor."""
