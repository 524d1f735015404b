"""Failed evaluations made again: which are owed, and the requests for them."""
