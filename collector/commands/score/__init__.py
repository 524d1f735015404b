"""`evalstream score`: evaluators over files, without logs, sampling or monitors."""
