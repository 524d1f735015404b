"""One command that runs several processes."""
