"""`evalstream fetch`: a stretch of the past out of where traces already lie, into a file."""
