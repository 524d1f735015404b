"""Turns, conversations and evaluations as records of the logs."""
