"""Evaluation jobs: bulkheads for each judge, dispatch, and what is still in flight."""
