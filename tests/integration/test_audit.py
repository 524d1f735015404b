"""`evalstream audit` on a SQLite file: it adds up, and each kind of loss that is planted has its sentence."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import Result
from faulty_judge import Faults, FaultyJudge
from stand_in_judge import serve_judge
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.audit import audit
from collector.commands.audit.positions import LogContent, content_of
from collector.config.loading import load
from collector.errors import ConfigError
from collector.evaluate.audit import EvaluationAudit
from collector.evaluate.job_builder import command_job
from collector.evaluate.plan import Assignment, Monitor
from collector.logs.log import TICK, Log, Record
from collector.records.json import evaluation_from_json, evaluation_to_json, turn_to_json
from collector.records.shared_records import share_records
from collector.service.app import Running, running
from collector.service.live import history
from collector.service.open_logs import open_logs
from evaluators import GEval, Length
from evaluators.cases import Turn
from evaluators.results import Evaluation, Retry, Sampling, Subject

TURNS = 12
MIDDLE = "number = 3"


@dataclass
class World:
    folder: Path

    def __post_init__(self) -> None:
        self.configure()

    def configure(self, **changes: Any) -> None:
        settings: dict[str, Any] = {
            "log": {"kind": "sqlite", "path": str(self.folder / "logs.db")},
            "receive": {"otlp_http": None},
            "evaluators": {
                "brief": {"kind": "length", "maximum": 100},
                "exact": {"kind": "exact_match"},
            },
            "monitors": {"all": {"evaluators": ["brief", "exact"]}},
            "export": {"jsonl": {"path": str(self.folder / "scores.jsonl")}},
        }
        (self.folder / "evalstream.yaml").write_text(yaml.safe_dump(settings | changes))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Running]:
        async with running(load(self.folder / "evalstream.yaml"), {"evaluate", "export"}) as service:
            yield service

    async def judge(self, first: int = 0, turns: int = TURNS) -> None:
        """Let the service judge turns, and export them."""
        async with self.serving() as service:
            await service.logs.turns.append([record(number) for number in range(first, first + turns)])
            await until_exported(service)

    async def judge_what_is_drawn(self, first: int, turns: int) -> None:
        async with self.serving() as service:
            await service.logs.turns.append([record(number) for number in range(first, first + turns)])
            async with asyncio.timeout(60):
                while True:
                    committed = (await service.logs.turns.committed("evaluate")).get(0)
                    exported = (await service.logs.evaluations.committed("export.jsonl")).get(0)
                    ends = [await log.end_offset(0) for log in (service.logs.turns, service.logs.evaluations)]
                    if committed and exported and [committed.low_watermark, exported.offset] == ends:
                        return
                    await asyncio.sleep(0.05)

    async def audit(self, *arguments: str) -> Result:
        command = ["audit", "-c", str(self.folder / "evalstream.yaml"), *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    def change(self, statement: str, *values: Any) -> None:
        """What somebody does to the file with other tools."""
        with closing(sqlite3.connect(self.folder / "logs.db")) as connection, connection:
            changed = connection.execute(statement, values).rowcount
        assert changed == 1, statement

    def row(self, log: str, offset: int) -> int:
        with closing(sqlite3.connect(self.folder / "logs.db")) as connection:
            wanted = (
                "SELECT id FROM records, logs WHERE records.id >> 57 = number AND name = ? ORDER BY id LIMIT 1 OFFSET ?"
            )
            return connection.execute(wanted, [log, offset]).fetchone()[0]


def record(number: int) -> Record:
    turn = Turn(turn_id=f"turn-{number}", input="What is it?", actual_output=f"{number}", expected_output="3")
    return Record(f"turn-{number}".encode(), turn_to_json(turn))


async def until_made(service: Running, number: int) -> None:
    """Wait until the evaluations log has so many, and all of them are exported and done."""
    async with asyncio.timeout(60):
        while await service.logs.evaluations.end_offset(0) < number:
            await asyncio.sleep(0.05)
        for log, group in ((service.logs.evaluations, "export.jsonl"), (service.logs.turns, "evaluate")):
            while (done := (await log.committed(group)).get(0)) is None or done.low_watermark < await log.end_offset(0):
                await asyncio.sleep(0.05)


async def until_exported(service: Running) -> None:
    async with asyncio.timeout(60):
        while True:
            done = [
                await log.committed(group)
                for log, group in ((service.logs.turns, "evaluate"), (service.logs.evaluations, "export.jsonl"))
            ]
            ends = [await service.logs.turns.end_offset(0), await service.logs.evaluations.end_offset(0)]
            if [each[0].offset if each else 0 for each in done] == ends and ends[1] >= 2 * ends[0]:
                return
            await asyncio.sleep(0.05)


@pytest.fixture
async def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    await world.judge()
    return world


async def test_of_empty_logs_it_does_not_say_that_they_add_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with open_logs(load(tmp_path / "evalstream.yaml").settings.log):
        pass
    result = await world.audit()
    assert result.exit_code == 0
    assert "no span and no turn" in result.output
    assert "It adds up" not in result.output


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("trace", ["a" * 32, None])
async def test_a_turn_that_came_again_is_one_turn(world: World, trace: str | None, *, linked: bool) -> None:
    """1,084 turns were said to be assembled where 1,050 had been sent; then 5,180 of 5,129, as 51 ready-made ones came
    again. A turn that was linked comes from another log, and once.
    """
    world.configure(**({"assemble": {"link": {"services": ["bot"]}}} if linked else {}))
    async with world.serving() as service:
        again = [
            Record(b"chat", turn_to_json(Turn(turn_id=name, trace_id=trace, input="What is it?", actual_output="4")))
            for name in ("turn-98", "turn-99")
        ]
        await service.logs.turns.append([*again, again[0], again[0]])
        if service.logs.unlinked is not None:
            await service.logs.unlinked.append(again)
    result = await world.audit()
    assert "assembled  14 turns in the turns log (2 more records of the same turns)" in result.output, result.output


async def test_what_no_exporter_sends_is_not_counted_as_exported(world: World) -> None:
    """3 more were said to be exported than a topic held: the marks by which an append looks for its records."""
    async with world.serving() as service:
        await service.logs.evaluations.append([Record(None, b"a mark", TICK, 0)] * 3)
        await until_exported(service)
    result = await world.audit("--drained")
    assert "exported   jsonl: 24 evaluations read\n" in result.output, result.output
    assert "accepted" not in result.output, "how many records the spans log has is nothing that anybody sent"


async def test_it_adds_up(world: World) -> None:
    result = await world.audit("--drained")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "due        brief of all: 12 = 12 scored\n" in result.output
    assert "assembled  12 turns in the turns log\n" in result.output
    assert "exported   jsonl: 24 evaluations read\n" in result.output, "no decision is an evaluation"
    assert result.output.endswith("\nIt adds up.\n")
    plain = json.loads((await world.audit("--json")).output)
    assert plain["adds_up"] is True
    assert [(each["evaluator"], each["due"], each["outcomes"]) for each in plain["evaluations"]] == [
        ("brief", 12, {"scored": 12}),
        ("exact", 12, {"scored": 12}),
    ]


async def test_beside_a_live_service_what_is_in_flight_is_said(world: World) -> None:
    async with world.serving() as service:
        result = await world.audit()
        assert result.exit_code == 0
        await service.logs.turns.append([record(100 + number) for number in range(300)])
        result = await world.audit()
        assert result.exit_code == 0, result.output
        await until_exported(service)


async def test_a_deleted_evaluation_is_a_hole_and_an_evaluation_without_outcome(world: World) -> None:
    world.change("DELETE FROM records WHERE id = ?", world.row("evaluations", 10))
    result = await world.audit()
    assert result.exit_code == 1
    assert "2 things do not add up" in result.output
    assert "evaluations[0]: 1 record (offsets 10 to 10) is gone from the middle of the log" in result.output
    assert "became due at turns[0] offset 4, without an outcome" in result.output


async def test_a_turn_that_was_passed_over_has_no_outcome(world: World) -> None:
    """A position that is beyond what was done, as after a fault of the service or of whoever set it."""
    with closing(sqlite3.connect(world.folder / "logs.db")) as connection:
        (note,) = connection.execute("SELECT note FROM commits WHERE \"group\" = 'evaluate'").fetchone()
    note = orjson.dumps(orjson.loads(note) | {"e": TURNS + 1}).decode()
    world.change(
        "UPDATE commits SET position = ?, low_watermark = ?, note = ? WHERE \"group\" = 'evaluate'",
        TURNS + 1, TURNS + 1, note,
    )  # fmt: skip
    async with running(load(world.folder / "evalstream.yaml"), {"watch"}) as service:
        await service.logs.turns.append([record(50)])
    result = await world.audit()
    assert result.exit_code == 1
    assert "1 evaluation by brief of all became due at turns[0] offset 12, without an outcome" in result.output
    assert "1 evaluation by exact of all became due at turns[0] offset 12, without an outcome" in result.output


async def test_what_is_made_during_the_audit_is_told_from_what_is_not_compared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a busy service every line named three reasons that may be harmful, and the harmless one that it was."""

    async def content_and_more(log: Log) -> LogContent:
        content = await content_of(log)
        if log.name == "evaluations":
            (made, *_) = [each async for batch in log.read(0, 0) for each in batch if not each.headers]
            for number in range(2):
                other = replace(evaluation_from_json(made.value), evaluation_id=f"of-a-later-turn-{number}")
                await log.append([Record(made.key, evaluation_to_json(other), partition=0)])
        return content

    monkeypatch.setattr(audit, "content_of", content_and_more)
    lines = (await world.audit()).output.splitlines()
    [line] = [each for each in lines if each.startswith("due") and "made after" in each]
    assert line.endswith(" = 12 scored; 2 made after the audit began")


