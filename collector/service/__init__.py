"""The composition root: what one process runs, and in which order it starts and stops."""
