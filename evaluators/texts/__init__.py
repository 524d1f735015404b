"""Texts, JSON, patterns and paths: functions that know at most what a case is."""
