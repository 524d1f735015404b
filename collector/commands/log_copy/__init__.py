"""`evalstream log copy`: the logs of a deployment into another file, or other topics."""
