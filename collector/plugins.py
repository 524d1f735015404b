"""Finds plug-ins by group and name: evaluators, dialects and exporters, ours and other people's alike."""

from __future__ import annotations

import difflib
import importlib
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

from collector.errors import ConfigError
from evaluators.evaluator import Evaluator

EVALUATORS = "evalstream.evaluators"
DIALECTS = "evalstream.dialects"
EXPORTERS = "evalstream.exporters"
REDACTORS = "evalstream.redactors"


def names(group: str) -> list[str]:
    """The names of all plug-ins of a group, sorted."""
    return sorted({point.name for point in _of(group)})


def load(group: str, name: str) -> Any:
    """Load one plug-in; nothing else of its group is imported.

    Raises:
        ConfigError: there is none of this name, or it cannot be imported.
    """
    found: list[EntryPoint] = [point for point in _of(group) if point.name == name]
    if not found:
        near = difflib.get_close_matches(name, names(group), n=1, cutoff=0.6)
        known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names(group))}"
        raise ConfigError(f"no {group.rpartition('.')[2]} plug-in is called {name!r}; {known}")
    try:
        return found[0].load()
    except Exception as error:
        raise ConfigError(f"the plug-in {name!r} ({found[0].value}) cannot be loaded: {error}") from error


def evaluator_class(kind: str) -> type[Evaluator[Any]]:
    """The evaluator of a kind: the name of an entry point, or `module:Class`.

    Raises:
        ConfigError: there is none, or it is no evaluator.
    """
    found: Any = _import(kind) if ":" in kind else load(EVALUATORS, kind)
    if not (isinstance(found, type) and issubclass(found, Evaluator)):
        raise ConfigError(f"{kind!r} is no evaluator; it should be a class derived from evaluators.Evaluator")
    return found  # pyright: ignore[reportUnknownVariableType]


def _of(group: str) -> EntryPoints:
    return _installed(group, tuple(sys.path))


@lru_cache(maxsize=8)
def _installed(group: str, _path: tuple[str, ...]) -> EntryPoints:
    """A group's entry points on this path. Finding them reads a file of each package there is: once is enough."""
    return entry_points(group=group)


def _import(reference: str) -> Any:
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{reference!r} cannot be imported ({error}); write module:Class") from error
