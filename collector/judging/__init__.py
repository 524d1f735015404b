"""The judges of a configuration, and the layers around each."""
