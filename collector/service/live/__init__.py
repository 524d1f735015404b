"""A running service that takes another configuration."""
