"""Comparisons of versions: whether a release made scores worse, at any time it is looked at."""
