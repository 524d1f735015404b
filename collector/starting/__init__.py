"""Starts the stages of a process out of its configuration."""
