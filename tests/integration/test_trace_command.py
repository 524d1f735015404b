"""`evalstream explain`: every step of an evaluation, as a real service left it in its logs."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from evaluation_samples import scored, skipped
from made_up import Trace, chat
from prometheus_client import generate_latest
from stand_in_judge import serve_judge

from collector.commands.trace import EvaluationTrace, lines, trace_evaluation
from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError, EvalstreamError
from collector.evaluate.budget.rates import FULL_RATES, RateReduction, Rates
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.replay_point import CommitMetadata, metadata_of
from collector.evaluate.stage import GROUP
from collector.logs.log import Committed, Log, Record, StoredRecord
from collector.logs.whole_log import read_partitions
from collector.records.json import evaluation_from_json, evaluation_to_json
from collector.records.turns import turn_record
from collector.service.app import running
from collector.service.open_logs import open_logs
from collector.service.plan_builder import evaluator_version_in
from evaluators.cases import Turn
from evaluators.results import Evaluation, Usage

DEARER = {"usd_per_million_input_tokens": 20.0, "usd_per_million_output_tokens": 80.0}


def configured(log: dict[str, Any], judge: str, folder: Path, **changes: Any) -> Config:
    return check(
        {
            "log": log,
            "receive": {"otlp_http": {"port": 0}},
            "assemble": {"idle_timeout": 0.2, "attributes": {"tier": ["app.tier"]}},
            "judges": {
                "main": {
                    "model": "stand-in",
                    "base_url": judge,
                    "usd_per_million_input_tokens": 2.0,
                    "usd_per_million_output_tokens": 8.0,
                }
            },
            "evaluators": {
                "helpful": {
                    "kind": "g_eval",
                    "criteria": "Does it answer?",
                    "evaluation_params": ["input", "actual_output"],
                    "threshold": 0.5,
                }
            },
            "monitors": {"all": {"evaluators": ["helpful"], "sample": 0.999, "match": {"service": "shop"}}},
            "export": {"prometheus": {"port": 0}, "jsonl": {"path": str(folder / "out.jsonl")}},
            **changes,
        },
        "test.yaml",
    )


@asynccontextmanager
async def judged(config: Config) -> AsyncIterator[Evaluation]:
    """The evaluation of one turn that came as a trace, exported by everybody."""
    trace = Trace(secrets.token_hex(16), start=time.time_ns() - 10**10)
    trace.span(1, "POST /chat", {"app.tier": "gold"}, took=5)
    trace.span(2, "chat", chat("When are you open, please?", "At nine."), parent=1, took=1)
    async with running(config) as service:
        generate_latest(service.telemetry.registry)  # the first scrape
        url = f"http://127.0.0.1:{service.otlp_port}/v1/traces"
        body, headers = trace.spans.SerializeToString(), {"Content-Type": "application/x-protobuf"}
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
            assert response.status == 200
        async with asyncio.timeout(60):
            while (found := await _evaluation(service.logs.evaluations)) is None:
                await asyncio.sleep(0.05)
            evaluation, record = found
            for name in config.settings.export:
                while await _place(service.logs.evaluations, name, record.partition) <= record.offset:
                    await asyncio.sleep(0.05)
        yield evaluation


async def _place(log: Log, exporter: str, partition: int) -> int:
    committed = (await log.committed(f"export.{exporter}")).get(partition)
    return committed.offset if committed else -1


async def _evaluation(log: Log) -> tuple[Evaluation, StoredRecord] | None:
    for partition in range(log.partitions):
        async for batch in log.read(partition, 0):
            for record in batch:
                if not record.headers:
                    return evaluation_from_json(record.value), record
    return None


async def traced(config: Config, evaluation_id: str) -> tuple[list[str], dict[str, Any]]:
    lines: list[str] = []
    document: list[str] = []
    assert await trace_evaluation(config, evaluation_id, lines.append, as_json=False) == 0
    assert await trace_evaluation(config, evaluation_id, document.append, as_json=True) == 0
    return lines, json.loads(document[0])


def assert_every_step(lines: list[str], steps: dict[str, Any], evaluation: Evaluation) -> None:
    text = "\n".join(lines)
    heads = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert heads == [
        "evaluation", "subject", "attributes", "received", "turn", "monitor", "draw", "wait", "judged", "reason", "judge",
        "steps", "paid", "weight", "recorded", "export", "export",
    ]  # fmt: skip
    assert "read by otel_genai as model: input from gen_ai.input.messages" in text
    assert "tier from app.tier of span 0000000000000001" in text
    assert "monitor    all: service is shop" in lines
    assert "tier=gold" in lines[2]
    assert [line for line in lines if line.startswith("export")] == [
        "export     prometheus: exported",
        "export     jsonl: exported",
    ]
    assert f"reason     {' '.join((evaluation.explanation or '').split())}" in lines
    assert steps["judged"]["explanation"] == evaluation.explanation
    assert "When are you open, please?" not in text, "no judged text but what the reason quotes"
    assert "< 0.999 (rate 0.999 before boosts and budgets, stratum all), by trace" in text
    assert f"judged     {evaluation.score:g}, did not pass, method {evaluation.method}; " in text
    assert steps["draw"]["selected"]
    assert steps["draw"]["draw"] < steps["draw"]["probability"] == steps["draw"]["rate"] == 0.999
    assert steps["weight"] == pytest.approx(1 / 0.999)
    assert 0 <= steps["wait_seconds"] < 60
    assert steps["judged"]["judge"]["prompt_hash"]
    assert steps["judged"]["judge"]["prompt_hash"] in text
    assert steps["judged"]["cost_usd"] == evaluation.cost_usd
    assert steps["judged"]["usd_per_million_tokens"] == {"main": [2.0, 8.0]}
    assert steps["turns"][0]["turn_id"] == evaluation.subject.turn_id
    assert steps["exports"]["jsonl"] == {"exported": True, "behind": 0}
    assert steps["recorded"]["copies"] == 1


async def test_every_step_on_sqlite_beside_the_service_and_after_it(tmp_path: Path) -> None:
    async with serve_judge() as judge:
        config = configured({"kind": "sqlite", "path": str(tmp_path / "logs.db")}, judge, tmp_path)
        async with judged(config) as evaluation:
            assert_every_step(*await traced(config, evaluation.evaluation_id), evaluation)
        assert_every_step(*await traced(config, evaluation.evaluation_id), evaluation)
        changed = configured(
            {"kind": "sqlite", "path": str(tmp_path / "logs.db")},
            judge,
            tmp_path,
            monitors={"other": {"evaluators": ["helpful"]}},
            judges={"strong": {**config.settings.judges["main"].model_dump(exclude_unset=True), **DEARER}},
            export={"prometheus": {"port": 0}, "otlp": {"endpoint": "http://localhost:1"}},
        )
        lines, steps = await traced(changed, evaluation.evaluation_id)
    assert steps["judged"]["usd_per_million_tokens"] == {}, "another judge was asked, at other prices"
    assert steps["judged"]["cost_usd"] == evaluation.cost_usd
    assert not any("USD per million" in line for line in lines)
    assert "monitor    all: this configuration has no such monitor with this evaluator" in lines
    assert "export     otlp: has taken nothing of this partition yet" in lines


@pytest.mark.parametrize("has_turns", [True, False])
async def test_an_evaluation_keeps_the_draw_of_its_time(tmp_path: Path, *, has_turns: bool) -> None:
    """The rate was the one of now, which reads as if a budget had lowered the rate to what the record has; `match`,
    too, though the turn does not fit the one of now.
    """
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    settings: dict[str, Any] = {"evaluators": {"brief": {"kind": "length", "maximum": 20}}, "store_text": has_turns}
    of_then = {"all": {"evaluators": ["brief"], "sample": 0.999, "match": {"service": ["shop", "blog"]}}}
    of_now = {"all": {"evaluators": [{"name": "brief", "salt": "another"}], "sample": 0.5, "match": {"model": "m"}}}
    then, now = (
        configured(log, "http://localhost:1", tmp_path, monitors=monitors, **settings) for monitors in (of_then, of_now)
    )
    async with judged(then) as evaluation:
        before = (await traced(then, evaluation.evaluation_id))[1]["draw"]
    assert (before["rate"], before["probability"]) == (0.999, 0.999)
    lines, steps = await traced(now, evaluation.evaluation_id)
    assert steps["draw"] == before, "a file that no service has read yet"
    async with running(now):
        pass
    lines, steps = await traced(now, evaluation.evaluation_id)
    assert steps["draw"] == before
    assert bool(steps["turns"]) == has_turns
    assert any("< 0.999 (rate 0.999 before boosts and budgets, stratum all), by trace" in line for line in lines)
    assert "monitor    all: service is blog+shop" in lines
    assert steps["monitor"]["match"] == {"service": ["blog", "shop"]}
    assert steps["monitor"]["current_match"] == {"model": "m"}


@pytest.mark.parametrize("match", [None, {"service": "shop"}])
async def test_the_log_does_not_say_which_rate_drew_what_was_judged_again(
    tmp_path: Path, match: dict[str, str] | None
) -> None:
    """Only the record's probability is certain where configurations until the evaluation differ in `sample`; and if
    they differ in `match`, it is the one of today.
    """
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    evaluators = {"brief": {"kind": "length", "maximum": 20}}
    then, now = (
        configured(
            log, "http://localhost:1", tmp_path, evaluators=evaluators,
            monitors={"all": {"evaluators": ["brief"], "sample": rate, "match": of}},
        )
        for rate, of in ((0.999, {"service": "shop"}), (0.5, match or {}))
    )  # fmt: skip
    async with judged(then) as evaluation:
        pass
    async with running(now):
        pass
    at = datetime.now(UTC)
    again = replace(evaluation, evaluation_id="9" * 32, started_at=at, ended_at=at, happened_at=evaluation.ended_at)
    async with open_logs(now.settings.log) as logs:
        await logs.evaluations.append([Record(again.evaluation_id.encode(), evaluation_to_json(again))])
    lines, steps = await traced(now, again.evaluation_id)
    assert (steps["draw"]["rate"], steps["draw"]["probability"]) == (None, 0.999)
    assert any(line.startswith("draw ") and line.endswith(" 0.999, by trace") for line in lines)
    assert f"monitor    all: {'service is shop' if match else 'today every turn'}" in lines


async def test_what_the_log_has_no_more_is_said(tmp_path: Path) -> None:
    async with serve_judge() as judge:
        log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
        config = configured(log, judge, tmp_path)
        async with judged(config) as evaluation:
            pass
        async with open_logs(config.settings.log) as logs:
            (record,) = [each async for batch in logs.evaluations.read(0, 0) for each in batch if not each.headers]
        elsewhere = configured({"kind": "sqlite", "path": str(tmp_path / "other.db")}, judge, tmp_path)
        async with open_logs(elsewhere.settings.log) as logs:
            await logs.evaluations.append([Record(record.key, record.value), Record(record.key, record.value)])
        lines, steps = await traced(elsewhere, evaluation.evaluation_id)
    assert "received   its spans are not in the log any more" in lines
    assert any(line.startswith("turn       not in the log any more") for line in lines)
    assert any("2 copies, which count as one" in line for line in lines)
    assert (steps["received"], steps["turns"], steps["wait_seconds"]) == (None, [], None)


async def test_of_a_trace_that_no_dialect_reads_the_remedy_is_shown(tmp_path: Path) -> None:
    """An application that sends by HTTP has no file for `turns --explain`."""
    config = configured({"kind": "sqlite", "path": str(tmp_path / "logs.db")}, "http://localhost:1", tmp_path)
    trace = Trace("ab" * 16).span(1, "ask", {"globex.question": "When are you open?", "globex.answer": "At nine."})
    async with open_logs(config.settings.log) as logs:
        await logs.spans.append([Record(b"ab" * 16, trace.spans.SerializeToString())])
    lines, document = await traced(config, "ab" * 16)
    assert any("globex.answer" in line for line in document["remarks"])
    assert set(document["remarks"]) <= set(lines)
    assert lines[-1].startswith("turn       none in the log")


async def test_a_trace_and_a_turn_lead_to_the_reason_why_there_is_no_score(tmp_path: Path) -> None:
    """A turn that was sampled out, or that no monitor matched, has no evaluation whose id could be asked for."""
    async with serve_judge() as judge:
        log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
        short = {"short": {"kind": "length", "maximum": 20, "threshold": 0.5}}
        watched = configured(log, judge, tmp_path)
        helpful = watched.settings.evaluators["helpful"]
        config = configured(
            log, judge, tmp_path, evaluators={"helpful": helpful, **short},
            monitors={
                "all": {"evaluators": ["helpful", {"name": "short", "sample": 1e-9}], "match": {"service": "shop"}},
                "bank": {"evaluators": ["short"], "match": {"service": ["bank", "safe"]}},
            },
        )  # fmt: skip
        async with judged(config) as evaluation:
            pass
        of_trace, document = await traced(config, evaluation.subject.trace_id or "")
        of_turn, _ = await traced(config, evaluation.subject.turn_id or "")
    assert of_trace[0] == f"trace {evaluation.subject.trace_id}"
    assert any("read by otel_genai as model" in line for line in of_trace)
    ending = of_trace[of_trace.index(f"turn       {evaluation.subject.turn_id}") :]
    assert ending == of_turn
    scored = f"scored {evaluation.score:g}; see evalstream explain {evaluation.evaluation_id}"
    assert ending[1] == f"           all/helpful: {scored}"
    assert ending[2].startswith("           all/short: sampled_out: the conversation's draw 0.")
    assert ending[2].endswith(" is not below the rate 1e-09 (sample)")
    assert ending[3] == "           bank: unmatched: the turn has service shop, not bank or safe"
    assert (
        document["turns"][evaluation.subject.turn_id]["bank"]
        == "unmatched: the turn has service shop, not bank or safe"
    )
    moved = config.settings.monitors["all"].model_dump() | {"match": {"service": "bank"}}
    elsewhere = configured(log, judge, tmp_path, evaluators={"helpful": helpful, **short}, monitors={"all": moved})
    _, again = await traced(elsewhere, evaluation.subject.turn_id or "")
    assert again["turns"] == document["turns"], "a file that asks for other turns now"


async def test_what_a_turn_without_a_score_waits_for(tmp_path: Path) -> None:
    """A judge or a budget was said to be waited for where there was neither; a score of the turns before counted."""
    evaluators = {
        "right": {"kind": "exact_match"},
        "brief": {"kind": "length", "maximum": 20},
        "short": {"kind": "length", "maximum": 10},
        "polite": {"kind": "conversational_g_eval", "criteria": "Is it polite?"},
    }
    monitors = {
        "all": {"evaluators": ["polite", "brief"], "idle_timeout": "1h"},
        "known": {"evaluators": ["right"], "references": {"wait": "10m"}},
        "paid": {"evaluators": ["brief", {"name": "short", "sample": 1.0}], "budget": {"usd_per_hour": 1}},
    }
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    config = configured(log, "http://localhost:1", tmp_path, evaluators=evaluators, monitors=monitors)
    asked = Turn(
        turn_id="t1", trace_id="1" * 32, span_id="1" * 16, conversation_id="c", input="When?", actual_output="At nine."
    )
    before = skipped(1)
    subject = replace(before.subject, conversation_id="c", turn_id=None, revision=1, links=(("2" * 32, "2" * 16),))
    without = replace(before, monitor="all", evaluator="polite", scope="conversation", subject=subject)
    async with open_logs(config.settings.log) as logs:
        await logs.turns.append([turn_record(asked)])
    outcomes = (await traced(config, "t1"))[1]["turns"]["t1"]
    assert outcomes["all/polite"].startswith("none yet: the conversation ends at 20")
    assert outcomes["all/brief"] == "none yet: the service has not come to this evaluation"
    assert (
        outcomes["paid/brief"]
        == "none yet: the service has not come to this evaluation, or a budget lowered the rate and left it out"
    )
    assert outcomes["paid/short"] == outcomes["all/brief"], "no budget lowers a rate of its own without a judge"
    assert outcomes["known/right"].startswith("none yet: the evaluation waits for expected_output until 20")
    async with open_logs(config.settings.log) as logs:
        await logs.evaluations.append([Record(without.evaluation_id.encode(), evaluation_to_json(without))])
    (_, document) = await traced(config, "t1")
    ending = f"if no turn follows; without this turn: evalstream explain {without.evaluation_id}"
    assert document["turns"]["t1"]["all/polite"].endswith(ending)
    assert (await traced(config, "c"))[1] == document, "a user's ticket has the id of the conversation"


async def test_what_a_budget_left_out_is_told_from_what_waits_for_the_judge(tmp_path: Path) -> None:
    """A turn that a budget had left out for good was said to wait for the judge, or to be left out: one of both."""
    monitors = {
        "paid": {"evaluators": ["helpful"], "budget": {"usd_per_hour": 1}},
        "planned": {"evaluators": ["helpful"], "sample": "auto"},
    }
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    config = configured(log, "http://localhost:1", tmp_path, monitors=monitors)
    asked = Turn(turn_id="t1", conversation_id="c", input="When?", actual_output="At nine.")

    async def outcomes() -> dict[str, str]:
        return (await traced(config, "t1"))[1]["turns"]["t1"]

    async with open_logs(config.settings.log) as logs:
        await logs.turns.append([turn_record(asked)])
    before = await outcomes()
    assert before["paid/helpful"].endswith("has not answered yet, or a budget lowered the rate and left it out")
    assert before["planned/helpful"].endswith(
        "has not answered yet, or sample: auto or a budget lowered the rate and left it out"
    )
    async with open_logs(config.settings.log) as logs:
        done = CommitMetadata(done_below=1).to_json()
        await logs.turns.set_committed(GROUP, {0: Committed(1, 1, done)})
    over = await outcomes()
    assert over["paid/helpful"].startswith("sampled_out: the conversation's draw 0.")
    assert over["paid/helpful"].endswith(" is not below the rate of that time (lowered from 1 by a budget)")
    factors = {"paid": RateReduction(1e-9), "planned": RateReduction(1.0)}
    async with open_logs(config.settings.log) as logs:
        later = ControlRecord(offset=1, rates=FULL_RATES)
        for control in (later, ControlRecord(offset=0, rates=Rates(factors))):
            await logs.evaluations.append([control.to_record(0)])
    known = await outcomes()
    assert known["paid/helpful"].endswith(" is not below the rate 1e-09 (lowered from 1 by a budget)")
    assert known["planned/helpful"] == "none yet: the judge main has not answered yet"


async def test_a_service_with_a_small_budget_says_of_each_turn_what_it_did(tmp_path: Path) -> None:
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    async with serve_judge() as judge:
        budget = {"usd_per_hour": 0.01}
        config = configured(log, judge, tmp_path, monitors={"all": {"evaluators": ["helpful"], "budget": budget}})
        async with running(config) as service, asyncio.timeout(60):
            for start in range(0, 200, 20):
                names = [f"t{number}" for number in range(start, start + 20)]
                turns = [
                    Turn(turn_id=name, conversation_id=name, input="When?", actual_output="At nine.") for name in names
                ]
                await service.logs.turns.append([turn_record(turn) for turn in turns])
                await asyncio.sleep(0.2)
            while metadata_of((await service.logs.turns.committed(GROUP)).get(0)).done_below < 200:
                await asyncio.sleep(0.05)
        said = [
            (await traced(config, f"t{number}"))[1]["turns"][f"t{number}"]["all/helpful"] for number in range(0, 200, 4)
        ]
    lowered = [each for each in said if each.startswith("sampled_out: ")]
    assert lowered
    assert all("(lowered from 1 by a budget)" in each for each in lowered)
    assert not [each for each in said if each.startswith("none yet")]


async def test_a_conversation_ends_after_its_last_turn_and_then_waits_for_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier turn of one that goes on was said to wait for the judge, and one that waits for an outcome, too."""
    evaluators = {
        "polite": {"kind": "conversational_g_eval", "criteria": "Is it polite?"},
        "solved": {"kind": "conversation_outcome", "outcome": "reopened", "good": [False]},
    }
    monitor = {"evaluators": [*evaluators], "idle_timeout": "1h", "references": {"wait": "10m"}}
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    config = configured(log, "http://localhost:1", tmp_path, evaluators=evaluators, monitors={"all": monitor})
    between = 0.0
    async with open_logs(config.settings.log) as logs:
        for name in ("t1", "t2"):
            between = time.time()
            await asyncio.sleep(0.05)
            turn = Turn(turn_id=name, conversation_id="c", input="When?", actual_output="At nine.")
            await logs.turns.append([turn_record(turn)])
    monkeypatch.setattr("collector.commands.trace.time", SimpleNamespace(time=lambda: between + 3600.0))
    outcomes = (await traced(config, "t1"))[1]["turns"]["t1"]
    assert outcomes["all/polite"].startswith("none yet: the conversation ends at 20")
    monkeypatch.setattr("collector.commands.trace.time", SimpleNamespace(time=lambda: between + 3900.0))
    outcomes = (await traced(config, "t1"))[1]["turns"]["t1"]
    assert outcomes["all/solved"].startswith("none yet: the evaluation waits for attributes.outcome.reopened until 20")


