"""From the outside into the spans log."""
