"""One file per way of writing an LLM call into spans and log records."""
