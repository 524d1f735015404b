"""`evalstream dead-letters` on a file that a service has left behind."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

from configurations import checked
from rich.console import Console

from collector.commands.dead_letters import LetterFilter, list_letters, redrive_letters, show_letter
from collector.config.configured import Config
from collector.dead_letters import append_letters, letter_of, letters_in
from collector.errors import BadInput
from collector.logs.log import StoredRecord
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.receive.otlp_ingest import IngestRules
from collector.records.json import turn_from_json, turn_to_json
from collector.redact.open_redactor import Redactors, open_redactor
from collector.service.open_logs import open_logs
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn

TURN = turn_to_json(Turn(turn_id="t", input="a", actual_output="b"))


def config(folder: Path) -> Config:
    return checked({"exact": {"kind": "exact_match"}}, folder=folder)


async def left_behind(made: Config) -> list[str]:
    letters = [
        letter_of("evaluate", "turns", StoredRecord(0, 1, 1.0, b"c", TURN), BadInput("not a turn\x1b[2J"), keep=True),
        letter_of(
            "receive",
            "otlp_spans",
            StoredRecord(0, 2, 1.0, None, b"\xff"),
            BadInput("no OTLP"),
            keep=True,
            signal="traces",
        ),
        letter_of("assemble", "spans", StoredRecord(0, 3, 1.0, b"k", b"x"), BadInput("no OTLP"), keep=False),
    ]
    async with open_logs(made.settings.log) as logs:
        await append_letters(logs.dead_letters, letters)
    return [letter.letter_id for letter in letters]


async def test_list_show_and_redrive(tmp_path):
    made = config(tmp_path)
    evaluate, receive, assemble = await left_behind(made)
    said: list[str] = []

    table = io.StringIO()
    assert await list_letters(made, LetterFilter(), Console(file=table, width=200), as_json=False) == 0
    assert all(each in table.getvalue() for each in (evaluate, receive, assemble))
    assert "\x1b[2J" not in table.getvalue()

    assert await show_letter(made, evaluate, said.append) == 0
    assert any(line.startswith("value:") and '"turn_id":"t"' in line for line in said)
    assert not any("\x1b" in line for line in said)

    said.clear()
    assert await redrive_letters(made, LetterFilter(), said.append) == 1
    assert said[-1] == "1 redriven, 2 failed again"
    async with open_logs(made.settings.log) as logs:
        turns = [record async for batch in logs.turns.read(0, 0) for record in batch]
        letters = {each.letter_id: each async for each in letters_in(logs.dead_letters)}
    assert [(each.key, each.value, dict(each.headers)) for each in turns] == [(b"c", TURN, {"attempts": b"1"})]
    assert letters[evaluate].state == "redriven"
    assert letters[evaluate].value is None
    assert letters[receive].attempts == 2

    assert await redrive_letters(made, LetterFilter(ids=(evaluate,)), said.append) == 0, (
        "what was processed again is done"
    )


async def test_ready_made_turns_are_redriven_into_the_turns_log_with_the_ids_that_the_topic_gave(tmp_path):
    """A letter whose message can be processed now, as after an update. Twice: the second gives the same turns."""
    made = config(tmp_path)
    message = StoredRecord(3, 5, 1_700_000_000.0, None, b'[{"input": "ada@example.com", "actual_output": "b"}]')
    letter = letter_of("receive", "chats", message, BadInput("was not read"), keep=True, signal="turns")
    said: list[str] = []
    async with open_logs(made.settings.log) as logs:
        turns, telemetry = logs.turns, Telemetry()
        for _ in range(2):
            await append_letters(logs.dead_letters, [letter])
            assert await redrive_letters(made, LetterFilter(), said.append) == 0
        redactor = open_redactor(made.settings.redact, lambda _kind, _count: None, lambda: None)
        receiver = KafkaReceiver(
            SourceTopic("chats", "turns"), turns, telemetry, rules=IngestRules(redactors=Redactors(redactor))
        )
        async with receiver.open_fold(3, None) as fold:
            await fold.deliver([message])
        records = [record async for batch in turns.read(0, 0) for record in batch]
    assert said == ["1 redriven"] * 2
    assert len({turn_from_json(record.value).turn_id for record in records}) == 1
    assert [turn_from_json(each.value).ended_at for each in records] == [datetime.fromtimestamp(1_700_000_000, UTC)] * 3
    assert not any(b"ada@" in record.value for record in records)
