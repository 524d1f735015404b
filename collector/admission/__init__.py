"""Limits on what the service takes from others: bounded gates, fair shares among senders, counted connections."""
