"""The service: traces in, evaluations out."""
