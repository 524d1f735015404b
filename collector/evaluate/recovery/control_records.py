"""Control records: decisions of a partition's owner that a replay cannot derive from the turns log.

These decisions depend on the money spent, the memory used, the validity of a snapshot when it was read (which may
depend on records before a replay's first one), and the time when the configuration changed.

They are written into the evaluations log, with the offset of the turns log from which they apply, before they take
effect. That log is read back on assignment anyway, so a replay makes the same decisions at the same offsets. In the
turns log they would lie after the whole backlog, and take effect too late.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.evaluate.budget.rates import Rates
from collector.logs.log import Record, StoredRecord
from collector.records.epochs import CONTROL_HEADERS
from collector.records.json import not_none, readable


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """Decisions that apply before the record at `offset`: the rates, and the conversations to evict, by monitor.

    `snapshot_validity` says whether the snapshots at and after `offset` are valid; the last record about an offset
    counts. `budget` is the partition's budget as its owner knew it. `configuration` is the number of the configuration
    that applies from `offset` on. `stopped` marks an owner's last record: no owner so far has applied records from
    `offset` on, and this one has counted those before `new_from`. `batches` reports events of batches; it is no
    decision, and has no offset.
    """

    offset: int
    rates: Rates | None = None
    evictions: Mapping[str, Sequence[str]] | None = None
    snapshot_validity: Mapping[int, bool] | None = None
    budget: Mapping[str, Any] | None = None
    configuration: int | None = None
    stopped: bool = False
    new_from: int = 0
    batches: Mapping[str, Any] | None = None

    def to_record(self, partition: int) -> Record:
        """The record to append."""
        plain: dict[str, Any] = {"at": self.offset}
        if self.rates is not None:
            plain |= {"rates": self.rates.to_json(), "account": self.budget}
        if self.snapshot_validity is not None:
            plain["carried"] = list(self.snapshot_validity.items())
        plain |= not_none(evicted=self.evictions, configuration=self.configuration, stopped=self.stopped or None)
        plain |= not_none(new_from=self.new_from or None, batches=self.batches)
        return Record(None, orjson.dumps(plain), CONTROL_HEADERS, partition)


def decisions_in(record: StoredRecord) -> Sequence[ControlRecord]:
    """The decisions in a control record; none in a claim, an event of batches, or a record of a later version."""
    control = readable(parse_control_record, record.value)
    return () if control is None or control.batches is not None else (control,)


def parse_control_record(value: bytes) -> ControlRecord:
    """Read a control record.

    Raises:
        BadInput: it is not one that this version can read.
    """
    try:
        plain = cast("dict[str, Any]", orjson.loads(value))
        rates, validity = plain.get("rates"), plain.get("carried")
        return ControlRecord(
            offset=plain["at"],
            rates=None if rates is None else Rates.from_json(rates),
            evictions=plain.get("evicted"),
            snapshot_validity=None if validity is None else dict(validity),
            budget=plain.get("account"),
            configuration=plain.get("configuration"),
            stopped=plain.get("stopped", False),
            new_from=plain.get("new_from", 0),
            batches=plain.get("batches"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"not a control record: {type(error).__name__}") from None
