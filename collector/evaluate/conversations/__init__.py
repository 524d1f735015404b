"""Session windows: which turns belong to a conversation, and when it closes."""
