"""Whether this is the compiled evalstream (`deploy/image/compiled_wheel.py`) or the pure Python one."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

_COMPILED = "collector.otlp.span"
"""One of the modules that are compiled, where any are."""


def is_compiled() -> bool:
    """Whether Python takes extension modules for those that the compiled wheel has them of."""
    spec = find_spec(_COMPILED)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
