"""The processing journal: which record was in process when a process ended, and which are therefore left out."""
