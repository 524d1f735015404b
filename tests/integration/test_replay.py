"""`evalstream compare evaluators` over logs that the evaluate stage itself has filled, with the stand-in judge."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from stand_in_judge import StandInJudge, serve_judge
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.errors import ConfigError, EvalstreamError
from collector.logs.log import Log, Record
from collector.records.json import evaluation_from_json, evaluation_to_json, label_to_json, turn_to_json
from collector.service.app import running
from collector.service.open_logs import open_logs
from evaluators.cases import Turn
from evaluators.identity import retry_id
from evaluators.results import ErrorDetail, Evaluation, Label, Sampling

START = datetime(2026, 11, 20, tzinfo=UTC)
CONVERSATIONS = 8


@dataclass
class World:
    """A folder with a configuration, logs with a past, and a judge that counts."""

    folder: Path
    judge: StandInJudge
    settings: dict[str, Any]

    def configure(self, name: str = "evalstream.yaml", **changes: Any) -> str:
        path = self.folder / name
        path.write_text(yaml.safe_dump(self.settings | changes))
        return str(path)

    async def replay(self, *arguments: str) -> Result:
        command = ["compare", "evaluators", "-c", str(self.folder / "evalstream.yaml"), *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    async def figures(self, *arguments: str) -> dict[str, Any]:
        done = await self.replay("--json", *arguments)
        assert done.exit_code == 0, (done.output, done.exception)
        return json.loads(done.stdout)

    async def ledger(self) -> list[Evaluation]:
        async with open_logs(load(self.folder / "evalstream.yaml").settings.log) as logs:
            return await evaluations_in(logs.evaluations)


def turns() -> list[Turn]:
    """Two turns in each conversation; the second of every other one answers nothing that was asked."""
    made: list[Turn] = []
    for n in range(2 * CONVERSATIONS):
        at = START + timedelta(minutes=n)
        good = n % 4 != 3
        made.append(
            Turn(
                turn_id=f"t{n}",
                conversation_id=f"c{n // 2}",
                trace_id=f"{n:032x}",
                span_id=f"{n:016x}",
                input=f"Please tell me, where is the parcel number {n}?",
                actual_output=f"The parcel number {n} is where I please." if good else "Bananas grow on trees.",
                started_at=at,
                ended_at=at,
                attributes={"last": n % 2 == 1},
            )
        )
    return made


@asynccontextmanager
async def a_world(folder: Path, log: dict[str, Any]) -> AsyncIterator[World]:
    judge = StandInJudge()
    async with serve_judge(judge) as url:
        asked = {"evaluation_steps": ["Does it answer?"], "evaluation_params": ["input", "actual_output"]}
        prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
        settings: dict[str, Any] = {
            "log": log,
            "judges": {name: {"model": name, "base_url": url, **prices} for name in ("main", "small")},
            "evaluators": {
                "helpful": {"kind": "g_eval", "judge": "main", "threshold": 0.5, **asked},
                "complete": {"kind": "completeness", "judge": "main", "threshold": 0.5},
                "short": {"kind": "length", "maximum": 2, "threshold": 0.5},
            },
            "monitors": {
                "all": {"evaluators": ["helpful", "complete"], "end_markers": {"attributes": {"last": ["True"]}}}
            },
            "export": {},
        }
        world = World(folder, judge, settings)
        async with running(load(Path(world.configure())), {"evaluate"}) as service:
            records = [Record((turn.conversation_id or "").encode(), turn_to_json(turn)) for turn in turns()]
            await service.logs.turns.append(records)
            async with asyncio.timeout(60):
                while len(await evaluations_in(service.logs.evaluations)) < 3 * CONVERSATIONS:
                    await asyncio.sleep(0.05)
        yield world


async def evaluations_in(log: Log) -> list[Evaluation]:
    return [
        evaluation_from_json(record.value)
        for partition in range(log.partitions)
        async for batch in log.read(partition, 0)
        for record in batch
        if not record.headers
    ]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, {"path": str(tmp_path / "evalstream.db")}) as world:
        yield world


@pytest.mark.kafka
@pytest.mark.timeout(240)
async def test_topics_have_a_past_too(kafka_broker: Any, tmp_path: Path) -> None:
    topics = {
        "bootstrap_servers": [kafka_broker.bootstrap],
        "prefix": f"replay-{uuid.uuid4().hex[:8]}",
        "partitions": 3,
    }
    async with a_world(tmp_path, {"kind": "kafka", "kafka": topics}) as world:
        report = await world.figures("--judge", "small")
        assert [each["pairs"] for each in report["evaluators"]] == [CONVERSATIONS, 2 * CONVERSATIONS]


async def test_another_judge_over_the_same_conversations(world: World) -> None:
    before = await world.ledger()
    calls = world.judge.calls
    report = await world.figures("--judge", "small", "-o", str(world.folder / "new.jsonl"))
    complete, helpful = report["evaluators"]
    assert (complete["pairs"], helpful["pairs"]) == (CONVERSATIONS, 2 * CONVERSATIONS)
    assert helpful["conversations"] == CONVERSATIONS
    for each in (complete, helpful):  # the stand-in gives equal questions equal answers, whatever its model is called
        assert each["mean"]["difference"] == 0.0
        assert each["mean"]["interval"] == [0.0, 0.0]
        assert (each["same_verdict"], each["worst_disagreements"]) == (1.0, [])
        assert each["old"]["cost_usd"] == pytest.approx(each["new"]["cost_usd"])
    asked = world.judge.calls - calls
    assert report["spent_usd"] == pytest.approx(helpful["new"]["cost_usd"] + complete["new"]["cost_usd"])
    assert await world.ledger() == before, "the evaluations log is as it was"
    assert await world.figures("--judge", "small", "-o", str(world.folder / "new.jsonl")) == report | {"spent_usd": 0.0}
    repeated = await world.replay("--judge", "small", "-o", str(world.folder / "new.jsonl"))
    assert "again" not in repeated.stderr, "nothing is asked"
    assert world.judge.calls - calls == asked, "what the output holds is not judged again"


async def test_another_evaluator_beside_the_old_one(world: World) -> None:
    report = await world.figures("--evaluator", "helpful", "--by", "short")
    [found] = report["evaluators"]
    assert found["new"] | {"version": ""} == {
        "evaluator": "short", "version": "", "judge": "", "cost_usd": None, "unpriced": 0,
    }  # fmt: skip
    assert found["mean"]["new"] < found["mean"]["old"]
    assert found["mean"]["interval"][1] < 0.0
    assert found["pass_to_fail"] > 0
    first, second, *_ = found["worst_disagreements"]
    assert abs(first["difference"]) >= abs(second["difference"]) > 0
    shown = (await world.replay("--evaluator", "helpful", "--by", "short")).stdout
    assert "The new scores are lower, beyond chance." in shown
    assert f"turn {first['turn_id']}, trace {first['trace_id']}" in shown
    assert "\x1b" not in shown


def by_people(evaluation: Evaluation) -> bool:
    """Their verdict on a turn: the answer says where the parcel is, or bananas grow on trees."""
    return int((evaluation.subject.turn_id or "t3").removeprefix("t")) % 4 != 3


async def labelled(world: World, most: int) -> list[Evaluation]:
    """Label the first evaluations by `helpful`, as drawn ones, on the page."""
    judged = [each for each in await world.ledger() if each.evaluator == "helpful"][:most]
    labels = [
        Label(
            label_id=each.evaluation_id, evaluation_id=each.evaluation_id, evaluator=each.evaluator,
            evaluator_version=each.evaluator_version, scope=each.scope, monitor=each.monitor, subject=each.subject,
            score=float(by_people(each)), judge_score=each.score, label_probability=0.5, given_at=each.ended_at,
        )
        for each in judged
    ]  # fmt: skip
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.labels.append([Record(each.evaluation_id.encode(), label_to_json(each)) for each in labels])
    return judged


async def test_people_tell_which_side_is_right(world: World) -> None:
    judged = await labelled(world, 2 * CONVERSATIONS)
    [found] = (await world.figures("--evaluator", "helpful", "--by", "short"))["evaluators"]
    right = sum(by_people(each) == each.passed for each in judged) / len(judged)
    assert found["labels"] == 2 * CONVERSATIONS
    assert found["agreement_with_people"]["old"] == pytest.approx(right)
    assert found["agreement_with_people"]["new"] == pytest.approx(0.25), "it passes nothing, they fail a quarter"
    shown = (await world.replay("--evaluator", "helpful", "--by", "short")).stdout
    assert "People (16 labels) agree with the old verdicts more often than chance explains." in shown
    assert "agrees with people" in shown

    lines = [{"turn_id": each.subject.turn_id, "human": not by_people(each)} for each in judged]
    path = world.folder / "labels.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    [found] = (await world.figures("--evaluator", "helpful", "--by", "short", "--labels", str(path)))["evaluators"]
    assert found["agreement_with_people"]["old"] == pytest.approx(1.0 - right)


async def test_few_labels_decide_nothing(world: World) -> None:
    await labelled(world, 3)
    done = await world.replay("--evaluator", "helpful", "--by", "short")
    assert "Which side is right is not known: people labelled 3 of these pairs, and 10 are needed" in done.stdout
    assert "agrees with people" not in done.stdout


async def test_a_second_configuration(world: World) -> None:
    stricter = world.settings["evaluators"]["helpful"] | {"threshold": 0.95}
    new = world.configure("new.yaml", evaluators=world.settings["evaluators"] | {"helpful": stricter})
    report = await world.figures("--with", new, "--evaluator", "helpful", "--monitor", "all", "--from", "1h")
    [found] = report["evaluators"]
    assert found["pairs"] == 2 * CONVERSATIONS
    assert found["passing"]["new"] < found["passing"]["old"]
    assert found["mean"]["difference"] == 0.0


async def test_evaluators_that_did_not_change_are_not_paid_for_again(world: World) -> None:
    changed = {**world.settings["evaluators"]["helpful"], "evaluation_steps": ["Does it solve it?"]}
    new = world.configure("new.yaml", evaluators=world.settings["evaluators"] | {"helpful": changed})
    done = await world.replay("--with", new)
    assert f"making {2 * CONVERSATIONS} evaluations again" in done.stderr, done.stderr
    assert "left out, as they did not change: complete (--evaluator includes one)" in done.stderr
    assert "expired" not in done.stdout, "the turns of what did not change are all there"
    assert "the same version" not in done.stderr


async def test_a_comparison_of_a_version_with_itself_says_so_before_it_is_paid_for(world: World) -> None:
    done = await world.replay("--evaluator", "helpful")
    [line] = [line for line in done.stderr.splitlines() if f"making {2 * CONVERSATIONS} evaluations again" in line]
    assert line.endswith("; old and new are the same version, so this shows how steady its scores are")


async def test_what_was_made_again_after_a_failure_did_not_change(world: World) -> None:
    """A retry has an id of its own, so unchanged evaluators were paid for once more."""
    again = [
        replace(each, evaluation_id=retry_id(each.evaluation_id), ended_at=each.ended_at + timedelta(microseconds=1))
        for each in await world.ledger()
        if each.evaluator == "complete"
    ]
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append([Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in again])
    changed = {**world.settings["evaluators"]["helpful"], "evaluation_steps": ["Does it solve it?"]}
    new = world.configure("new.yaml", evaluators=world.settings["evaluators"] | {"helpful": changed})
    done = await world.replay("--with", new)
    assert f"making {2 * CONVERSATIONS} evaluations again" in done.stderr, done.stderr


async def test_what_has_no_old_score_is_named(world: World) -> None:
    first = next(each for each in await world.ledger() if each.evaluator == "helpful")
    skip = replace(
        first, outcome="skipped", score=None, reason="shed", ended_at=first.ended_at + timedelta(microseconds=1)
    )
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append([Record(b"later", evaluation_to_json(replace(skip, evaluation_id="later")))])
    said = (await world.replay("--judge", "small", "--evaluator", "helpful")).stdout
    assert "Omitted for lack of an old score: 1 evaluation:" in said
    assert (
        f"later (conversation {first.subject.conversation_id}" in said or f"later (turn {first.subject.turn_id}" in said
    )
    assert "skipped (shed)" in said


async def test_what_was_left_out_is_not_said_to_lack_a_score(world: World) -> None:
    """Skips of unchanged evaluators were counted among those that lack an old score."""
    kept = next(each for each in await world.ledger() if each.evaluator == "complete")
    late = kept.ended_at + timedelta(microseconds=1)
    skip = replace(kept, evaluation_id="later", outcome="skipped", score=None, reason="shed", ended_at=late)
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append([Record(b"later", evaluation_to_json(skip))])
    changed = {**world.settings["evaluators"]["helpful"], "evaluation_steps": ["Does it solve it?"]}
    new = world.configure("new.yaml", evaluators=world.settings["evaluators"] | {"helpful": changed})
    done = await world.replay("--with", new)
    assert "left out, as they did not change: complete" in done.stderr
    assert "Omitted" not in done.stdout
    assert (await world.figures("--with", new))["left_out"]["no_old_score"] == 0


async def test_failures_of_what_has_no_score_and_did_not_change_are_left_out(world: World) -> None:
    """An evaluator that only failed was named among those that lack an old score, though another had changed."""
    evaluators = world.settings["evaluators"] | {"house": {"kind": "completeness", "judge": "main"}}
    world.configure(evaluators=evaluators)
    kept = next(each for each in await world.ledger() if each.evaluator == "complete")
    late = kept.ended_at + timedelta(microseconds=1)
    failed = [
        replace(
            kept, evaluation_id=f"house-{n}", evaluator="house", outcome="failed", score=None, passed=None,
            error=ErrorDetail(type="judge_rejected", message="no"), ended_at=late,
        )
        for n in range(3)
    ]  # fmt: skip
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append([Record(b"house", evaluation_to_json(made)) for made in failed])
    changed = {**evaluators["helpful"], "evaluation_steps": ["Does it solve it?"]}
    new = world.configure("new.yaml", evaluators=evaluators | {"helpful": changed})
    done = await world.replay("--with", new)
    assert "left out, as they did not change: complete, house (" in done.stderr
    assert "Omitted" not in done.stdout
    new = world.configure("new.yaml", evaluators=evaluators | {"house": {**evaluators["house"], "threshold": 0.4}})
    asked = world.judge.calls
    done = await world.replay("--with", new)
    assert "no score to compare with in 1 selected evaluation" in str(done.exception), done.output
    assert world.judge.calls == asked
    assert "3 evaluations:" not in (await world.replay("--with", new, "--evaluator", "helpful")).stdout
    two = {"helpful": changed, "house": {**evaluators["house"], "threshold": 0.4}}
    both = world.configure("new.yaml", evaluators=evaluators | two)
    done = await world.replay("--with", both)
    assert "left out, as they did not change: complete (" in done.stderr
    assert "Omitted for lack of an old score: 1 evaluation:" in done.stdout


async def test_a_second_configuration_that_changes_nothing_is_not_paid_for(world: World) -> None:
    new = world.configure("new.yaml", evaluators=world.settings["evaluators"])
    done = await world.replay("--with", new)
    assert done.exit_code == 1
    assert "; change some of it, or repeat an evaluator with --evaluator NAME" in str(done.exception or done.stderr)


async def test_what_an_earlier_version_judged_is_not_paid_for_where_the_file_changes_nothing(world: World) -> None:
    """Evaluations by the version before made every evaluator differ, and the judge was asked of what no one changed."""
    earlier = [
        replace(each, evaluation_id=f"{number}", evaluator_version="before", ended_at=each.ended_at + timedelta(1))
        for number, each in enumerate(await world.ledger())
    ]
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in earlier]
        await logs.evaluations.append(records)
    asked = world.judge.calls
    done = await world.replay("--with", world.configure("new.yaml", evaluators=world.settings["evaluators"]))
    assert "new.yaml: what was judged in this time is defined as in" in str(done.exception or done.stderr)
    assert world.judge.calls == asked
    other = {"judges": {**world.settings["judges"], "main": {**world.settings["judges"]["main"], "model": "large"}}}
    done = await world.replay("--with", world.configure("new.yaml", **other))
    assert f"making {3 * CONVERSATIONS} evaluations again" in done.stderr, "its judge has another model"


async def test_scores_by_another_version_are_no_part_of_the_old_mean(world: World) -> None:
    """650 of 758 old scores were by the criteria of before: 0.555 → 0.233, where the version itself had 0.219."""
    again = ("--evaluator", "helpful", "--judge", "small")
    [alone] = (await world.figures(*again))["evaluators"]
    helpful = [each for each in await world.ledger() if each.evaluator == "helpful"]
    earlier = [
        replace(
            each, evaluation_id=f"earlier{n}", evaluator_version=f"before{n % 2}", score=0.0, passed=False,
            subject=replace(each.subject, turn_id=f"earlier {each.subject.turn_id}"), ended_at=each.ended_at + timedelta(microseconds=n),
        )
        for n, each in enumerate(helpful)
    ]  # fmt: skip
    repeated = [replace(case, turn_id=f"earlier {case.turn_id}") for case in turns()]
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in earlier]
        await logs.evaluations.append(records)
        await logs.turns.append(
            [Record((case.conversation_id or "").encode(), turn_to_json(case)) for case in repeated]
        )
    report = await world.figures(*again)
    assert report["evaluators"] == [alone], "the present version's scores alone"
    assert report["left_out"]["other_versions"] == len(earlier)
    shown = (await world.replay(*again)).stdout
    assert "Omitted: 16 scores of another version or judge; a mean is of one version and judge." in shown
    assert "evalstream rejudge --what all has these answers scored by the present version." in shown

    stricter = {**world.settings["evaluators"]["helpful"], "evaluation_steps": ["Does it solve it?"]}
    world.configure(evaluators=world.settings["evaluators"] | {"helpful": stricter})
    [found] = (await world.figures("--evaluator", "helpful"))["evaluators"]
    assert found["old"]["version"] == "before1", "nothing is by the version of now, so that the newest counts"
    assert (found["pairs"], found["no_new_score"]) == (len(earlier) / 2, {})
    shown = (await world.replay("--evaluator", "helpful")).stdout
    assert "rejudge" not in shown, "it makes scores of the version of now, which is not the old side"
    assert "The old side is not in use any more, so no command scores these answers by it." in shown


async def test_versions_that_packs_make_have_a_table_each(world: World) -> None:
    """Packed scores of one monitor and those of another that asks alone are by two versions, both in use."""
    packed = {
        name: {**world.settings["evaluators"]["helpful"], "evaluation_steps": [name]} for name in ("helpful", "b")
    }
    evaluators = json.loads(json.dumps(world.settings["evaluators"] | packed))
    monitors = {**world.settings["monitors"], "other": {"evaluators": ["helpful", "b"], "pack": "auto"}}
    new = world.configure("new.yaml", evaluators=evaluators, monitors=monitors)
    moved = [replace(each, evaluation_id=f"o{n}", monitor="other", subject=replace(each.subject, turn_id=f"o {each.subject.turn_id}"))
             for n, each in enumerate(await world.ledger()) if each.evaluator == "helpful"]  # fmt: skip
    repeated = [replace(case, turn_id=f"o {case.turn_id}") for case in turns()]
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append([Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in moved])
        await logs.turns.append(
            [Record((case.conversation_id or "").encode(), turn_to_json(case)) for case in repeated]
        )
    found = (await world.figures("--with", new, "--evaluator", "helpful"))["evaluators"]
    assert len({each["new"]["version"] for each in found}) == 2
    assert [each["pairs"] for each in found] == [2 * CONVERSATIONS] * 2


async def test_the_price_is_that_of_the_log_where_the_judge_is_the_same(world: World) -> None:
    changed = {**world.settings["evaluators"]["helpful"], "evaluation_steps": ["Does it solve it?"]}
    new = world.configure("new.yaml", evaluators=world.settings["evaluators"] | {"helpful": changed})
    done = await world.replay("--with", new)
    assert (price := re.search(r"for roughly ([0-9.]+) USD \(the old ones cost ([0-9.]+) USD\)", done.stderr)), (
        done.stderr
    )
    assert price[1] == price[2]


async def test_what_old_ones_without_a_price_cost_is_not_known(world: World) -> None:
    """47 of 189 were made before their judge had a price: their cost looked like that of all."""
    one = next(each for each in await world.ledger() if each.evaluator == "helpful")
    unpriced = replace(one, evaluation_id="f" * 32, cost_usd=None, ended_at=one.ended_at + timedelta(microseconds=1))
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append([Record(b"k", evaluation_to_json(unpriced))])
    changed = {**world.settings["evaluators"]["helpful"], "evaluation_steps": ["Does it solve it?"]}
    new = world.configure("new.yaml", evaluators=world.settings["evaluators"] | {"helpful": changed})
    assert "(the old ones cost at least " in (await world.replay("--with", new)).stderr


async def test_audits_of_the_old_ones_are_no_part_of_the_expected_cost(world: World) -> None:
    """`compare evaluators` makes none: it said 3.50 USD, and 2.46 USD were paid."""
    changed = {**world.settings["evaluators"]["helpful"], "evaluation_steps": ["Does it solve it?"]}
    new = world.configure("new.yaml", evaluators=world.settings["evaluators"] | {"helpful": changed})
    stated = r"for roughly ([0-9.]+) USD \(the old ones cost ([0-9.]+) USD\)"
    before = re.search(stated, (await world.replay("--with", new)).stderr)
    helpful = [each for each in await world.ledger() if each.evaluator == "helpful"]
    audited = [
        replace(
            each, evaluation_id=f"{n:032}", ended_at=each.ended_at + timedelta(microseconds=1),
            details={**each.details, "audit": {"score": 0.5, "probability": 0.5, "version": "v"}},
            usage=each.usage and replace(each.usage, input_tokens=30 * each.usage.input_tokens),
            cost_usd=30 * (each.cost_usd or 0.0),
        )
        for n, each in enumerate(helpful[::2])
    ]  # fmt: skip
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append(
            [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in audited]
        )
    done = await world.replay("--with", new)
    assert before
    assert (after := re.search(stated, done.stderr))
    assert float(after[1]) == pytest.approx(float(before[1]), rel=0.1)
    assert float(after[2]) == pytest.approx(float(before[2]), rel=0.1), "as in the table, also without audits"
    assert re.search(rf"cost, without audits +{after[2]} USD", done.stdout), done.stdout


async def test_an_answer_that_two_monitors_judge_costs_what_one_of_them_paid(world: World) -> None:
    """176 of 541 were free, as the record was that of the monitor that had not paid: 0.10 USD instead of 0.15."""
    again = ("--evaluator", "helpful", "--judge", "small")
    before = (await world.figures(*again))["evaluators"][0]["old"]["cost_usd"]
    paid = (await world.replay(*again)).stderr.split("making")[1]
    helpful = [each for each in await world.ledger() if each.evaluator == "helpful"]
    shared = [
        replace(each, evaluation_id=f"s{n}", monitor="more", usage=None, cost_usd=0.0, shares=each.evaluation_id)
        for n, each in enumerate(helpful)
    ]
    newest = shared[0].ended_at + timedelta(microseconds=1)
    of_none = replace(shared[0], evaluation_id="gone", shares="gone", ended_at=newest)
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append(
            [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in shared]
        )
        assert (await world.figures(*again))["evaluators"][0]["old"]["cost_usd"] == pytest.approx(before)
        assert (await world.replay(*again)).stderr.split("making")[1] == paid
        await logs.evaluations.append([Record(b"gone", evaluation_to_json(of_none))])
    assert "(the old ones cost at least " in (await world.replay(*again)).stderr


async def test_a_monitors_agreement_is_that_of_calibrate(world: World) -> None:
    """`compare` took the labels of all monitors' queues also with --monitor, and `calibrate` the monitor's: 0.812, 0.820."""
    helpful = [each for each in await world.ledger() if each.evaluator == "helpful"]
    narrow = [
        replace(each, evaluation_id=f"n{n}", monitor="narrow", sampling=Sampling(probability=0.5), shares=each.evaluation_id)
        for n, each in enumerate(helpful) if n % 2
    ]  # fmt: skip
    labels = [
        Label(
            label_id=each.evaluation_id, evaluation_id=each.evaluation_id, evaluator=each.evaluator,
            evaluator_version=each.evaluator_version, scope=each.scope, monitor=each.monitor, subject=each.subject,
            score=float(by_people(each) == (n % 6 != 0)), judge_score=each.score, judge_passed=each.passed, given_at=each.ended_at,
            label_probability=0.3 + 0.1 * (n % 5), sampling=each.sampling,
        )
        for n, each in enumerate([*helpful, *narrow]) if n > 2
    ]  # fmt: skip
    monitors = world.settings["monitors"] | {"narrow": {"evaluators": ["helpful"], "sample": 0.5}}
    world.configure(monitors=monitors)
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append(
            [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in narrow]
        )
        await logs.labels.append([Record(each.evaluation_id.encode(), label_to_json(each)) for each in labels])
    agreements = set[tuple[int, float]]()
    for monitor in ((), ("--monitor", "all")):
        [compared] = (await world.figures("--evaluator", "helpful", "--by", "short", *monitor))["evaluators"]
        where = ["calibrate", "--evaluator", "helpful", "-c", str(world.folder / "evalstream.yaml"), "--json", *monitor]
        done = await asyncio.to_thread(CliRunner().invoke, app, where)
        assert done.exit_code == 0, done.output
        calibrated = json.loads(done.stdout)["segments"][0]["equal_verdicts"]["value"]
        assert compared["agreement_with_people"]["old"] == pytest.approx(calibrated, abs=1e-9), monitor
        agreements.add((compared["labels"], calibrated))
    assert len(agreements) == 2, "the labels of both monitors, and those of one"

    path = world.folder / "labels.jsonl"
    path.write_text("".join(json.dumps({"evaluation_id": each.evaluation_id, "human": True}) + "\n" for each in labels))
    ours = ("--evaluator", "helpful", "--by", "short", "--labels", str(path))
    assert "left out" not in (await world.replay(*ours)).stderr
    of_all = sum(each.monitor == "all" for each in labels)
    left_out = (
        f"left out {len(labels) - of_all} of {len(labels)} labels, not of an answer in the log that helpful scored"
    )
    assert f"{left_out} in monitor all" in (await world.replay(*ours, "--monitor", "all")).stderr


async def test_the_money_ends_it(world: World) -> None:
    whole = (await world.figures("--evaluator", "helpful", "--judge", "small"))["spent_usd"]
    limit = 0.0017 + whole / 2  # the first guess of a price is 0.0017 USD
    done = await world.replay("--evaluator", "helpful", "--judge", "small", "--max-usd", f"{limit:.6f}", "--json")
    assert done.exit_code == 1
    assert " pays for no more: " in done.stderr
    report = json.loads(done.stdout)
    assert 0 < report["evaluators"][0]["pairs"] < 2 * CONVERSATIONS
    assert report["left_out"]["no_money"] == 2 * CONVERSATIONS - report["evaluators"][0]["pairs"]
    assert report["spent_usd"] <= limit
    shown = await world.replay("--evaluator", "helpful", "--judge", "small", "--max-usd", f"{limit:.6f}")
    left = 2 * CONVERSATIONS - report["evaluators"][0]["pairs"]
    first = f"Only a random part: --max-usd left out {left} evaluations.\n"
    assert shown.stdout.startswith(first)
    assert re.search(
        r"^In this part, the (means do not differ|new scores are \w+),? beyond chance\.$", shown.stdout, re.MULTILINE
    )


async def test_turns_of_files_instead_of_the_log(world: World) -> None:
    (world.folder / "turns.jsonl").write_bytes(b"".join(turn_to_json(each) + b"\n" for each in turns()[:4]))
    report = await world.figures(str(world.folder / "turns.jsonl"), "--evaluator", "helpful", "--judge", "small")
    assert report["evaluators"][0]["pairs"] == 4
    assert report["left_out"]["text_is_gone"] == 2 * CONVERSATIONS - 4


@pytest.mark.parametrize(
    ("arguments", "changes", "said"),
    [
        (["--from", "yesterday"], {}, "--from: 'yesterday' is not a time; write a time like 2026-11-20T09:00"),
        (["--to", "2020-01-01"], {}, "none of 24 evaluations is selected; widen --from and --to"),
        (["--judge", "smal"], {}, "--judge: unknown judge 'smal'; did you mean 'small'?"),
        (["--evaluator", "helpful", "--by", "shrt"], {}, "unknown evaluator 'shrt'; did you mean 'short'?"),
        (["--evaluator", "complete", "--by", "short"], {}, "short scores a turn, but complete scores a conversation"),
        (["--by", "short"], {}, "--by: name the one evaluator"),
        (["-o", "new.csv"], {}, "write a name that ends in .jsonl"),
        ([], {"store_text": False}, "store_text is false, so the texts are not stored"),
        ([], {"log": {"kind": "memory"}}, "log.kind is memory, so there are no past evaluations"),
    ],
)
async def test_what_is_wrong_is_one_sentence(
    arguments: list[str], changes: dict[str, Any], said: str, world: World
) -> None:
    world.configure(**changes)
    done = await world.replay(*arguments)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)


async def test_evaluators_of_which_one_is_better_if_lower_are_not_compared(world: World) -> None:
    """The new scores were "lower, beyond chance", after they were paid for."""
    opposite = world.settings["evaluators"] | {"helpful": {"kind": "hallucination", "judge": "main"}}
    before = world.judge.calls
    done = await world.replay("--with", world.configure("new.yaml", evaluators=opposite), "--evaluator", "helpful")
    assert isinstance(done.exception, ConfigError), done.output
    assert str(done.exception).endswith(
        "new.yaml: lower is better for the new one (helpful), but higher for the old one (helpful), so a difference of "
        "means says nothing; evalstream calibrate compares each with people's labels"
    )
    assert world.judge.calls == before


async def test_turns_that_are_gone(world: World) -> None:
    (world.folder / "turns.jsonl").write_bytes(turn_to_json(Turn(turn_id="x", input="a", actual_output="b")) + b"\n")
    done = await world.replay(str(world.folder / "turns.jsonl"))
    assert isinstance(done.exception, EvalstreamError)
    assert "no turn of the 24 evaluations is in these files; name files that have them" in str(done.exception)
