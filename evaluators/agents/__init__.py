"""What an agent's run shows: its calls, arguments, plans and bounds. No judge is asked."""
