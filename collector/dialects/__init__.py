"""Dialects: one module for each way in which libraries write LLM calls into spans and log records."""
