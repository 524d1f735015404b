"""Answers of foreign servers, within bounds."""