async def test_a_turn_is_explained_by_the_configuration_of_when_it_came(tmp_path: Path) -> None:
    """What an earlier rate had left out was said to wait for the judge, as it was drawn by the file of now; so was what
    nobody was asked for then, and what nobody will make any more."""
    evaluators = {
        "brief": {"kind": "length", "maximum": 20},
        "right": {"kind": "exact_match"},
        "polite": {"kind": "conversational_g_eval", "criteria": "Is it polite?"},
    }
    rare = {"all": {"evaluators": ["brief"], "sample": 1e-9}, "talks": {"evaluators": ["polite"], "idle_timeout": "1h"}}
    voice = {"voice": {"evaluators": ["right"], "match": {"service": "voice"}}}
    every = {"all": {"evaluators": ["brief", "right"], "sample": 1}, **voice}
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    then, now = (
        configured(log, "http://localhost:1", tmp_path, evaluators=evaluators, monitors=monitors)
        for monitors in (rare, every)
    )
    for config, name in ((then, "t1"), (now, "t2")):
        async with running(config) as service, asyncio.timeout(60):
            turn = Turn(turn_id=name, conversation_id="c", input="When?", actual_output="At nine.")
            await service.logs.turns.append([turn_record(turn)])
            offsets = [each.offset async for batch in service.logs.turns.read(0, 0) for each in batch if each.key]
            while (await service.logs.turns.committed(GROUP)).get(0, Committed(0, 0, "")).offset <= offsets[-1]:
                await asyncio.sleep(0.05)
            while name == "t2" and await _evaluation(service.logs.evaluations) is None:
                await asyncio.sleep(0.05)
    first, second = [(await traced(now, name))[1]["turns"][name] for name in ("t1", "t2")]
    assert first["all/brief"].startswith("sampled_out: the conversation's draw ")
    assert first["all/brief"].endswith(" is not below the rate 1e-09 (sample)")
    assert first["all/right"] == "none: this evaluator was not configured when the turn came"
    assert "voice/right" not in first, "its monitor does not match the turn"
    assert first["talks/polite"] == "none yet: the configuration no longer has this evaluator"
    assert second["all/brief"].startswith("scored 1")
    assert (await traced(then, "t1"))[1]["turns"]["t1"]["all/brief"] == first["all/brief"]


