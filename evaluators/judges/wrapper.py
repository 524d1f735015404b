"""The base of judges around a judge."""

from __future__ import annotations

from evaluators.asking.sight import sight_of
from evaluators.judge import Judge, decides, takes_packs


class JudgeWrapper:
    """A judge around a judge, under its model's name. A subclass's `ask` adds one thing and asks `inner`.

    Wrapping is nesting, so the order of a chain is the order of its calls; `collector/judging/layers.py` has the
    service's as a list.
    """

    def __init__(self, inner: Judge) -> None:
        self.inner = inner
        self.model = inner.model
        self.sight = sight_of(inner)
        self.takes_packs: bool = takes_packs(inner)
        self.decides: bool = decides(inner)
