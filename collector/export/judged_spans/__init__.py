"""Judged spans, written once more with their scores as attributes of their own."""
