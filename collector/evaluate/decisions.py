"""Decisions that the owner of a partition takes by what the log of turns does not tell a replay.

Money spent, memory used, and whether what carries a conversation forward still held when it was read: that may depend
on records which a replay does not begin with.

They are written into the evaluations log, with the position of the turns log from which they hold, before anything is
done by them. It is read back on assignment anyway, so a replay takes the same decisions at the same positions. In the
log of turns itself they would stand behind all that is waiting there, and hold only when it is too late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.evaluate.rates import Rates
from collector.logs.log import Headers, Record

DECISION: Headers = (("decision", b"1"),)
"""The headers of a decision: no evaluation, and nothing to export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """From before the record at position `at`: the rates in force, and which conversations, by monitor, are evicted.

    `carried` says of records at and after `at` that carry a conversation whether they hold; the last word on a position
    counts. `account` is what the owner knew of the money spent on the partition.
    """

    at: int
    rates: Rates | None = None
    evicted: Mapping[str, Sequence[str]] | None = None
    carried: Mapping[int, bool] | None = None
    account: Mapping[str, Any] | None = None

    def record(self, partition: int) -> Record:
        """The record to append."""
        plain: dict[str, Any] = {"at": self.at}
        if self.rates is not None:
            plain |= {"rates": self.rates.plain(), "account": self.account}
        if self.evicted is not None:
            plain["evicted"] = self.evicted
        if self.carried is not None:
            plain["carried"] = list(self.carried.items())
        return Record(None, orjson.dumps(plain), DECISION, partition)


def decision_from(value: bytes) -> Decision:
    """Read a decision.

    Raises:
        BadInput: it is none that this version can read.
    """
    try:
        plain = cast("dict[str, Any]", orjson.loads(value))
        rates, carried = plain.get("rates"), plain.get("carried")
        return Decision(
            at=plain["at"],
            rates=None if rates is None else Rates.read(rates),
            evicted=plain.get("evicted"),
            carried=None if carried is None else dict(carried),
            account=plain.get("account"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"not a decision: {type(error).__name__}") from None
