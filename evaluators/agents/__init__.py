"""An agent's run: its calls, arguments, plans and bounds, read without a judge."""
