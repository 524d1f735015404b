"""Judges: any OpenAI-compatible endpoint, and wrappers around a judge."""
