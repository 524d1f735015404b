"""A place in the turns log from which a fold can be rebuilt, and what a fold commits so that a restart can do it.

A fold's state depends on the records from its low watermark on, and on three things that came about before: the time
that had passed, the sampling rates in force, and which of the evaluations that these records lead to are done with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import orjson

from collector.evaluate.rates import FULL, Rates, Share


class Mark(NamedTuple):
    """A position, the fold's time (s since the epoch) just before its record, and the rates in force there."""

    position: int
    time: float = 0.0
    rates: Rates = FULL


@dataclass(frozen=True, slots=True)
class Note:
    """What a fold commits beside the two numbers.

    `ledger` is from where to read the evaluations log back. Evaluations that records below `emitted` led to are done.
    `start` is the mark at the low watermark.
    """

    ledger: int = 0
    emitted: int = 0
    start: Mark = field(default_factory=lambda: Mark(0))

    def text(self) -> str:
        """As JSON. It grows with the monitors that have a budget; the configuration is checked for that."""
        parts: dict[str, Any] = {"l": self.ledger, "e": self.emitted, "t": round(self.start.time, 6)}
        if self.start.rates.by_monitor:
            parts["r"] = self.start.rates.plain()
        return orjson.dumps(parts).decode()

    @classmethod
    def read(cls, text: str, low_watermark: int) -> Note:
        """Read what `text` gave; from an empty one everything begins anew."""
        if not text:
            return cls(start=Mark(low_watermark))
        parts = cast("Mapping[str, Any]", orjson.loads(text))
        rates = Rates.read(cast("Mapping[str, Any]", parts.get("r", {})))
        return cls(ledger=parts["l"], emitted=parts["e"], start=Mark(low_watermark, parts["t"], rates))


_FAR = 1 << 50


def longest_note(limited: Iterable[str]) -> Note:
    """A note that is as long as any can be, by the names of the monitors that have a budget."""
    rates = Rates({name: Share(0.00123456, fallback=True) for name in limited})
    return Note(ledger=_FAR, emitted=_FAR, start=Mark(_FAR, 9e9 + 0.123456, rates))
