"""Outcomes of the application's own world, like a ticket that was reopened: 1 where the value is a good one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evaluators.cases import Json
from evaluators.results import Score

OUTCOME = "outcome."
"""The prefix of an outcome's attribute."""


def score_outcome(attributes: Mapping[str, Json], name: str, good: Sequence[str | bool | float]) -> Score:
    """1 if the outcome is among the good values, else 0. `true` is not 1."""
    value = attributes[f"{OUTCOME}{name}"]
    is_good = any(isinstance(each, bool) == isinstance(value, bool) and each == value for each in good)
    return Score(value=float(is_good), explanation=f"{name} is {'one of the good values' if is_good else 'another'}")
