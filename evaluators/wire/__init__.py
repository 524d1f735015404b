"""Answers of others' servers, within bounds."""
