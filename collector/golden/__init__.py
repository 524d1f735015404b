"""The golden set: frozen cases that the judges score again and again, so that a judge that moves is seen for itself."""
