"""Replay points, from which a partition's state can be rebuilt, and the metadata committed for a restart.

The state depends on the records from the low watermark on, and on three things from before: the time that had passed,
the sampling rates in force, and which of the evaluations that these records lead to are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import orjson

from collector.evaluate.budget.rates import FULL_RATES, RateReduction, Rates


class ReplayPoint(NamedTuple):
    """An offset, the partition's time (s since the epoch) just before its record, and the rates in force there."""

    offset: int
    time: float = 0.0
    rates: Rates = FULL_RATES


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What is committed beside the two offsets.

    `ledger_offset` is where to begin reading the evaluations log back. Evaluations that records below `done_below` led
    to are done. `replay_point` is that of the low watermark.
    """

    ledger_offset: int = 0
    done_below: int = 0
    replay_point: ReplayPoint = field(default_factory=lambda: ReplayPoint(0))

    def to_json(self) -> str:
        """As JSON. It grows with the monitors that have a budget; the configuration is checked for that."""
        parts: dict[str, Any] = {"l": self.ledger_offset, "e": self.done_below, "t": round(self.replay_point.time, 6)}
        if self.replay_point.rates.by_monitor:
            parts["r"] = self.replay_point.rates.to_json()
        return orjson.dumps(parts).decode()

    @classmethod
    def from_json(cls, text: str, low_watermark: int) -> CommitMetadata:
        """Read what `to_json` gave; an empty text is the metadata of a first start."""
        if not text:
            return cls(replay_point=ReplayPoint(low_watermark))
        parts = cast("Mapping[str, Any]", orjson.loads(text))
        rates = Rates.from_json(cast("Mapping[str, Any]", parts.get("r", {})))
        return cls(
            ledger_offset=parts["l"], done_below=parts["e"], replay_point=ReplayPoint(low_watermark, parts["t"], rates)
        )


_FAR = 1 << 50


def longest_metadata(limited: Iterable[str]) -> CommitMetadata:
    """The longest possible metadata, given the names of the monitors that have a budget."""
    rates = Rates({name: RateReduction(0.00123456, fallback=True) for name in limited})
    return CommitMetadata(ledger_offset=_FAR, done_below=_FAR, replay_point=ReplayPoint(_FAR, 9e9 + 0.123456, rates))
