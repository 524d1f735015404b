"""Requests to judges in batches: half the price, an answer within a day."""
