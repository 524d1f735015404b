"""`evalstream retry --failed`: failures of a real judge made again, once each, whatever is killed in between."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from past_world import BAD_REQUEST, EVALUATIONS, TURNS, World, a_world
from running_service import value
from service import ServiceProcess

from collector.demo.judge import Faults
from collector.errors import ConfigError
from evaluators.identity import retry_id
from evaluators.results import Evaluation


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, {"path": str(tmp_path / "evalstream.db")}) as world:
        yield world


def assert_each_once(ledger: list[Evaluation], failed: list[Evaluation]) -> None:
    """Each failure has one evaluation in its place, and nothing else was made."""
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    retried = {each.evaluation_id: each for each in ledger if each.retry is not None}
    assert set(retried) == {retry_id(each.evaluation_id) for each in failed}
    for each in failed:
        new = retried[retry_id(each.evaluation_id)]
        assert new.supersedes == (each.evaluation_id, *each.supersedes)
        assert (new.subject, new.monitor, new.evaluator, new.sampling) == (
            each.subject, each.monitor, each.evaluator, each.sampling
        )  # fmt: skip
        assert new.attributes == each.attributes


async def test_failures_are_made_again_once_and_count_once(world: World) -> None:
    failed = await world.fail_all()
    assert len(failed) == 2 * TURNS
    async with world.serving() as service:
        calls = world.judge.calls
        done = await world.retry()
        assert done.exit_code == 0, (done.output, done.exception)
        assert f"requested {2 * TURNS} failed evaluations again" in done.stdout
        await world.until(lambda found: len(found) == EVALUATIONS + 2 * TURNS)
        asked = world.judge.calls - calls
        again = await world.retry()
        assert "no failed evaluation to make again" in again.stdout
        async with asyncio.timeout(30):
            while value(service, "evalstream_evaluations_retried_total") < 2 * TURNS:
                await asyncio.sleep(0.05)
        for name in ("helpful", "complete"):
            due = value(service, "evalstream_evaluations_due_total", evaluator=name)
            assert due == value(service, "evalstream_evaluations_ended_total", evaluator=name) == TURNS
            weight = value(service, "evalstream_estimator_w_total", evaluator=name)
            assert weight == TURNS, "the mean has each once"
            assert value(service, "evalstream_evaluation_weight_total", evaluator=name) == 0, "the failures brought it"
        assert value(service, "evalstream_evaluations_in_flight") == 0
        await world.until_drained()
    ledger = await world.ledger()
    assert_each_once(ledger, failed)
    new = [each for each in ledger if each.retry]
    assert {(each.outcome, each.retry.attempt, each.retry.reason) for each in new if each.retry} == {
        ("scored", 2, "judge_rejected")
    }
    assert world.judge.calls - calls == asked, "nothing was asked for the second request"
    exported = (world.folder / "out.jsonl").read_text()
    assert all(exported.count(f'"evaluation_id":"{each.evaluation_id}"') == 1 for each in new)


async def test_a_retry_that_fails_can_be_made_again_and_the_chain_counts_once(world: World) -> None:
    failed = await world.fail_all()
    world.judge.faults = BAD_REQUEST
    async with world.serving():
        assert (await world.retry("--evaluator", "helpful")).exit_code == 0
        second = await world.until(lambda found: len(found) == EVALUATIONS + TURNS)
        world.judge.faults = Faults()
        done = await world.retry("--evaluator", "helpful")
        assert f"requested {TURNS} failed evaluations again" in done.stdout, "not those that were made again already"
        ledger = await world.until(lambda found: len(found) == EVALUATIONS + 2 * TURNS)
    third = {each.evaluation_id: each for each in ledger if each.retry and each.retry.attempt == 3}
    for each in failed:
        if each.evaluator == "helpful":
            middle = retry_id(each.evaluation_id)
            assert third[retry_id(middle)].supersedes == (middle, each.evaluation_id)
            assert third[retry_id(middle)].outcome == "scored"
    assert {each.outcome for each in second if each.retry} == {"failed"}


async def test_only_what_is_selected_and_paid_for_and_a_dry_run_asks_nothing(world: World) -> None:
    await world.fail_all()
    dry = await world.retry("--dry-run")
    assert f"{2 * TURNS} failed evaluations would be made again" in dry.stdout
    assert f"all  complete  judge_rejected  {TURNS}  (about 0.01 USD)" in dry.stdout
    for arguments in (["--reason", "judge_timeout"], ["--since", "2100-01-01"], ["--evaluator", "short"]):
        assert "no failed evaluation to make again" in (await world.retry(*arguments)).stdout
    done = await world.retry("--max-usd", "0.004")  # 0.0017 USD each, until one is paid
    assert done.exit_code == 0
    assert "requested 2 failed evaluations again" in done.stdout
    assert f"{2 * TURNS - 2} evaluations left out by --max-usd" in done.stdout
    again = await world.retry("--dry-run")
    assert "2 evaluations requested before and not made yet" in again.stdout
    async with world.serving():
        ledger = await world.until(lambda found: len(found) == EVALUATIONS + 2)
    assert sum(each.retry is not None for each in ledger) == 2


async def test_a_request_is_carried_out_by_the_definition_of_now(world: World) -> None:
    """The usual cure of a refusal is another model, which is another version of the evaluator."""
    failed = await world.fail_all()
    assert (await world.retry()).exit_code == 0
    world.configure(judges={"main": world.settings["judges"]["main"] | {"model": "another"}})
    async with world.serving():
        ledger = await world.until(lambda found: sum(each.retry is not None for each in found) == 2 * TURNS)
    assert_each_once(ledger, failed)
    versions = {each.evaluator: each.evaluator_version for each in failed}
    assert all(each.evaluator_version != versions[each.evaluator] for each in ledger if each.retry)


async def test_what_the_configuration_has_no_longer_is_reported_and_not_lost(world: World) -> None:
    await world.fail_all()
    fewer = {"all": world.settings["monitors"]["all"] | {"evaluators": ["helpful", "short"]}}
    world.configure(monitors=fewer)
    done = await world.retry()
    assert done.exit_code == 1
    assert f"{TURNS} evaluations left out: their monitor does not use their evaluator any more" in done.stdout
    world.configure()
    assert (await world.retry("--evaluator", "complete")).exit_code == 0
    world.configure(monitors=fewer)
    async with world.serving() as service:
        async with asyncio.timeout(30):
            while value(service, "evalstream_dead_letters_total", stage="evaluate") < TURNS:
                await asyncio.sleep(0.05)
        await world.until(lambda found: sum(each.retry is not None for each in found) == TURNS)
    world.configure()
    assert f"{TURNS} evaluations requested before" in (await world.retry()).stdout
    assert f"requested {TURNS} failed evaluations again" in (await world.retry("--again")).stdout
    async with world.serving():
        await world.until(lambda found: sum(each.retry is not None for each in found) == 2 * TURNS)


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ([], {"log": {"kind": "memory"}}, "log.kind is memory"),
        ([], {"store_text": False}, "store_text is false"),
        (["--monitor", "al"], {}, "there is no monitor al; choose from all"),
        (["--evaluator", "helpfull"], {}, "there is no evaluator helpfull; choose from complete, helpful, short"),
        (["--since", "yesterday"], {}, "--since: 'yesterday' is not a time"),
    ],
)
async def test_what_is_wrong_is_one_sentence(
    arguments: list[str], changes: dict[str, Any], message: str, world: World
) -> None:
    world.configure(**changes)
    done = await world.retry(*arguments)
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)


async def killed_between_request_and_answer(world: World) -> None:
    failed = await world.fail_all()
    process = ServiceProcess(world.folder, world.settings, ["--stages", "evaluate,export"])
    world.judge.faults = Faults(hang=True)
    try:
        await process.start()
        calls = world.judge.calls
        assert (await world.retry()).exit_code == 0
        async with asyncio.timeout(60):
            while world.judge.calls < calls + 2:
                await asyncio.sleep(0.02)
        await process.kill()  # requested, asked, not answered
        world.judge.faults = Faults()
        await process.start()
        await world.until(lambda found: len(found) == EVALUATIONS + 2 * TURNS)
        assert await process.stop() == 0
    finally:
        await process.end()
    assert_each_once(await world.ledger(), failed)


async def test_a_stop_between_request_and_answer_neither_loses_nor_doubles_one(world: World) -> None:
    failed = await world.fail_all()
    world.judge.faults = Faults(hang=True)
    world.configure(evaluate={"shutdown_grace": 0})
    calls = world.judge.calls
    async with world.serving():
        assert (await world.retry()).exit_code == 0
        async with asyncio.timeout(60):
            while world.judge.calls < calls + 2:
                await asyncio.sleep(0.02)
    world.judge.faults = Faults()
    for _ in range(2):  # what is done stays done
        async with world.serving():
            await world.until(lambda found: len(found) == EVALUATIONS + 2 * TURNS)
    assert_each_once(await world.ledger(), failed)


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_a_kill_between_request_and_answer_neither_loses_nor_doubles_one(world: World) -> None:
    await killed_between_request_and_answer(world)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_kill_on_kafka(kafka_broker: Any, tmp_path: Path) -> None:
    topics = {
        "bootstrap_servers": [kafka_broker.bootstrap],
        "prefix": f"retry-{uuid.uuid4().hex[:8]}",
        "partitions": 3,
        "group_instance_id": "one",
    }
    async with a_world(tmp_path, {"kind": "kafka", "kafka": topics}) as world:
        await killed_between_request_and_answer(world)
