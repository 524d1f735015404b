"""Evaluation jobs: a bulkhead for each judge, dispatch, and the jobs in flight."""