@pytest.mark.parametrize("notes_versions", [True, False], ids=["", "a release that noted no versions"])
async def test_evaluations_by_an_earlier_revision_are_one_number(
    world: World, monkeypatch: pytest.MonkeyPatch, *, notes_versions: bool
) -> None:
    """After a new revision of a plug-in, 3,541 were read as missing, and the same 3,541 as too many."""
    if not notes_versions:
        monkeypatch.setattr(history, "_VERSIONS", "unknown")
    monkeypatch.setattr(Length, "revision", 1000)
    made = "scored" if notes_versions else "made by another configuration or version of the evaluator (not compared)"
    assert f"due        brief of all: 12 = 12 {made}" in (await world.audit()).output.splitlines()
    await world.judge(first=TURNS, turns=3)
    result = await world.audit()
    of = "15 scored" if notes_versions else f"3 scored and 12 {made}"
    assert f"due        brief of all: 15 = {of}" in result.output.splitlines()
    assert result.exit_code == 0, result.output


async def test_a_deleted_turn_is_a_hole(world: World) -> None:
    world.change("DELETE FROM records WHERE id = ?", world.row("turns", 4))
    result = await world.audit()
    assert result.exit_code == 1
    assert "turns[0]: 1 record (offsets 4 to 4) is gone from the middle of the log" in result.output
    assert (
        "brief of all: 11 = 11 scored; 1 more evaluation of deleted or copied turns, or by an earlier configuration\n"
        in result.output
    )


