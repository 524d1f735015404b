"""Comparisons of versions: whether a release made scores worse, valid at any time."""
