"""The port of a log and its three implementations."""
