"""The past of a deployment, read from its logs: evaluations, turns and labels."""
