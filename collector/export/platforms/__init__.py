"""Scores written back to the platforms where traces already lie, each by its own API."""