async def test_an_exporter_that_is_behind_is_in_flight_and_wrong_once_all_is_over(world: World) -> None:
    world.change("UPDATE commits SET position = 20 WHERE \"group\" = 'export.jsonl'")
    result = await world.audit()
    assert result.exit_code == 0
    assert "exported   jsonl: 19 evaluations read; 5 not read by export.jsonl yet" in result.output
    result = await world.audit("--drained")
    assert result.exit_code == 1
    assert "5 records of the evaluations log are not read by export.jsonl" in result.output
    assert "does not add up" not in result.output
    world.change("DELETE FROM records WHERE id = ?", world.row("evaluations", 10))
    assert "3 things do not add up" in (await world.audit("--drained")).output


async def test_traces_that_are_open_at_a_stop_are_not_drained_but_nothing_is_wrong(world: World) -> None:
    """A clean stop while senders went on sending was told as "1 thing does not add up"."""
    spans = (Path(__file__).parents[1] / "golden/otlp/openinference-openai/001-traces.pb").read_bytes()
    async with running(load(world.folder / "evalstream.yaml"), {"assemble"}) as service:
        await service.logs.spans.append([Record(b"5f" * 16, spans, (("signal", b"traces"),), 0)])
        async with asyncio.timeout(60):
            while not (done := await service.logs.spans.committed("assemble")) or not done[0].offset:
                await asyncio.sleep(0.05)
    plain = await world.audit()
    assert (plain.exit_code, " open in spans[0]" in plain.output) == (0, True), plain.output
    result = await world.audit("--drained")
    assert result.exit_code == 1
    assert "It adds up, but is not drained: stop the senders, wait assemble.idle_timeout, then" in result.output
    assert "1 accepted trace is still open" in result.output


