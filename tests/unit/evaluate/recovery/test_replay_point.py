"""What is committed beside the offsets, as text."""

from __future__ import annotations

from dataclasses import replace

from collector.evaluate.budget.rates import RateReduction, Rates
from collector.evaluate.recovery.replay_point import MAX_METADATA, CommitMetadata, ReplayPoint, longest_metadata


def test_metadata_is_json_with_a_time_to_the_microsecond() -> None:
    metadata = CommitMetadata(ledger_offset=7, done_below=9, replay_point=ReplayPoint(3, 1.23456789))
    assert metadata.to_json() == '{"l":7,"e":9,"t":1.234568}'
    assert CommitMetadata.from_json(metadata.to_json(), 3).replay_point == ReplayPoint(3, 1.234568)


def test_rates_are_part_of_it_where_there_are_budgets() -> None:
    rates = Rates({"m": RateReduction(0.5, fallback=True)})
    metadata = CommitMetadata(ledger_offset=7, done_below=9, replay_point=ReplayPoint(3, 1.0, rates))
    assert metadata.to_json() == '{"l":7,"e":9,"t":1.0,"r":{"m":-0.5}}'
    assert CommitMetadata.from_json(metadata.to_json(), 3) == metadata


def test_a_first_start_begins_where_it_has_interval() -> None:
    assert CommitMetadata.from_json("", 5) == CommitMetadata(0, 0, ReplayPoint(5))


def test_no_metadata_is_longer_than_the_longest() -> None:
    longest = longest_metadata(["m"]).to_json()
    rates = Rates({"m": RateReduction(0.00987654, fallback=True)})
    for metadata in (
        CommitMetadata(2**50, 2**50, ReplayPoint(2**50, 8999999999.654321, rates)),
        CommitMetadata(10**12, 10**13, ReplayPoint(10**14, 1764000000.123457, rates)),
    ):
        assert len(metadata.to_json()) <= len(longest)


PENDING = CommitMetadata(1, 2, ReplayPoint(0, 3.5), pending={"slow": 2, "b": 5}, past=(7,))


def test_what_no_room_is_for_is_left_out_and_the_offsets_of_all_serve() -> None:
    many = {f"evaluator-{n}": n for n in range(200)}
    small = CommitMetadata.from_json(replace(PENDING, pending=many).to_json(), 0)
    assert len(replace(PENDING, pending=many).to_json()) <= MAX_METADATA
    assert (small.pending, small.past) == (None, PENDING.past)
    assert small.done_below_of("evaluator-7", delivered=90) == 2


def test_who_has_nothing_pending_has_done_all_that_was_delivered() -> None:
    read = CommitMetadata.from_json(PENDING.to_json(), 0)
    assert [read.done_below_of(name, delivered=90) for name in ("slow", "b", "fast")] == [2, 5, 90]
    assert CommitMetadata(1, 2).done_below_of("fast", delivered=90) == 2
