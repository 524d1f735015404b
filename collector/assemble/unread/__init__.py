"""Text that no dialect reads: where it is, and what reads it."""
