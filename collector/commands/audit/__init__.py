"""`evalstream audit`: whether everything that was accepted has its outcome."""
