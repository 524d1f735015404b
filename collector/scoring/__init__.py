"""Evaluators over files: `evalstream score`, without logs, sampling or monitors."""
