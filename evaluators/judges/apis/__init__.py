"""The wire formats of judges: the request for a question, and the meaning of its response."""
