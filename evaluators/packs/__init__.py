"""Question packs: one request that carries a case once, and the questions of several evaluators about it."""
