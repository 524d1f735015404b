"""One module or package for each command that is not the service."""