async def test_a_stop_before_the_first_scrape_is_drained_and_a_conversation_that_goes_on_is_not_due(
    tmp_path: Path,
) -> None:
    """A service that had run for less than a minute, with nobody to read /metrics, ended with status 1."""
    world = World(tmp_path)
    kinds: dict[str, dict[str, Any]] = {"length": {"maximum": 100}, "exact_match": {}, "task_cost": {"max_seconds": 1}}
    world.configure(
        evaluators={name: {"kind": name, **keys} for name, keys in kinds.items()},
        monitors={"all": {"evaluators": [*kinds]}},
        export={"jsonl": {"path": str(tmp_path / "scores.jsonl")}, "prometheus": {"port": 0}},
    )
    await world.judge()
    result = await world.audit("--drained")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert "It adds up." in result.output
    assert "not read by export.prometheus yet (it counts them after a scrape" in result.output
    assert "due        length of all: 12 = 12 scored\n" in result.output
    assert "task_cost of all" not in result.output
    world.change("UPDATE commits SET position = 9 WHERE \"group\" = 'export.jsonl'")
    assert "not read by export.jsonl" in (await world.audit("--drained")).output


async def test_an_exporter_beyond_the_end_has_read_what_is_lost(world: World) -> None:
    world.change("UPDATE commits SET position = 99 WHERE \"group\" = 'export.jsonl'")
    result = await world.audit()
    assert result.exit_code == 1
    assert "evaluations[0] ends at 26, but export.jsonl has read up to 99" in result.output


async def test_what_was_deleted_before_it_was_exported_is_lost(world: World) -> None:
    world.change("UPDATE commits SET position = 0 WHERE \"group\" = 'export.jsonl'")
    world.change("DELETE FROM records WHERE id = ?", world.row("evaluations", 0))
    result = await world.audit()
    assert result.exit_code == 1
    assert (
        "evaluations[0]: 1 record (offsets 0 to 0) had been deleted before export.jsonl read that far" in result.output
    )


async def test_an_evaluation_that_is_there_twice(world: World) -> None:
    with closing(sqlite3.connect(world.folder / "logs.db")) as connection:
        row = connection.execute(
            "SELECT key, value FROM records WHERE id = ?", [world.row("evaluations", 3)]
        ).fetchone()
    async with running(load(world.folder / "evalstream.yaml"), {"watch"}) as service:
        await service.logs.evaluations.append([Record(*row)])
    result = await world.audit()
    assert result.exit_code == 1
    assert "is in the evaluations log more than once" in result.output


async def test_a_turn_that_was_scored_twice_under_two_ids_is_named(world: World) -> None:
    """A replay did not find what had been judged, after a monitor had come before the other one: its ids are others."""
    nobody = {"evaluators": ["brief", "exact"], "match": {"service": "nobody"}}
    world.configure(monitors={"added": nobody, "all": {"evaluators": ["brief", "exact"]}})
    async with world.serving():
        assert (await world.audit()).exit_code == 0, "the same order without a loss"
    with closing(sqlite3.connect(world.folder / "logs.db")) as connection:
        (note,) = connection.execute("SELECT note FROM commits WHERE \"group\" = 'evaluate'").fetchone()
    note = orjson.dumps(orjson.loads(note) | {"l": 1000, "e": 0}).decode()
    back = "UPDATE commits SET position = 0, low_watermark = 0, note = ? WHERE \"group\" = 'evaluate'"
    world.change(back, note)
    async with world.serving() as service, asyncio.timeout(60):
        while await service.logs.evaluations.end_offset(0) < 4 * TURNS:
            await asyncio.sleep(0.05)
    result = await world.audit()
    assert result.exit_code == 1
    assert (
        "12 subjects got several scores by brief of all in one version, under different ids (for example turn-0), as"
        " evaluate did not find its earlier results."
    ) in result.output


def of_turns(*spans: str) -> dict[str, Any]:
    return {"subject": Subject(conversation_id="c", links=tuple(("trace", span) for span in spans))}


