"""JSON of others: whole numbers of more than 64 bits keep their digits, and half a character refuses nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from collector.commands.normalize import main
from collector.dialects.decode import decode, decode_json
from collector.records.ready_made import documents_in, turns_in
from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from evaluators.texts.exact_json import parse_exactly

LONG = "12345678901234567890123"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f'{{"id": {LONG}}}', {"id": LONG}),
        (f"[-{LONG}, 1.5, {2**63 - 1}, {2**64 - 1}, {2**64}]", [f"-{LONG}", 1.5, 2**63 - 1, 2**64 - 1, str(2**64)]),
        (f'["{LONG}", 1{"0" * 30}.5]', [LONG, 1e30]),
        ("[1, 2.0, true, null]", [1, 2.0, True, None]),
    ],
    ids=["object", "limits", "texts and fractions", "short"],
)
def test_digits_survive(text: str, value: object) -> None:
    assert parse_exactly(text) == value
    assert parse_exactly(text.encode()) == value
    assert decode(text) == value
    assert decode_json(text) == value


@pytest.mark.parametrize("text", ["{", f"[{LONG}", f"[{LONG},]", "NaN"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_exactly(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'["cut \ud83d"]', ["cut \ufffd"]),
        (r'["\uDE00 begun", "\ud83d\ude00"]', ["\ufffd begun", "\U0001f600"]),
        (r'["\ud83d\ud83d\ude00"]', ["\ufffd\U0001f600"]),
        (r'["\\ud83d \\\ud83d \ud83d"]', [r"\ud83d" + " \\\ufffd \ufffd"]),
        (r'{"\ud83d": ' + LONG + "}", {"\ufffd": LONG}),
    ],
    ids=["end", "beginning", "before a whole one", "escaped backslashes", "beside a long number"],
)
def test_half_a_character_is_replaced(text: str, value: object) -> None:
    assert parse_exactly(text) == value
    assert parse_exactly(text.encode()) == value
    assert decode(text) == value


def test_arguments_of_tools_are_read_and_written_as_they_came(tmp_path: Path) -> None:
    called = f'{{"name": "refund", "arguments": {{"order": {LONG}}}, "result": [{LONG}]}}'
    line = f'{{"turn_id": "t", "input": "a", "actual_output": "b", "tools_called": [{called}]}}'
    [document] = documents_in(line)
    [turn] = turns_in(document)
    assert turn.tools_called[0].arguments == {"order": LONG}
    path = tmp_path / "turns.jsonl"
    path.write_text(line)
    out = io.StringIO()
    assert main([path], out, io.StringIO()) == 0
    assert json.loads(out.getvalue())["tools_called"][0] == {
        "name": "refund",
        "arguments": {"order": LONG},
        "result": [LONG],
    }


def test_redaction_of_one_field_rounds_no_other() -> None:
    text = Redactor([find], b"0123456789abcdef").text(f'{{"mail": "ada@example.com", "order": {LONG}}}')
    assert LONG in text
    assert "ada" not in text
