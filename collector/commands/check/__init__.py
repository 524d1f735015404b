"""`evalstream check`: what a configuration means, and what it would change."""
