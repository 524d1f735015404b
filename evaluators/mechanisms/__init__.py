"""Mechanisms that several evaluators share: ratios of verdicts, ratings, classes, composites."""