@pytest.mark.parametrize(
    ("problems", "expected"),
    [
        (["judges: main refuses every request: 401"], "the service says of judges: main refuses every request: 401"),
        (["exporters: otlp does not answer"], "the judge main has not answered yet"),
    ],
)
async def test_a_judge_that_refuses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problems: list[str], expected: str
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        "collector.commands.trace.running_problems", lambda config: [asked.append(config), *problems][1:]
    )
    read: list[str] = []
    whole = read_partitions
    monkeypatch.setattr("collector.commands.trace.read_partitions", lambda log: [read.append(log.name), whole(log)][1])
    log = {"kind": "sqlite", "path": str(tmp_path / "logs.db")}
    monitors = {"all": {"evaluators": ["helpful"]}, "again": {"evaluators": ["helpful"]}}
    config = configured(log, "http://localhost:1", tmp_path, monitors=monitors)
    async with open_logs(config.settings.log) as logs:
        turns = [Turn(turn_id=name, trace_id="t1", input="When?", actual_output="At nine.") for name in ("t1", "t2")]
        await logs.turns.append([turn_record(turn) for turn in turns])
    assert len((await traced(config, "t1"))[1]["turns"]) == 2
    assert (len(asked), read.count("turns")) == (2, 2), "once for the text and once for JSON"
    assert (await traced(config, "t1"))[1]["turns"]["t1"]["all/helpful"] == f"none yet: {expected}"


