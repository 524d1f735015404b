"""How often a service collects garbage."""

COLLECT_AFTER = (5_000, 10, 10)
"""Objects after which garbage is collected; Python's own 700 is for smaller programs. Hardly anything of a service is
garbage of that kind: its imports, and the state that a restart rebuilds, were gone through again and again, for a tenth
of their time.
"""
