"""A judge's answer: the reply's form, how it is parsed, and the probabilities in it."""
