"""Signs of attacks on an application, and on the judge itself. No judge is asked."""
