"""What a judge answers: the reply's form, how it is read, and the probabilities in it."""
