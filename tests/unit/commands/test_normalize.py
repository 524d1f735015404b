"""Messages of `evalstream turns` on wrong files: line, field and requirement, and nothing of the content."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from collector.commands.normalize import main

TURN = '{"input": "a", "actual_output": "b"}'
WRONG = '{"input": "a", "actual_output": "b", "retrieval_context": "secret"}'

NEITHER = (
    "is neither an OTLP request nor a turn, a conversation or a chat: it has the keys foo; name the question input and "
    "the answer actual_output"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{TURN}\n\n{WRONG}\n", "line 3: retrieval_context must be an array of strings"),
        (WRONG, "retrieval_context must be an array of strings"),
        (f"[{TURN}, {WRONG}]", "element 2: retrieval_context must be an array of strings"),
        (f"{TURN}\n\n{{\n", "line 3 is not JSON; write one JSON object a line, or remove it"),
        (f'{TURN}\n\n{{"foo": 1}}\n', f"line 3 {NEITHER}"),
        ('{"foo": 1}', f"the file {NEITHER}"),
        ("\n", "is empty; give OTLP, or turns with one JSON object per line"),
        ("hello\n", "not JSON; give OTLP, or turns with one JSON object per line"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text(text)
    out, err = io.StringIO(), io.StringIO()
    assert main([path], out, err) == 2
    assert err.getvalue() == f"evalstream: {path}: {message}\n"


def test_files_without_turns_are_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    path.write_text('{"resourceSpans": []}')
    for explained, message in ((False, "no turns found; --explain shows why"), (True, "no traces found")):
        err = io.StringIO()
        assert main([path], io.StringIO(), err, explained=explained) == 0
        assert err.getvalue() == f"evalstream: {path}: {message}\n"


def test_log_records_that_no_trace_has_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "logs.json"
    record = {"attributes": [{"key": "event.name", "value": {"stringValue": "codex.sse_event"}}]}
    path.write_text(json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record, record]}]}]}))
    out = io.StringIO()
    assert main([path], out, io.StringIO(), explained=True) == 0
    said = "not read: 2 log records with neither a trace id nor a prompt's id: codex.sse_event (2)\n"
    assert out.getvalue() == said


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x1f\x8b\x08\x00", "is compressed; decompress it first: gunzip"),
        (
            "plain text, äöü, cut at 1,000 bytes\n".encode() * 40,
            "not JSON; give OTLP, or turns with one JSON object per line",
        ),
        (b"\xff\xfe\x00garbage", "not an OTLP protobuf request of traces or logs; a file holds one request"),
    ],
    ids=["compressed", "text", "bytes"],
)
def test_a_file_that_is_nothing_known_says_what_it_is(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "message.bin"
    path.write_bytes(data)
    err = io.StringIO()
    assert main([path], io.StringIO(), err) == 2
    assert err.getvalue() == f"evalstream: {path}: {message}\n"
