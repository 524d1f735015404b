"""Sums, means, errors, tests and agreement: the arithmetic that the stages share."""
