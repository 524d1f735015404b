"""The wire formats of judges: what a question is as a request, and what its answer says."""
