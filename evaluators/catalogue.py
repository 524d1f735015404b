"""Every evaluator that is installed."""

from importlib.metadata import entry_points
from typing import Any, cast

from evaluators.evaluator import Evaluator

GROUP = "evalstream.evaluators"
"""The group of entry points that name evaluators: evalstream's own and the plug-ins'."""


def load_evaluators() -> dict[str, type[Evaluator[Any]]]:
    """Every installed evaluator by its kind, in alphabetical order. Imports them all."""
    loaded = {point.name: point.load() for point in entry_points(group=GROUP)}
    return {kind: cast("type[Evaluator[Any]]", loaded[kind]) for kind in sorted(loaded)}


def make_example(cls: type[Evaluator[Any]]) -> Evaluator[Any]:
    """An evaluator of this class in its smallest useful configuration, named after its kind."""
    return cls(name=cls.kind, **cls.example)
