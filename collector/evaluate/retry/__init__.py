"""Failed evaluations that are made again: which ones are due, and the requests for them."""
