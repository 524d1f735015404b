"""From spans to turns, without any dialect in it."""
