"""The configuration: one YAML file, read into values that the parts of the service are made from."""
