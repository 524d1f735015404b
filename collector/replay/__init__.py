"""A past stretch judged again: `evalstream replay` holds a new evaluator or judge against the old one."""
