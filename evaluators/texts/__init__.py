"""Texts, JSON, patterns and paths: functions that know cases at most, and no evaluators."""
