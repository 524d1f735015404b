"""Dialects: one module for each format in which libraries write LLM calls into spans and log records."""
