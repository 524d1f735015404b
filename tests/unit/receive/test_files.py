from __future__ import annotations

from pathlib import Path

import pytest
from log_doubles import FailingLog, PickyLog, stored
from otlp_samples import logs_request, trace_id, traces_request

from collector.errors import ConfigError
from collector.receive.files import first_unreadable, read_files
from collector.records.shared_records import divide_records
from collector.telemetry.registry import Telemetry

ONE, TWO = trace_id(1), trace_id(2)
JSON_TRACES = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s"}]}]}]}' % ONE.hex().encode()
JSON_LOGS = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"%s"}]}]}]}' % TWO.hex().encode()


async def signals(*paths: Path) -> list[bytes]:
    log = FailingLog()
    await read_files(paths, log, FailingLog(), Telemetry())
    return [record.headers[0][1] for record in divide_records(await stored(log))]


async def test_a_directory_is_its_files_in_name_order(tmp_path: Path):
    (tmp_path / "002-logs.pb").write_bytes(logs_request(ONE).SerializeToString())
    (tmp_path / "001-traces.pb").write_bytes(traces_request(ONE, TWO).SerializeToString())
    (tmp_path / "expected.txt").write_text("not OTLP")
    assert await signals(tmp_path) == [b"traces", b"traces", b"logs"]


async def test_the_signal_is_found_without_a_telling_name(tmp_path: Path):
    (tmp_path / "a.pb").write_bytes(logs_request(ONE, TWO).SerializeToString())
    (tmp_path / "b.pb").write_bytes(traces_request(ONE).SerializeToString())
    (tmp_path / "c.jsonl").write_bytes(JSON_LOGS + b"\n\n" + JSON_TRACES + b"\n")
    (tmp_path / "d-traces.json").write_bytes(JSON_LOGS)
    assert await signals(tmp_path) == [b"logs", b"logs", b"traces", b"logs", b"traces", b"logs"]


async def test_unreadable_requests_are_counted_and_passed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "traces.jsonl"
    path.write_bytes(JSON_TRACES + b"\n{broken\n" + JSON_TRACES + b"\n")
    log = FailingLog()
    count = await read_files([path], log, FailingLog(), Telemetry())
    assert (count.requests, count.items, count.unreadable) == (3, 2, 1)
    assert f"{path}:2 is skipped" in caplog.text


async def test_a_trace_too_large_for_the_log_is_counted_and_its_neighbours_are_kept(tmp_path: Path):
    (tmp_path / "traces.pb").write_bytes(traces_request(ONE, text="x" * 2000).SerializeToString())
    (tmp_path / "traces2.json").write_bytes(JSON_TRACES)
    log = PickyLog(limit=1000)
    count = await read_files([tmp_path], log, FailingLog(), Telemetry())
    assert count.unreadable == 1
    assert len(await stored(log)) == 1


@pytest.mark.parametrize("name", ["missing.pb", "notes.txt"])
async def test_wrong_paths_are_configuration_errors(tmp_path: Path, name: str):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ConfigError, match=name):
        await read_files([tmp_path / name], FailingLog(), FailingLog(), Telemetry())


def test_the_first_line_that_cannot_be_read_is_known_before_the_service_runs(tmp_path: Path) -> None:
    path = tmp_path / "qa.jsonl"
    path.write_text('{"input": "q", "actual_output": "a", "category": "c"}\n' * 150)
    assert first_unreadable(path) == (
        f'{path}:1 cannot be read: category: unknown key in a turn; write what is your own as "attributes": '
        '{"category": …}'
    )
    path.write_text('{"input": "q", "actual_output": "a", "human": true, "attributes": {"category": "c"}}\n' * 150)
    assert first_unreadable(path) is None
