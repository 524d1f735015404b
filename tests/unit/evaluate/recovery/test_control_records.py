"""Control records as the log holds them, and what is not one."""

from __future__ import annotations

import orjson
import pytest

from collector.errors import BadInput
from collector.evaluate.budget.rates import RateReduction, Rates
from collector.evaluate.recovery.control_records import CONTROL_HEADERS, ControlRecord, parse_control_record

RATES = Rates({"m": RateReduction(0.25, fallback=True), "n": RateReduction(0.5)})


@pytest.mark.parametrize(
    ("control", "plain"),
    [
        (ControlRecord(offset=7), {"at": 7}),
        (
            ControlRecord(offset=7, rates=RATES, budget={"spent": 3}),
            {"at": 7, "rates": {"m": -0.25, "n": 0.5}, "account": {"spent": 3}},
        ),
        (ControlRecord(offset=7, evictions={"m": ["c"]}), {"at": 7, "evicted": {"m": ["c"]}}),
        (
            ControlRecord(offset=7, snapshot_validity={8: True, 9: False}),
            {"at": 7, "carried": [[8, True], [9, False]]},
        ),
    ],
)
def test_it_is_read_as_it_was_written(control: ControlRecord, plain: object) -> None:
    record = control.to_record(3)
    assert (record.key, record.headers, record.partition) == (None, CONTROL_HEADERS, 3)
    assert orjson.loads(record.value) == plain
    assert parse_control_record(record.value) == control


@pytest.mark.parametrize(
    "value", [b"", b"{", b"{}", b"[]", b"7", b'{"at": 1, "rates": 3}', b'{"at": 1, "carried": [3]}']
)
def test_anything_else_is_bad_input(value: bytes) -> None:
    with pytest.raises(BadInput):
        parse_control_record(value)
