"""Scores of turns and conversations, and how they are computed. A library: usable without the collector.

Modules are imported when a name of theirs is first used, so that importing this package costs next to nothing.
`__init__.pyi` lists the public names and their modules, also for type checkers.
"""

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"^from (\S+) import (\w+)", re.MULTILINE)


@cache
def _homes() -> dict[str, str]:
    """The module of each public name, by the name."""
    stub = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    return {name: home for home, name in _IMPORT.findall(stub)}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    home = _homes().get(name)
    if home is None:
        from evaluators.foreign_names import PACKAGE, missing

        raise AttributeError(missing(PACKAGE, f"module {__name__!r}", name))
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(_homes())
