"""Evaluators of turns whose score is made of two shares, like precision and recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from evaluators.asking.windows import WindowSettings
from evaluators.cases import Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.mechanisms.item_verdicts import VerdictSettings
from evaluators.mechanisms.turn_ratio import TurnRatioSpec
from evaluators.results import Score


class TwoRatios(VerdictSettings, WindowSettings, Evaluator[Turn]):
    """Two shares of one turn, each with the items of a spec, and a score that is made of them."""

    first: ClassVar[TurnRatioSpec]
    second: ClassVar[TurnRatioSpec]

    @property
    def rounds(self) -> int:
        """For each share one to take a text apart, and one for the verdicts."""
        return 4

    @property
    def needs_writer(self) -> bool:
        """See `Evaluator.needs_writer`: the items."""
        return True

    @property
    def lowest_if_trivial(self) -> str | None:
        """The answer."""
        return "actual_output"

    def combine(self, value: float, shares: Mapping[str, Score]) -> Score:
        """The score, with both shares and their items in its details."""
        details: dict[str, Json] = {name: {"share": share.value, **share.details} for name, share in shares.items()}
        if any(share.details.get("truncated") for share in shares.values()):
            details["truncated"] = True
        explanation = " ".join(f"{name}: {share.explanation}" for name, share in shares.items())
        method = next(iter(shares.values())).method
        return Score(value=value, explanation=explanation, details=details, method=method)
