"""The golden set: frozen cases that are scored again periodically, so that a shift of a judge is seen."""