@pytest.mark.parametrize(
    ("first", "second", "number"),
    [
        ({}, {}, 1),
        ({}, {"score": None, "outcome": "failed"}, 0),
        ({"score": None, "outcome": "failed"}, {"supersedes": ("first",)}, 0),  # by `rejudge`
        ({}, {"supersedes": ("first",)}, 0),  # by a later revision of a conversation
        ({}, {"happened_at": datetime(2026, 1, 1, tzinfo=UTC)}, 0),  # a backfill
        ({}, {"happened_at": datetime(2026, 1, 1, tzinfo=UTC), "retry": Retry(attempt=2, reason="x")}, 1),
        ({}, {"evaluator_version": "another"}, 0),
        ({}, {"monitor": "another"}, 0),
        ({}, {"subject": Subject(conversation_id="c", turn_id="another")}, 0),
        (of_turns("a"), of_turns("a"), 1),
        (of_turns("a"), of_turns("b"), 0),
        (of_turns("a", "a"), of_turns("a", "a"), 0),  # one span has several turns, so these may be others
    ],
)
def test_only_two_scores_of_one_subject_and_version_that_no_run_backfilled_are_two(
    first: dict[str, Any], second: dict[str, Any], number: int
) -> None:
    now = datetime.now(UTC)
    one = Evaluation(
        evaluation_id="first", evaluator="brief", evaluator_version="v", scope="turn", monitor="all", outcome="scored",
        subject=Subject(conversation_id="c", turn_id="t"), score=1.0, started_at=now, ended_at=now,
    )  # fmt: skip
    with EvaluationAudit() as comparison:
        comparison.add_done(replace(one, **first))
        comparison.add_done(replace(one, evaluation_id="second", **second))
        assert sum(balance.scored_twice for balance in comparison.balances({0: 1})) == number


def test_a_gates_own_draw_is_no_changed_rate() -> None:
    """Its scores have 1 / (p * share): what was due before the last of them was said to be of an earlier rate."""
    now = datetime.now(UTC)
    sampling = Sampling(probability=0.5)
    skipped = Evaluation(
        evaluation_id="0", evaluator="brief", evaluator_version="v", scope="turn", monitor="all", outcome="skipped",
        subject=Subject(conversation_id="c", turn_id="t0"), reason="gated: short", sampling=sampling,
        started_at=now, ended_at=now,
    )  # fmt: skip
    drawn = replace(skipped, evaluation_id="2", outcome="scored", score=1.0, sampling=sampling.with_own_draw(0.25))
    monitor = Monitor("all", (Assignment(Length(name="brief", maximum=9), "v", None),), {})
    with EvaluationAudit() as comparison:
        for number in range(3):
            turn = Turn(turn_id=f"t{number}", conversation_id="c")
            job = command_job(monitor, monitor.assignments[0], turn, sampling=sampling, evaluation_id=str(number))
            comparison.add_due(0, [replace(job, trigger_offset=number)])
        comparison.add_done(skipped)
        comparison.add_done(drawn)
        [balance] = comparison.balances({0: 3})
    assert (balance.missing, balance.not_compared) == (1, 0)


async def test_another_configuration_is_no_loss(world: World) -> None:
    """What became due before it took effect was judged as it was configured then."""
    evaluators = {"brief": {"kind": "length", "maximum": 50}, "exact": {"kind": "exact_match"}}
    evaluators["lengthy"] = {"kind": "length", "maximum": 1000}
    world.configure(evaluators=evaluators, monitors={"all": {"evaluators": list(evaluators)}})
    result = await world.audit()
    assert result.exit_code == 0, result.output
    assert "lengthy" not in result.output, "the service has not taken the file yet"
    compared = result.output.splitlines()[0]
    assert compared.startswith("compared   by configuration 1 (of "), "with a forgotten -c, it added up without a word"
    assert compared.endswith("which differs from this file; only the exporters are this file's")
    async with world.serving() as service:
        await service.logs.turns.append([record(number) for number in range(100, 103)])
        async with asyncio.timeout(60):
            while await service.logs.evaluations.end_offset(0) < 2 * TURNS + 9 + 3:  # with two switches and a stop
                await asyncio.sleep(0.05)
    result = await world.audit()
    assert result.exit_code == 0, result.output
    assert "lengthy of all: 3 = 3 scored" in result.output
    assert "differs from this file" not in result.output


async def test_what_cannot_be_read_is_status_2(tmp_path: Path) -> None:
    world = World(tmp_path)
    result = await world.audit()
    assert isinstance(result.exception, ConfigError)
    assert "no such file" in str(result.exception)
    assert not (tmp_path / "logs.db").exists()


