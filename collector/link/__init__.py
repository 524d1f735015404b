"""Conversations that nobody named: turns are put together by the history that they repeat."""
