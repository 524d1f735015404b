"""`evalstream plan targets`: targets that alerts can see something with, from the scores there are."""
