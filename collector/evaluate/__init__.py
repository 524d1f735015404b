"""From turns to evaluations: conversations, sampling, the judge's work."""
