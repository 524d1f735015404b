from __future__ import annotations

import pytest
from evaluation_samples import scored, skipped

from collector.backoff import Backoff
from collector.export.exporter import ExportUnavailable
from collector.export.stage import ExportStage
from collector.logs.log import TICK, StoredRecord
from collector.records.epochs import REMEMBERED
from collector.records.json import evaluation_to_json
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS, EXPORT_EVALUATIONS, EXPORT_FAILURES, EXPORT_LAG


class Recorder:
    """An exporter that is down a few times, then takes what it gets."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.batches: list[list[str]] = []

    async def export(self, batch) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.batches.append([each.evaluation_id for each in batch])


class Staged:
    def __init__(self, *errors: BaseException) -> None:
        self.exporter = Recorder(*errors)
        self.telemetry = Telemetry()
        self.waits: list[float] = []
        self.bad: list[StoredRecord] = []
        self.stage = ExportStage(
            "recorder",
            self.exporter,
            self.telemetry,
            backoff=Backoff(sleep=self._sleep, chance=lambda: 1.0),
            clock=lambda: 107.0,
            on_bad_record=lambda record, _error: self.bad.append(record),
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def exported(self, result: str) -> float:
        return self.telemetry.counter(EXPORT_EVALUATIONS, "recorder", result)._value.get()


def record(position: int, value: bytes, headers=()) -> StoredRecord:
    return StoredRecord(0, position, 100.0, b"key", value, headers)


def of(number: int) -> StoredRecord:
    return record(number, evaluation_to_json(scored(number)))


async def test_exports_a_delivery_as_one_batch_and_says_how_late():
    staged = Staged()
    async with staged.stage.open_fold(0, None) as fold:
        await fold.deliver([of(1), of(2)])
        assert (fold.low_watermark, fold.due_at, fold.metadata) == (None, None, "")
    assert staged.exporter.batches == [[f"{1:032x}", f"{2:032x}"]]
    assert staged.exported("exported") == 2
    assert staged.telemetry.gauge(EXPORT_LAG, "recorder")._value.get() == 7.0
    assert staged.stage.group == "export.recorder"


async def test_an_exporter_that_ends_the_program_fails_as_by_any_other_exception():
    """The task's exception ended the event loop, and the process without a line."""
    staged = Staged(SystemExit(3))
    async with staged.stage.open_fold(0, None) as fold:
        with pytest.raises(RuntimeError, match=r"the exporter has called sys\.exit\(3\)"):
            await fold.deliver([of(1)])
        await fold.deliver([of(2)])
    assert staged.exporter.batches == [[f"{2:032x}"]]


async def test_what_the_destination_refused_is_not_counted_as_exported():
    staged = Staged()

    async def refuse_one(batch) -> int:
        assert len(batch) == 3
        return 1

    staged.exporter.export = refuse_one
    async with staged.stage.open_fold(0, None) as fold:
        await fold.deliver([of(1), of(2), of(3)])
    assert (staged.exported("exported"), staged.exported("rejected")) == (2, 1)


async def test_replay_is_silent():
    staged = Staged()
    async with staged.stage.open_fold(0, None) as fold:
        await fold.replay([of(1)])
    assert staged.exporter.batches == []


async def test_waits_longer_and_longer_while_the_destination_is_down():
    staged = Staged(*[ExportUnavailable("down", reason="no_connection")] * 4)
    async with staged.stage.open_fold(0, None) as fold:
        await fold.deliver([of(1)])
    assert staged.waits == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert len(staged.exporter.batches) == 1
    assert staged.telemetry.counter(EXPORT_FAILURES, "recorder", "no_connection")._value.get() == 4


async def test_waits_as_long_as_the_destination_asks():
    staged = Staged(ExportUnavailable("busy", retry_after=42.0))
    async with staged.stage.open_fold(0, None) as fold:
        await fold.deliver([of(1)])
    assert staged.waits == [42.0]


async def test_a_bug_in_an_exporter_is_no_reason_to_wait():
    staged = Staged(KeyError("bug"))
    async with staged.stage.open_fold(0, None) as fold:
        with pytest.raises(KeyError):
            await fold.deliver([of(1)])


async def test_unreadable_records_are_counted_and_passed():
    staged = Staged()
    async with staged.stage.open_fold(0, None) as fold:
        await fold.deliver([record(0, b"{nothing"), of(1), record(2, b'{"evaluation_id": 5}'), record(3, b"", TICK)])
    assert staged.exporter.batches == [[f"{1:032x}"]]
    assert [each.offset for each in staged.bad] == [0, 2]
    assert staged.exported("unreadable") == 2
    assert staged.telemetry.counter(DROPS, "export", "unreadable")._value.get() == 2


async def test_an_id_seen_recently_is_not_exported_again():
    staged = Staged()
    async with staged.stage.open_fold(0, None) as fold:
        await fold.deliver([of(1), of(1)])
        await fold.deliver([of(1), of(2)])
        await fold.deliver([of(2)])
    assert staged.exporter.batches == [[f"{1:032x}"], [f"{2:032x}"]]
    assert staged.exported("duplicate") == 3


async def test_what_is_remembered_is_bounded():
    staged = Staged()
    value = evaluation_to_json(skipped(0))
    async with staged.stage.open_fold(0, None) as fold:
        numbered = [value.replace(f"{0:032x}".encode(), f"{n:032x}".encode()) for n in range(REMEMBERED + 500)]
        await fold.deliver([record(n, each) for n, each in enumerate(numbered)])
        assert len(fold._seen._ids) == REMEMBERED
