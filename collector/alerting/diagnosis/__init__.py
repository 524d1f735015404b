"""Finds the part of the traffic that explains a fall of scores."""