async def test_what_was_drawn_at_another_rate_is_compared_at_that_rate(world: World) -> None:
    """A rate that was lowered, and raised again: what was due at each of them is due, and nothing else."""
    monitors = {"all": {"evaluators": ["brief", "exact"], "sample": 0.4}}
    world.configure(monitors=monitors)
    await world.judge_what_is_drawn(first=50, turns=40)
    plain = json.loads((await world.audit("--json", "--drained")).output)
    assert plain["adds_up"] is True
    [brief, _] = plain["evaluations"]
    assert brief["not_compared"] == 0
    assert brief["others"] == 0
    assert TURNS < brief["due"] < TURNS + 40
    assert brief["due"] + brief["sampled_out"] == TURNS + 40
    world.change("DELETE FROM records WHERE id = ?", world.row("evaluations", 4))
    result = await world.audit()
    assert "1 evaluation by exact of all became due at turns[0] offset 1, without an outcome\n" in result.output
    never = "more sampled out, so never made (evalstream_evaluations_due_total counts them)"
    assert f"; {brief['sampled_out']} {never}\n" in result.output


@pytest.mark.parametrize(
    ("what", "changed"), [("failed", ""), ("failed", "revision"), ("failed", "criterion"), ("all", "criterion")]
)
async def test_an_evaluation_that_was_made_again_counts_once(
    tmp_path: Path, what: str, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure under revision 1 of an evaluator and its replacement by revision 2 were 56 due for 55 turns."""
    world = World(tmp_path)
    judge = FaultyJudge(Faults(reply=(400, "no"), reply_to="What is it"))
    async with serve_judge(judge) as url:

        def configure(step: str) -> None:
            world.configure(
                judges={"main": {"model": "m", "base_url": url, "usd_per_million_input_tokens": 1, "usd_per_million_output_tokens": 1}},
                evaluators={"kind": {"kind": "g_eval", "judge": "main", "evaluation_params": ["input"], "evaluation_steps": [step]}},
                monitors={"all": {"evaluators": ["kind"]}},
            )  # fmt: skip

        configure("Look.")
        async with world.serving() as service:
            await service.logs.turns.append([record(number) for number in range(3)])
            await until_made(service, 3)
        before = await world.audit("--drained")
        assert "due        kind of all: 3 = 3 failed\n" in before.output
        judge.faults = Faults()
        if changed == "revision":
            monkeypatch.setattr(GEval, "revision", 1000)
        elif changed:
            configure("Look again.")
        command = ["rejudge", "--what", what, "--max-usd", "1", "-c", str(tmp_path / "evalstream.yaml")]
        async with world.serving() as service:
            made = await asyncio.to_thread(CliRunner().invoke, app, command)
            assert made.exit_code == 0, made.output
            await until_made(service, 6)
        after = await world.audit("--drained")
    assert after.exit_code == 0, after.output
    assert "due        kind of all: 3 = 3 scored; 3 made again after a failure or skip" in after.output, after.output


async def test_ticks_that_nobody_has_read_are_no_work(world: World) -> None:
    async with running(load(world.folder / "evalstream.yaml"), {"watch"}) as service:
        for log in (service.logs.spans, service.logs.turns, service.logs.evaluations):
            await log.append([Record(None, b"", TICK, 0)])
    result = await world.audit("--drained")
    assert result.exit_code == 0, result.output
    async with running(load(world.folder / "evalstream.yaml"), {"watch"}) as service:
        await service.logs.spans.append([Record(b"5f" * 16, b"", (("signal", b"traces"),), 0)])
    result = await world.audit("--drained")
    assert "1 record of the spans log is not read by assemble" in result.output


async def test_the_other_turns_of_a_record_with_a_dead_letter_are_compared(world: World) -> None:
    """A turn that cannot be read, first and in the middle of a record that several share, and one that is missing."""
    shared = share_records(
        [
            Record(b"turn-20", b"no turn"),
            record(21),
            record(22),
            Record(b"turn-23", b"no turn"),
            record(24),
        ],
        1,
        may_share=lambda _: True,
    )
    assert len(shared) == 1
    async with world.serving() as service:
        await service.logs.turns.append(shared)
        await until_made(service, 2 * (TURNS + 3))
    result = await world.audit("--drained")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert "due        brief of all: 15 = 15 scored\n" in result.output
    world.change("DELETE FROM records WHERE id = ?", world.row("evaluations", 2 * TURNS))
    result = await world.audit("--drained")
    assert result.exit_code == 1
    assert "15 = 14 scored" in result.output
