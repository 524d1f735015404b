"""`evalstream erase`: takes one person, or single conversations, out of everything that the service has stored."""
