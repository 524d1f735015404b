"""`evalstream audit` from accepted spans to turns: open, assembled, left out, and red for what became nothing."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from made_up import Trace, chat
from typer.main import get_command
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.logs.log import Record
from collector.service.app import running

HTTP = Trace("0" * 31 + "f").span(1, "GET /health").spans.SerializeToString()


def piece(number: int) -> Record:
    trace = Trace(f"{number:032x}").span(1, "POST /chat")
    trace.span(2, "chat", chat(f"Question {number}?", "Yes.", **{"gen_ai.conversation.id": f"c{number}"}), parent=1)
    return Record(f"{number:032x}".encode(), trace.spans.SerializeToString(), (("signal", b"traces"),))


def foreign(number: int) -> Record:
    """A trace that no installed dialect reads."""
    spans = Trace(f"{number:032x}").span(1, "ask", {"acme.asked": "How much?", "acme.answered": "Five."}).spans
    return Record(f"{number:032x}".encode(), spans.SerializeToString(), (("signal", b"traces"),))


MAPPING = {"acme": {"match": {"attributes": {"acme.asked": "*"}}, "input": "acme.asked", "output": "acme.answered"}}


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configure()

    def configure(self, dialects: Any = None, **assemble: Any) -> None:
        settings: dict[str, Any] = {
            "log": {"kind": "sqlite", "path": str(self.folder / "logs.db")},
            "receive": {"otlp_http": None},
            "dialects": dialects or {},
            "assemble": {"idle_timeout": "300ms", "allowed_lateness": "300ms", **assemble},
            "evaluators": {"brief": {"kind": "length", "maximum": 100}},
            "monitors": {"all": {"evaluators": ["brief"]}},
            "export": {"jsonl": {"path": str(self.folder / "scores.jsonl")}},
        }
        (self.folder / "evalstream.yaml").write_text(yaml.safe_dump(settings))

    async def accept(self, records: Sequence[Record], *, turns: int = 0) -> None:
        """Let the service take spans, and stop it once so many turns are done and exported."""
        config = load(self.folder / "evalstream.yaml")
        async with running(config, {"assemble", "evaluate", "export"}) as service, asyncio.timeout(60):
            await service.logs.spans.append(records)
            end = await service.logs.spans.end_offset(0)
            logs = ((service.logs.turns, "evaluate"), (service.logs.evaluations, "export.jsonl"))
            while True:
                ends = [await log.end_offset(0) for log, _ in logs]
                done = [(await log.committed(group)).get(0) for log, group in logs]
                read = (await service.logs.spans.committed("assemble")).get(0)
                over = not turns or [state and state.low_watermark for state in done] == ends
                if ends[0] >= turns and read is not None and read.offset >= end and over:
                    return
                await asyncio.sleep(0.02)

    async def audit(self, *arguments: str) -> Result:
        command = ["audit", "-c", str(self.folder / "evalstream.yaml"), *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    def change(self, statement: str, *values: Any) -> int:
        with closing(sqlite3.connect(self.folder / "logs.db")) as connection, connection:
            return connection.execute(statement, values).rowcount


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_every_accepted_trace_is_with_turns_left_out_or_open(world: World) -> None:
    other = Record(b"0" * 31 + b"f", HTTP, (("signal", b"traces"),))
    await world.accept([*map(piece, range(4)), other], turns=4)
    result = await world.audit("--drained")
    assert result.exit_code == 0, result.output
    assert "traces     5 traces = 4 with turns and 1 without a turn\n" in result.output
    plain = json.loads((await world.audit("--json")).output)["traces"]
    assert (plain["seen"], plain["with_turns"], plain["without_turns"], plain["missing"]) == (5, 4, 1, 0)


async def test_open_traces_are_named_with_the_low_watermark_and_wrong_once_all_is_over(world: World) -> None:
    """Ten accepted traces were open when the service ended: the audit called that clean."""
    world.configure(idle_timeout="1h", allowed_lateness="1h")
    await world.accept([piece(number) for number in range(10)])
    result = await world.audit()
    assert result.exit_code == 0, result.output
    named = ", ".join(f"{number:032x}" for number in range(4)) + f" and {4:032x}"
    assert f"10 open in spans[0] from offset 0 (for example {named})" in result.output
    result = await world.audit("--drained")
    assert result.exit_code == 1
    assert "10 accepted traces are still open in spans[0] from offset 0" in result.output


TARGETS_NEED = 200
READS_LOGS = {
    "audit": [], "dead-letters list": [], "check": [], "erase": ["--conversation", "c1", "--dry-run"],
    "explain": [f"{1:032x}"], "compare releases": [], "gate": ["--version", "2"],
    "plan targets": [], "plan sampling": ["--error", "0.1"],
}  # fmt: skip
"""Commands with `--json` that need only the logs, with the options that they need."""
NEEDS_MORE = {"diagnose", "turns", "score", "compare judges", "compare evaluators", "calibrate", "align"}
"""Those that need files, judges or many scores; their own tests read their JSON."""


def _names_with_json(group: Any, before: str = "") -> list[str]:
    if not hasattr(group, "commands"):
        return [before] if any("--json" in option.opts for option in group.params) else []
    names = ((name, f"{before} {name}".strip()) for name in group.commands)
    return [found for name, path in names for found in _names_with_json(group.commands[name], path)]


def test_every_command_with_json_is_tried() -> None:
    assert sorted(_names_with_json(get_command(app))) == sorted({*READS_LOGS, *NEEDS_MORE})


async def test_the_json_of_every_command_is_json_while_traces_are_open(world: World) -> None:
    """`audit --json` ended with a traceback while any trace was open, and its status 1 also means that data is lost."""
    await world.accept([piece(number) for number in range(TARGETS_NEED)], turns=TARGETS_NEED)
    world.configure(idle_timeout="1h", allowed_lateness="1h")
    await world.accept([piece(number) for number in range(TARGETS_NEED, TARGETS_NEED + 3)], turns=TARGETS_NEED)
    printed = {}
    for name, options in READS_LOGS.items():
        command = [*name.split(), "-c", str(world.folder / "evalstream.yaml"), "--json", *options]
        result = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert result.exception is None or isinstance(result.exception, SystemExit), (name, result.exception)
        assert not result.stdout or "{" in result.stdout, (name, result.output)
        printed[name] = [json.loads(result.stdout)] if result.stdout.startswith("{") else []
    assert printed["audit"][0]["traces"]["open"] == 3
    assert {name for name, documents in printed.items() if not documents} <= {"dead-letters list", "gate"}, printed


async def test_turns_that_went_with_their_log_are_missing(world: World) -> None:
    """Somebody deletes the log of turns and makes it again: what came before is in no log, what came after is."""
    await world.accept([piece(number) for number in range(6)], turns=6)
    wanted = "SELECT records.id FROM records, logs WHERE records.id >> 57 = number AND name = 'turns' ORDER BY id DESC"
    assert world.change(f"DELETE FROM records WHERE id IN ({wanted} LIMIT 2)") == 2
    result = await world.audit()
    assert result.exit_code == 1
    assert "2 turns of accepted traces are in no log: of " in result.output
    assert f"{5:032x}" in result.output


async def test_a_mapping_is_no_loss_of_what_came_before_it(world: World) -> None:
    """The mapping that `explain` proposed made audit end with 1 as long as the earlier traces were kept."""
    await world.accept([piece(0), foreign(1)], turns=1)
    await asyncio.sleep(1)  # the audit reads second by second
    world.configure(dialects=MAPPING)
    named = "; 1 turn not compared, as `assemble` or `dialects` changed since\n"
    result = await world.audit()  # before the restart
    assert (result.exit_code, named in result.output) == (0, True), result.output
    await world.accept([foreign(2), foreign(3)], turns=3)
    result = await world.audit("--drained")
    assert (result.exit_code, named in result.output) == (0, True), result.output
    assert result.output.endswith("\nIt adds up, but for the 1 turn not compared.\n")
    turns = "SELECT records.id FROM records, logs WHERE records.id >> 57 = number AND name = 'turns' ORDER BY id"
    assert world.change(f"DELETE FROM records WHERE id IN ({turns} DESC LIMIT 1)") == 1
    result = await world.audit()
    assert result.exit_code == 1
    assert f"1 turn of accepted traces is in no log: of {3:032x}." in result.output


async def test_a_loss_before_a_mapping_that_does_not_concern_it_is_one(world: World) -> None:
    await world.accept([piece(0), piece(1), foreign(2)], turns=2)
    await asyncio.sleep(1)
    world.configure(dialects=MAPPING)
    await world.accept([], turns=2)
    last = "SELECT max(records.id) FROM records, logs WHERE records.id >> 57 = number AND name = 'turns'"
    assert world.change(f"DELETE FROM records WHERE id = ({last})") == 1
    result = await world.audit()
    assert result.exit_code == 1
    assert f"1 turn of accepted traces is in no log: of {1:032x}." in result.output


async def test_turns_that_retention_has_deleted_are_not_missing(world: World) -> None:
    """Retention deletes the older turns and not yet their spans; the audit reads both times in one batch."""
    await world.accept([piece(number) for number in range(6)], turns=6)
    await world.accept([piece(number) for number in range(10, 14)], turns=10)
    ids = "SELECT records.id FROM records, logs WHERE records.id >> 57 = number AND name = '{}' ORDER BY id LIMIT 6"
    for log in ("spans", "turns"):
        assert world.change(f"UPDATE records SET timestamp = timestamp - 3600 WHERE id IN ({ids.format(log)})") == 6
    assert world.change(f"DELETE FROM records WHERE id IN ({ids.format('turns')})") == 6
    result = await world.audit()
    assert "in no log" not in result.output, result.output


async def test_turns_that_a_frozen_broker_took_out_of_order_are_not_missing(world: World) -> None:
    """The oldest turn that is left was made before the deleted ones: its producer could append it only later."""
    await world.accept([piece(number) for number in range(6)], turns=6)
    ids = "SELECT records.id FROM records, logs WHERE records.id >> 57 = number AND name = 'turns' ORDER BY id"
    assert world.change(f"UPDATE records SET timestamp = timestamp - 50 WHERE id IN ({ids} LIMIT 2 OFFSET 4)") == 2
    assert world.change(f"DELETE FROM records WHERE id IN ({ids} LIMIT 4)") == 4
    result = await world.audit()
    assert "in no log" not in result.output, result.output


async def test_a_position_that_was_set_forward_over_spans_is_a_loss(world: World) -> None:
    await world.accept([piece(number) for number in range(3)], turns=3)
    config = load(world.folder / "evalstream.yaml")
    async with running(config, {"watch"}) as service:
        end = await service.logs.spans.end_offset(0)
        await service.logs.spans.append([piece(number) for number in range(10, 14)])
        await service.logs.spans.append([Record(None, b"", (("tick", b"1"),), partition=0)])
    past = "UPDATE commits SET position = ?, low_watermark = ? WHERE \"group\" = 'assemble'"
    assert world.change(past, end + 4, end + 4) == 1
    result = await world.audit()
    assert result.exit_code == 1
    assert "assemble passed over 4 accepted traces, as somebody set its position forward" in result.output
    assert f"{13:032x}" in result.output


async def test_a_changed_timeout_excuses_no_loss(world: World) -> None:
    await world.accept([piece(0), piece(1)], turns=2)
    await asyncio.sleep(1)
    world.configure(idle_timeout="200ms")
    await world.accept([], turns=2)
    last = "SELECT max(records.id) FROM records, logs WHERE records.id >> 57 = number AND name = 'turns'"
    assert world.change(f"DELETE FROM records WHERE id = ({last})") == 1
    result = await world.audit()
    assert result.exit_code == 1
    assert f"1 turn of accepted traces is in no log: of {1:032x}." in result.output


async def test_a_longer_timeout_passes_no_trace_over(world: World) -> None:
    """For the length of the new timeout, traces that closed by the old one were "passed over by assemble"."""
    await world.accept([piece(0), piece(1), foreign(2)], turns=2)
    await asyncio.sleep(1)
    await world.accept([piece(3)], turns=3)
    world.configure(idle_timeout="1h", allowed_lateness="1h")
    await world.accept([piece(4)], turns=3)
    result = await world.audit()
    assert result.exit_code == 0, result.output
    assert "traces     5 traces = 3 with turns, 1 without a turn and 1 open in spans[0]" in result.output
    last = "SELECT max(records.id) FROM records, logs WHERE records.id >> 57 = number AND name = 'turns'"
    assert world.change(f"DELETE FROM records WHERE id = ({last})") == 1
    result = await world.audit()
    assert result.exit_code == 1
    assert "assemble passed over 1 accepted trace" in result.output
