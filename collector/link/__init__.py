"""Conversations without an id: turns are linked by the history that they repeat."""