def test_a_skip_that_no_exporter_sends_is_not_said_to_be_exported(tmp_path: Path) -> None:
    """`export otlp: exported` was printed of a skip, which a receiver was then searched for in vain."""
    config = configured({"kind": "memory"}, "http://localhost:1", tmp_path)
    evaluation, place = skipped(1), Committed(8, 8, "")
    record = StoredRecord(0, 7, 1000.0, b"k", b"")
    trace = EvaluationTrace(
        evaluation=evaluation, record=record, copies=1, superseded_by=(), turns=(), spans=(), explained=None,
        places={"otlp": place, "jsonl": place},
    )  # fmt: skip
    assert [line for line in lines(trace, config) if line.startswith("export")] == [
        "export     otlp: read; skips are sent only with skipped: true",
        "export     jsonl: exported",
    ]


def test_what_an_audit_was_paid_is_beside_both_prices_and_its_verdict_beside_the_judges(tmp_path: Path) -> None:
    """Two calls and the cheap judge's price stood beside eleven times what that price gives."""
    judges = {
        name: {"model": name, "base_url": "http://localhost:1", "usd_per_million_input_tokens": price,
               "usd_per_million_output_tokens": price}
        for name, price in (("main", 1.0), ("dear", 10.0))
    }  # fmt: skip
    helpful = {"kind": "g_eval", "criteria": "Does it answer?", "evaluation_params": ["input", "actual_output"],
               "judge": "main", "audit": {"judge": "dear", "share": 0.5}}  # fmt: skip
    config = configured({"kind": "memory"}, "", tmp_path, judges=judges, evaluators={"helpful": helpful})
    evaluation = scored(
        evaluator="helpful", monitor="all", evaluator_version=evaluator_version_in(config, "helpful", "all"),
        usage=Usage(input_tokens=2000, output_tokens=0, calls=2), cost_usd=0.011, details={"audit": {"score": 0.5, "probability": 0.5}},
    )  # fmt: skip
    trace = EvaluationTrace(
        evaluation=evaluation, record=StoredRecord(0, 7, 1000.0, b"k", b""), copies=1, superseded_by=(), turns=(),
        spans=(), explained=None, places={},
    )  # fmt: skip
    [paid] = [line for line in lines(trace, config) if line.startswith("paid")]
    assert paid == (
        "paid       2 calls, the audit's among them, 2,000 + 0 tokens, 0.011 USD "
        "(dear: 10 and 10 USD per million, main: 1 and 1 USD per million)"
    )
    for noted, said in (
        ({"score": 0.5, "probability": 0.5, "passed": False}, "0.5, did not pass"),
        ({"reason": "judge_timeout", "probability": 0.5}, "no score: judge_timeout"),
    ):
        again = replace(trace, evaluation=replace(evaluation, details={"audit": noted}))
        assert f"audit      {said}" in list(lines(again, config))
    unpriced = replace(evaluation, judge=None, usage=Usage(input_tokens=9, calls=1), cost_usd=None)
    [paid] = [line for line in lines(replace(trace, evaluation=unpriced), config) if line.startswith("paid")]
    assert "cost unknown" in paid, "only the audit asked a judge, and it has no price"


