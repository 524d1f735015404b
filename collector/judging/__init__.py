"""Judges as the configuration names them, and what is wrapped around each."""
