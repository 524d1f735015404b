"""Evaluations that may wait for hours: their judges' requests go out in batches, at a lower price."""
