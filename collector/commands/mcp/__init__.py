"""The command `evalstream mcp`: what the page shows, and four commands that change nothing, for coding agents."""
