"""Limits for senders: bounded gates, fair shares among senders, counted connections."""
