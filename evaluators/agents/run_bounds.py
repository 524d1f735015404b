"""Bounds of an agent's run: steps, calls, tokens, money, time."""

from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import Field, model_validator

from evaluators.cases import Json, Turn
from evaluators.descriptions import Described
from evaluators.errors import NotApplicable
from evaluators.results import Score, SkipReason

MEASURES = ("tool_calls", "model_calls", "steps", "input_tokens", "output_tokens", "usd", "seconds")


_FIELDS = {"usd": "usage", "input_tokens": "usage", "output_tokens": "usage", "seconds": "ended_at"}
"""The field of a turn that a measure needs; a measure that is not here needs `model_calls`."""


class RunBounds(Described):
    """The bounds; at least one is set."""

    max_tool_calls: int | None = Field(default=None, ge=1)
    """Most calls of tools."""
    max_model_calls: int | None = Field(default=None, ge=1)
    """Most calls of models."""
    max_steps: int | None = Field(default=None, ge=1)
    """Most calls of tools and models together."""
    max_input_tokens: int | None = Field(default=None, ge=1)
    """Most tokens that the models read."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Most tokens that the models wrote."""
    max_usd: float | None = Field(default=None, gt=0)
    """Most that the tokens cost; needs both prices."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Longest time from request to answer."""
    usd_per_million_input_tokens: float | None = Field(default=None, ge=0)
    """Price of the tokens that models read."""
    usd_per_million_output_tokens: float | None = Field(default=None, ge=0)
    """Price of the tokens that models write."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not self.bounds:
            raise ValueError(f"give at least one of {', '.join(f'max_{name}' for name in MEASURES)}")
        priced = self.usd_per_million_input_tokens is not None and self.usd_per_million_output_tokens is not None
        if self.max_usd is not None and not priced:
            raise ValueError("max_usd: needs usd_per_million_input_tokens and usd_per_million_output_tokens")
        return self

    @property
    def bounds(self) -> Mapping[str, float]:
        """The bound of each measure that has one."""
        return {name: float(bound) for name in MEASURES if (bound := getattr(self, f"max_{name}")) is not None}

    def measure(self, turns: Sequence[Turn]) -> Mapping[str, float]:
        """The totals of the turns by measure; only the measures that all turns report."""
        of_turns = [self._measure(turn) for turn in turns]
        return {
            name: sum(of_turn[name] for of_turn in of_turns)
            for name in MEASURES
            if all(name in of_turn for of_turn in of_turns)
        }

    def _measure(self, turn: Turn) -> dict[str, float]:
        values: dict[str, float] = {"tool_calls": len(turn.tools_called)}
        if turn.model_calls is not None:
            values |= {"model_calls": turn.model_calls, "steps": turn.model_calls + len(turn.tools_called)}
        if turn.usage is not None:
            read, written = turn.usage.input_tokens, turn.usage.output_tokens
            values |= {"input_tokens": read, "output_tokens": written}
            of_read, of_written = self.usd_per_million_input_tokens or 0, self.usd_per_million_output_tokens or 0
            values["usd"] = (read * of_read + written * of_written) / 1_000_000
        if turn.started_at is not None and turn.ended_at is not None:
            values["seconds"] = max(0.0, (turn.ended_at - turn.started_at).total_seconds())
        return values

    def score(self, turns: Sequence[Turn]) -> Score:
        """1 within all bounds; beyond a bound it falls evenly, to 0 at twice the bound. The worst bound counts.

        Raises:
            NotApplicable: the turns do not report a bounded measure.
        """
        measured, bounds = self.measure(turns), self.bounds
        if lacking := [name for name in bounds if name not in measured]:
            raise NotApplicable(SkipReason.MISSING_FIELD.text(_FIELDS.get(lacking[0], "model_calls")))
        shares = {name: measured[name] / bound for name, bound in bounds.items()}
        worst = max(shares, key=lambda name: shares[name])
        details: dict[str, Json] = {name: round(value, 9) for name, value in measured.items()}
        return Score(
            value=min(1.0, max(0.0, 2.0 - shares[worst])),
            explanation=f"{measured[worst]:g} {worst} of {bounds[worst]:g}",
            details=details,
        )