def test_what_another_judge_was_paid_is_not_at_the_price_of_the_present_one(tmp_path: Path) -> None:
    """Both cost the same, and the line named the judge that had never been asked."""
    config = configured({"kind": "memory"}, "http://localhost:1", tmp_path)
    now = evaluator_version_in(config, "helpful", "all")
    for version, price in ((now, " (main: 2 and 8 USD per million)"), ("of-another", "")):
        evaluation = scored(
            evaluator="helpful", monitor="all", evaluator_version=version,
            usage=Usage(input_tokens=1000, output_tokens=0, calls=1), cost_usd=0.002,
        )  # fmt: skip
        trace = EvaluationTrace(
            evaluation=evaluation, record=StoredRecord(0, 7, 1000.0, b"k", b""), copies=1, superseded_by=(), turns=(),
            spans=(), explained=None, places={},
        )  # fmt: skip
        [paid] = [line for line in lines(trace, config) if line.startswith("paid")]
        assert paid == f"paid       1 call, 1,000 + 0 tokens, 0.0020 USD{price}"


async def test_ids_that_are_none_or_unknown(tmp_path: Path) -> None:
    config = configured({"kind": "sqlite", "path": str(tmp_path / "logs.db")}, "http://localhost:1", tmp_path)
    with pytest.raises(ConfigError, match=r"logs\.db: no such file"):
        await trace_evaluation(config, "0" * 32, print, as_json=False)
    assert not (tmp_path / "logs.db").exists(), "looking makes no file"
    async with open_logs(config.settings.log):
        pass
    for wrong in ("0" * 32, "abc", ""):
        with pytest.raises(
            EvalstreamError, match=f"no evaluation, trace, turn or conversation '{wrong}' in the log"
        ) as raised:
            await trace_evaluation(config, wrong, print, as_json=False)
        assert not isinstance(raised.value, ConfigError), "the work failed: status 1"
    memory = configured({"kind": "memory"}, "http://localhost:1", tmp_path)
    with pytest.raises(ConfigError, match=r"log\.kind is memory"):
        await trace_evaluation(memory, "0" * 32, print, as_json=False)


@pytest.mark.kafka
async def test_every_step_on_kafka(kafka_broker: Any, tmp_path: Path) -> None:
    kafka = {"bootstrap_servers": [kafka_broker.bootstrap], "prefix": f"trace-{secrets.token_hex(4)}", "partitions": 3}
    async with serve_judge() as judge:
        config = configured({"kind": "kafka", "kafka": kafka}, judge, tmp_path)
        async with judged(config) as evaluation:
            assert_every_step(*await traced(config, evaluation.evaluation_id), evaluation)
