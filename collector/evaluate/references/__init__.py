"""References that come apart from their turns, and the evaluations that wait for them."""
