"""`evalstream rejudge`: the past judged by the service, once each, within its limit, apart from the metrics of now."""

from __future__ import annotations

import asyncio
import re
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from faulty_judge import Faults
from past_world import BAD_REQUEST, World, a_world
from running_service import value
from service import ServiceProcess, free_port
from test_live_configuration import PLUGIN, forget

from collector.commands.rejudge.candidates import What
from collector.commands.rejudge.rejudge import RejudgeOptions, rejudge as request
from collector.config.loading import load
from collector.errors import ConfigError
from collector.evaluate.budget.demand import FLOOR
from collector.evaluate.retry.past_jobs import Stretch
from collector.evaluate.retry.request import requested_evaluations
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.evaluate.stage import GROUP
from collector.logs.log import Log, Record
from collector.records.json import evaluation_to_json, turn_to_json
from collector.service.open_logs import open_logs
from collector.service.plan_builder import evaluator_version_in
from collector.wording import usd
from evaluators.cases import Turn
from evaluators.identity import retry_id
from evaluators.results import Evaluation
from evaluators.turn.length import Length

KEY = "0" * 64
SALT = keyed_salt(KEY, "evalstream")

PAST = 40
NOW = datetime.now(UTC).replace(microsecond=0)
UNDRAWN = "today's `sample`, times the budget's factor when the turns came, is too low for them; a higher `sample` takes in more"
STAY_OUT = (
    "`sample`, `match` or `boost` left them out while this version judged live traffic; they stay out, and only another "
    "version judges them"
)


def turn(n: int, *, days: float = 3.0) -> Turn:
    """The turn of a conversation of its own; each is a minute later than the one before."""
    ended = NOW - timedelta(days=days) + timedelta(minutes=n)
    return Turn(
        turn_id=f"t{n}",
        conversation_id=f"c{n}",
        trace_id=f"{n:032x}",
        span_id=f"{n + 1:016x}",
        started_at=ended - timedelta(seconds=1),
        ended_at=ended,
        input=f"Where is parcel {n}?",
        actual_output=f"Parcel {n} is where it was.",
        attributes={"agent": "closing"},
    )


def record(case: Turn) -> Record:
    return Record((case.conversation_id or "").encode(), turn_to_json(case))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, {"path": str(tmp_path / "evalstream.db")}) as world:
        yield world


def monitored(world: World, *names: str | dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"monitors": {"all": world.settings["monitors"]["all"] | {"evaluators": list(names)} | changes}}


KIND = {"evaluation_steps": ["Is it kind?"]}


def with_change(world: World, evaluator: str, change: dict[str, Any]) -> dict[str, Any]:
    changed = world.settings["evaluators"][evaluator] | change
    return monitored(world, evaluator) | {"evaluators": world.settings["evaluators"] | {evaluator: changed}}


def of(ledger: list[Evaluation], evaluator: str) -> list[Evaluation]:
    return [each for each in ledger if each.evaluator == evaluator]


async def live(world: World, numbers: range = range(PAST), *, days: float = 3.0, expected: int = PAST) -> None:
    """Turns come to the service as it is configured now, and what is due of them is judged."""
    before = len(await world.ledger())
    async with world.serving() as service:
        await service.logs.turns.append([record(turn(n, days=days)) for n in numbers])
        await world.until(lambda found: len(found) == before + expected)


async def rejudge(world: World, *arguments: str) -> Any:
    return await world.command("rejudge", "--from", "7d", *arguments)


async def test_a_new_evaluator_over_the_past_has_its_own_weights_and_times_and_leaves_the_metrics_of_now(
    world: World,
) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(**monitored(world, "short", "helpful", "complete", sample=0.5))
    drawn = {f"c{n}" for n in range(PAST) if draw(SALT, f"c{n}") < 0.5}
    dry = await rejudge(world, "--dry-run")
    assert f"all  helpful  {len(drawn)}" in dry.stdout, dry.output
    assert "  by version " in dry.stdout
    undrawn = (
        f"{PAST - len(drawn)} evaluations left out: {UNDRAWN}\n"  # of short all are made; complete judges no turns
    )
    assert undrawn in dry.stdout
    assert f"{2 * len(drawn)} evaluations to make  (about " in dry.stdout
    assert "nothing was requested" in dry.stdout
    async with world.serving() as service:
        calls = world.judge.calls
        done = await rejudge(world, "--max-usd", "1")
        assert done.exit_code == 0, (done.output, done.exception)
        assert f"made {2 * len(drawn)} of {2 * len(drawn)} ({2 * len(drawn)} scored)" in done.stdout
        asked = world.judge.calls - calls
        again = await rejudge(world, "--max-usd", "1")
        assert "there is nothing to make" in again.stdout
        assert undrawn in again.stdout
        assert "USD spent on this period by earlier runs" in again.stdout
        assert world.judge.calls - calls == asked
        async with asyncio.timeout(30):
            while value(service, "evalstream_evaluations_backfilled_total") < 2 * len(drawn):
                await asyncio.sleep(0.05)
        for name in ("helpful", "complete"):
            for series in ("estimator_w", "evaluation_weight", "evaluations", "verdicts", "evaluations_started"):
                assert value(service, f"evalstream_{series}_total", evaluator=name) == 0, series
            assert value(service, "gen_ai_evaluation_score_count", evaluator=name) == 0
            due = value(service, "evalstream_evaluations_due_total", evaluator=name, origin="backfilled")
            assert due == value(service, "evalstream_evaluations_ended_total", evaluator=name) == len(drawn)
        assert value(service, "evalstream_evaluations_in_flight") == 0
        assert value(service, "evalstream_judge_cost_usd_total") > 0, "money is of now"
        await world.until_drained()
    ledger = await world.ledger()
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    for name in ("helpful", "complete"):
        made = of(ledger, name)
        assert {each.subject.conversation_id for each in made} == drawn
        assert {each.sampling.probability for each in made} == {0.5}, "the weights add up to the traffic"
        assert {each.happened_at for each in made} == {turn(int(c[1:])).ended_at for c in drawn}
    # And what comes now is judged as ever, under the ids that a backfill of it would have.
    later = sum(draw(SALT, f"c{n}") < 0.5 for n in range(PAST, PAST + 4))
    await live(world, range(PAST, PAST + 4), days=0.01, expected=3 * later)
    async with world.serving():
        assert "there is nothing to make" in (await rejudge(world, "--max-usd", "1")).stdout
        await world.until_drained()


async def test_what_was_judged_at_a_higher_rate_is_not_left_out_by_the_lower_one_of_today(world: World) -> None:
    """`rejudge` said that 249 evaluations were left out, and 33 had not been made."""
    drawn = [n for n in range(PAST, PAST + 40) if draw(SALT, f"c{n}") < 0.5]
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(**monitored(world, "short", sample=0.5))
    for what in ("unscored", "all"):
        assert "left out" not in (await rejudge(world, "--what", what)).stdout
    await live(world, range(PAST, PAST + 40), days=0.5, expected=len(drawn))
    assert PAST + 40 - 1 not in drawn, "of one cause, the turns after the last one that was drawn had a second reason"
    dry = await rejudge(world, "--dry-run")
    assert f"{40 - len(drawn)} evaluations left out: {STAY_OUT}\n" in dry.stdout, dry.stdout
    assert UNDRAWN not in dry.stdout
    assert "there is nothing to make" in dry.stdout


async def test_only_turns_of_the_stretch_are_left_out_and_each_once(world: World) -> None:
    """The turns that came in it were counted, also if they had ended before it."""
    world.configure(**monitored(world, "complete"))
    await live(world)
    world.configure(**monitored(world, "short", sample=0.5))
    undrawn = sum(draw(SALT, f"c{n}") >= 0.5 for n in range(PAST))
    assert f"{undrawn} evaluations left out: {UNDRAWN}\n" in (await rejudge(world, "--dry-run")).stdout
    world.configure(**monitored(world, "short", sample=1.0))
    assert "left out" not in (await rejudge(world, "--dry-run")).stdout, "the remedy that the line names"
    world.configure(**monitored(world, "short", sample=0.5))
    assert "left out" not in (await world.command("rejudge", "--from", "1d", "--dry-run")).stdout


async def test_what_waits_for_its_judge_is_not_left_out_by_a_lower_rate_of_today(world: World) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = replace(Faults(), latency=8.0)
    async with world.serving() as service:
        await service.logs.turns.append([record(turn(n)) for n in range(PAST)])
        async with asyncio.timeout(30):
            while await delivered(service.logs.turns) < PAST:
                await asyncio.sleep(0.05)
        world.configure(**monitored(world, "helpful", sample=0.5))
        lower = (await rejudge(world, "--dry-run")).stdout
    assert f"{PAST} evaluations left out: the service makes them now, from live traffic\n" in lower, lower
    assert UNDRAWN not in lower


async def test_what_its_monitor_no_longer_uses_is_counted_in_the_stretch(world: World) -> None:
    """It was counted whenever it had failed."""
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world, range(2), expected=2)
    monitors = monitored(world, "short")["monitors"]
    world.configure(monitors=monitors | {"second": deepcopy(monitored(world, "helpful")["monitors"]["all"])})
    command = ("rejudge", "--what", "failed", "--dry-run", "--from")
    unused = "2 evaluations left out: their monitor does not use their evaluator any more"
    assert unused in (await world.command(*command, "7d")).stdout
    since_then = await world.command(*command, datetime.now(UTC).isoformat())
    assert "there is nothing to make" in since_then.stdout, since_then.output
    assert "left out" not in since_then.stdout


async def test_the_former_name_of_a_monitor_is_the_remedy_as_nothing_is_judged_once_more(world: World) -> None:
    """`labels next` named `rejudge`, which made nothing: a sole monitor's evaluations have ids without its name."""
    world.settings["page"] = {"queue": {"random": 1.0}}
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(monitors={"every": world.settings["monitors"]["all"] | {"evaluators": ["short"]}})
    assert "there is nothing to make" in (await rejudge(world, "--what", "all", "--dry-run")).stdout
    renamed = await world.command("labels next")
    assert "give the monitor its former name again, or wait for new scores" in renamed.stderr, renamed.output
    world.configure(**monitored(world, "short"))
    assert (await world.command("labels next")).stdout.count("human") == PAST


async def test_what_is_requested_before_is_in_the_estimate(world: World) -> None:
    """A second run's estimate had the 8 that were left, and it made 40."""
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(**monitored(world, "short", "helpful"))
    estimate = costs((await rejudge(world, "--dry-run")).stdout)[0]
    options = RejudgeOptions(stretch=Stretch(NOW - timedelta(days=7), datetime.now(UTC)), max_usd=1.0, patience=0.5)
    assert await request(load(world.folder / "evalstream.yaml"), options, print, lambda *_: "") == 1
    [_, rest, before] = costs((await rejudge(world, "--dry-run")).stdout)
    assert float(rest) + float(before) == pytest.approx(float(estimate), abs=0.001)


async def test_the_estimate_leaves_out_what_the_service_judges_now(world: World) -> None:
    """The estimate had it, and the run left it out: it said 40 of 80, and a wrong cost."""
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(**monitored(world, "short", "helpful"))
    world.judge.faults = replace(Faults(), latency=6.0)
    async with world.serving() as service:
        await service.logs.turns.append([record(turn(n, days=0.5)) for n in range(PAST, PAST + 5)])
        await world.until(lambda found: len(of(found, "short")) == PAST + 5)
        dry = await rejudge(world, "--dry-run")
        assert f"all  helpful  {PAST}  (about " in dry.stdout, dry.output
        assert "5 evaluations left out: the service makes them now, from live traffic" in dry.stdout
        world.judge.faults = Faults()
        done = await rejudge(world, "--max-usd", "1")
        assert f"made {PAST} of {PAST} ({PAST} scored), " in done.stdout, done.output
        await world.until_drained()
    assert sum(not each.happened_at for each in of(await world.ledger(), "helpful")) == 5


async def test_what_was_not_drawn_is_not_being_made_because_another_evaluator_is_slow(world: World) -> None:
    """While another evaluator had a question open, each that was not drawn passed for one that the service makes."""
    drawn = [draw(SALT, f"c{n}") < 0.5 for n in range(PAST)]
    world.configure(**monitored(world, "helpful", {"name": "short", "sample": 0.5}))
    world.judge.faults = replace(Faults(), latency=8.0)
    async with world.serving() as service:
        await service.logs.turns.append([record(turn(n)) for n in range(PAST)])
        async with asyncio.timeout(30):
            while await delivered(service.logs.turns) < PAST:
                await asyncio.sleep(0.05)
        await world.until(lambda found: len(of(found, "short")) == sum(drawn))
        world.configure(**monitored(world, "helpful", "short"))
        dry = (await rejudge(world, "--dry-run")).stdout
    assert f"{PAST} evaluations left out: the service makes them now" in dry, dry
    assert f"{PAST - sum(drawn)} evaluations left out: {STAY_OUT}\n" in dry


async def delivered(turns: Log) -> int:
    return sum(state.offset for state in (await turns.committed(GROUP)).values())


async def test_the_limit_is_kept_over_runs_and_says_how_far_it_came(world: World) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(**monitored(world, "short", "helpful"))
    async with world.serving():
        first = await rejudge(world, "--max-usd", "0.004")
        assert first.exit_code == 1
        assert "stopped by --max-usd 0.004; all that ended by" in first.stdout, first.output
        made = of(await world.ledger(), "helpful")
        assert 0 < len(made) < PAST
        assert sum(each.cost_usd or 0.0 for each in made) <= 0.004
        assert {each.subject.turn_id for each in made} == {f"t{n}" for n in range(len(made))}, "the oldest first"
        second = await rejudge(world, "--max-usd", "0.004")
        assert "made 0 of" in second.stdout, "it is the limit of the stretch, not of a run"
        done = await rejudge(world, "--max-usd", "10")
        assert done.exit_code == 0, done.output
    ledger = await world.ledger()
    assert len(of(ledger, "helpful")) == PAST
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1


async def test_the_limit_covers_what_earlier_versions_and_removed_evaluators_cost(world: World) -> None:
    """After each change of the criterion the same command spent the limit again."""
    present = world.settings["evaluators"]
    world.configure(**monitored(world, "short"))
    await live(world)
    first, second = (present["helpful"] | {"evaluation_steps": [step]} for step in ("Is it kind?", "Is it brief?"))
    command = ("--what", "all", "--max-usd", "0.004")
    for name, definition in (("helpful", first), ("helpful", second), ("useful", second)):
        world.configure(**monitored(world, "short", name), evaluators=present | {name: deepcopy(definition)})
        async with world.serving():
            done = await rejudge(world, *command)
            assert done.exit_code == 1, done.output
        ledger = await world.ledger()
        spent = sum(made.cost_usd or 0.0 for made in ledger)
        assert 0.003 < spent <= 0.004
    whose = f"{usd(spent)} by helpful for all"
    assert f"{usd(spent)} spent on this period by earlier runs ({whose}); --max-usd counts it" in done.stdout
    assert "made 0 of" in done.stdout
    async with world.serving():
        other = await rejudge(world, *command, "--evaluator", "useful")
        assert "spent on this period by earlier runs" not in other.stdout, "it made none of what was paid for"
    assert 0.003 < sum(made.cost_usd or 0.0 for made in of(await world.ledger(), "useful")) <= 0.004


async def test_what_failed_is_made_as_part_of_its_time_and_counts_once(world: World) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world)
    world.judge.faults = Faults()
    async with world.serving() as service:
        done = await rejudge(world, "--what", "failed", "--max-usd", "1")
        assert done.exit_code == 0
        assert f"made {PAST} of {PAST} ({PAST} scored)" in done.stdout, done.output
        assert value(service, "evalstream_estimator_w_total", evaluator="helpful") == 0
        async with asyncio.timeout(30):
            while value(service, "evalstream_evaluations_replaced_total", evaluator="helpful", age="0m") < PAST:
                await asyncio.sleep(0.05)
        await world.until_drained()
    retried = [each for each in await world.ledger() if each.retry]
    assert len(retried) == PAST
    assert all(each.supersedes and each.happened_at for each in retried)
    async with world.serving():
        again = await rejudge(world, "--what", "failed", "--max-usd", "1")
    assert "there is nothing to make" in again.stdout
    assert "before --from" not in again.stdout, "the failures are made again"


async def test_failures_older_than_the_time_are_told_with_the_option_that_takes_them_in(world: World) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world, range(2), expected=2)
    failed = (await world.ledger())[0].evaluation_id
    told = (await world.command("rejudge", "--what", "failed", "--dry-run")).stdout
    option = f"--from {turn(0).ended_at:%Y-%m-%dT%H:%M:%SZ}"
    assert f"2 evaluations left out: their turns ended before --from; {option} takes them in" in told
    assert "there is nothing to make since" in told
    assert (
        "2 evaluations to make"
        in (await world.command("rejudge", "--what", "failed", *option.split(), "--dry-run")).stdout
    )
    explained = (await world.command("explain", failed)).stdout
    assert "judged     failed: judge_rejected (" in explained
    assert "this model takes no such question" in explained
    assert (
        "remedy     correct what it names; if questions are too long, name another model (judges.main.model)"
        in explained
    )


def costs(told: str) -> list[str]:
    return re.findall(r"about ([\d.]+) USD", told)


async def test_the_estimate_has_what_two_monitors_share_once_as_it_is_paid_once(world: World) -> None:
    """The estimate was about 0.15 USD, and 0.084 was paid."""
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(**monitored(world, "short", "helpful"))
    alone = costs((await rejudge(world, "--dry-run")).stdout)
    monitors = monitored(world, "short", "helpful")["monitors"]
    second = deepcopy(monitors["all"]) | {"evaluators": ["helpful"]}
    world.configure(monitors=monitors | {"second": second})
    dry = await rejudge(world, "--dry-run")
    assert f"second  helpful  {PAST}  by version" in dry.stdout, "the first monitor pays"
    assert costs(dry.stdout) == alone, dry.stdout
    assert len(alone) == 2
    assert costs((await rejudge(world, "--dry-run", "--monitor", "second")).stdout) == alone, "here nobody else pays"
    world.judge.faults = BAD_REQUEST
    async with world.serving():
        await rejudge(world, "--max-usd", "1")
        assert sum(each.shares is None for each in of(await world.ledger(), "helpful")) == PAST
        failed = await rejudge(world, "--what", "failed", "--dry-run")
        assert f"{2 * PAST} evaluations to make" in failed.stdout
        assert costs(failed.stdout) == alone
        world.judge.faults = Faults()
        done = await rejudge(world, "--what", "failed", "--max-usd", "1")
        assert f"made {2 * PAST} of {2 * PAST} ({2 * PAST} scored)" in done.stdout
        assert sum(each.shares is None for each in await world.ledger() if each.retry) == PAST
        await world.until_drained()


async def test_failures_of_another_monitor_are_none_of_the_named_one(world: World) -> None:
    """They were "left out: their monitor does not use their evaluator any more", and "failed for other reasons"."""
    failing = monitored(world, "helpful")["monitors"]["all"]
    world.configure(monitors={"failing": failing, "idle": deepcopy(failing) | {"match": {"language": ["de"]}}})
    world.judge.faults = BAD_REQUEST
    await live(world, range(2), expected=2)
    command = ("--what", "failed", "--dry-run")
    named = await rejudge(world, *command, "--monitor", "idle")
    assert ("left out" in named.stdout, named.exit_code) == (False, 0), named.output
    said = [
        (await rejudge(world, *command, "--reason", "judge_denied", "--monitor", name)).stdout
        for name in ("failing", "idle")
    ]
    assert all("there is nothing to make" in each for each in said)
    assert ["failed for other reasons: 2 judge_rejected" in each for each in said] == [True, False]


async def test_what_fails_again_altogether_has_failed(world: World) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world)
    async with world.serving():
        failing = await rejudge(world, "--what", "failed", "--max-usd", "1")
    assert (failing.exit_code, f"({PAST} failed by " in failing.stdout) == (1, True), failing.output


async def test_what_failed_is_made_without_a_limit_where_the_price_is_unknown(world: World) -> None:
    judges = {"main": {"model": "main", "base_url": world.settings["judges"]["main"]["base_url"]}}
    world.configure(**monitored(world, "helpful"), judges=judges)
    world.judge.faults = BAD_REQUEST
    await live(world)
    world.judge.faults = Faults()
    async with world.serving():
        done = await rejudge(world, "--what", "failed")
    assert f"made {PAST} of {PAST} ({PAST} scored)" in done.stdout, done.output
    refused = await rejudge(world, "--what", "failed", "--max-usd", "1")
    assert "--max-usd: the price of judge main is unknown" in str(refused.exception)


async def test_the_estimate_goes_by_the_tokens_of_calls_that_had_no_price(world: World) -> None:
    """A guess for a call of an unknown length was 2.6 times what it cost."""
    priced = world.settings["judges"]
    judges = {"main": {"model": "main", "base_url": priced["main"]["base_url"]}}
    world.configure(**monitored(world, "helpful"), judges=judges)
    await live(world)
    tokens = sum(each.usage.input_tokens + each.usage.output_tokens for each in await world.ledger() if each.usage)
    helpful = world.settings["evaluators"]["helpful"] | {"evaluation_steps": ["Does it answer the question?"]}
    world.configure(judges=priced, evaluators=world.settings["evaluators"] | {"helpful": helpful})
    dry = await rejudge(world, "--what", "all", "--dry-run")
    assert f"(about {usd(tokens / 1e6)})" in dry.stdout, dry.output


async def test_a_repetition_that_fails_is_repeated_and_the_chain_counts_once(world: World) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world)
    async with world.serving():
        await rejudge(world, "--what", "failed", "--max-usd", "1")
        other = await rejudge(world, "--what", "failed", "--reason", "judge_timeout", "--max-usd", "1")
        assert f"; failed for other reasons: {PAST} judge_rejected" in other.stdout
        untried = await rejudge(world, "--what", "failed", "--reason", "over_budget", "--max-usd", "1")
        assert "; over_budget, reference_missing and shed are no failures: --what unscored" in untried.stdout
        wrong = await rejudge(world, "--what", "failed", "--reason", "missing_field")
        assert str(wrong.exception) == "--reason: unknown reason 'missing_field'; choose from judge_rejected"
        misspelt = await rejudge(world, "--what", "failed", "--reason", "judge_rejectd")
        assert "--reason: unknown reason 'judge_rejectd'; did you mean 'judge_rejected'?" in str(misspelt.exception)
        world.judge.faults = Faults()
        done = await rejudge(world, "--what", "failed", "--reason", "judge_rejected", "--max-usd", "1")
    assert f"made {PAST} of {PAST} ({PAST} scored)" in done.stdout, done.output
    ledger = await world.ledger()
    first = [each for each in ledger if each.retry is None]
    third = {each.evaluation_id: each for each in ledger if each.retry and each.retry.attempt == 3}
    for failed in first:
        middle = retry_id(failed.evaluation_id)
        assert third[retry_id(middle)].supersedes == (middle, failed.evaluation_id)
        retry = third[retry_id(middle)].retry
        assert retry is not None
        assert retry.failed_at == failed.ended_at, "alerts count this failure, and not that of the backfill"


async def test_what_the_evaluator_did_not_draw_while_it_was_at_work_stays_out(world: World) -> None:
    """Else it would count on top of what was drawn, which weighs for it already."""
    world.configure(**monitored(world, "short", sample=0.25))
    few = [n for n in range(PAST) if draw(SALT, f"c{n}") < 0.25]
    await live(world, expected=len(few))
    world.configure(**monitored(world, "short", sample=1.0))
    async with world.serving():
        done = await rejudge(world)
    assert f"{PAST - len(few)} evaluations left out: {STAY_OUT}\n" in done.stdout
    assert not any(each.happened_at for each in await world.ledger()), "also those before the first and after the last"
    world.configure(**with_change(world, "short", {"maximum": 3}))
    remedy = await rejudge(world, "--what", "all", "--dry-run")
    assert f"{PAST} evaluations to make" in remedy.stdout, remedy.output
    assert "left out" not in remedy.stdout, "the remedy that the line names"


async def test_a_run_at_a_higher_rate_leaves_what_earlier_runs_drew_to_stand_for_all(world: World) -> None:
    """After runs at 0.3 and 0.8 the weights of a period added up to 1.4 times its turns, although the mean was right."""
    many, parts = 240, (range(80), range(160, 240))
    world.configure(**monitored(world, "short"))
    await live(world, range(many), expected=many)
    brief = {"evaluators": world.settings["evaluators"] | {"brief": {"kind": "length", "maximum": 3}}}
    world.configure(**monitored(world, "brief", sample=0.3), **brief)
    async with world.serving():
        for part in parts:
            ends = [turn(n).ended_at or NOW for n in (part.start, part.stop)]
            stretch = ("--from", ends[0].isoformat(), "--to", ends[1].isoformat())
            assert (await world.command("rejudge", *stretch)).exit_code == 0
    world.configure(**monitored(world, "brief", sample=0.8), **brief)
    async with world.serving():
        done = await rejudge(world)
        assert "there is nothing to make" in (await rejudge(world)).stdout
    draws = [draw(SALT, f"c{n}") for n in range(many)]
    drawn = [[n for n in part if draws[n] < 0.3] for part in parts]
    left_out = [n for few in drawn for n in range(few[0], few[-1]) if 0.3 <= draws[n] < 0.8]
    sentence = "left out: an earlier run sampled at a lower rate, and its evaluations stand for these, too"
    assert f"{len(left_out)} evaluations {sentence}" in done.stdout, done.output
    made = {int(each.subject.turn_id[1:]): each.sampling.probability for each in of(await world.ledger(), "brief")}
    others = [n for n in range(many) if draws[n] < 0.8 and n not in left_out]
    assert made == dict.fromkeys(others, 0.8) | dict.fromkeys([n for few in drawn for n in few], 0.3)
    assert sum(1 / rate for rate in made.values()) == pytest.approx(many, rel=0.1)


async def test_what_a_run_at_a_lower_rate_requested_stands_for_others_before_it_is_made(world: World) -> None:
    """What waited for the service ended the part of that run, so that weights added up to more than the turns."""
    world.configure(**monitored(world, "short"))
    await live(world)
    brief = {"evaluators": world.settings["evaluators"] | {"brief": {"kind": "length", "maximum": 3}}}
    world.configure(**monitored(world, "brief", sample=0.3), **brief)
    options = RejudgeOptions(stretch=Stretch(NOW - timedelta(days=7), datetime.now(UTC)), max_usd=1.0, patience=0.5)
    assert await request(load(world.folder / "evalstream.yaml"), options, print, lambda *_: "") == 1
    world.configure(**monitored(world, "brief", sample=0.8), **brief)
    draws = [draw(SALT, f"c{n}") for n in range(PAST)]
    few = [n for n in range(PAST) if draws[n] < 0.3]
    left_out = sum(0.3 <= each < 0.8 for each in draws[few[0] : few[-1]])
    done = await rejudge(world, "--dry-run")
    sentence = "left out: an earlier run sampled at a lower rate, and its evaluations stand for these, too"
    assert f"{left_out} evaluations {sentence}" in done.stdout, done.output


async def test_what_has_another_score_does_not_end_what_an_earlier_run_stands_for(world: World) -> None:
    """A run that makes what is unscored leaves it; each ended the part, and a run at 0.8 made more evaluations there."""
    many = 240
    world.configure(**monitored(world, "short", sample=0.1))
    draws = [draw(SALT, f"c{n}") for n in range(many)]
    await live(world, range(many), expected=sum(each < 0.1 for each in draws))
    changed = {"evaluators": world.settings["evaluators"] | {"short": {"kind": "length", "maximum": 3}}}
    world.configure(**monitored(world, "short", sample=0.3), **changed)
    async with world.serving():
        await rejudge(world)
    world.configure(**monitored(world, "short", sample=0.8), **changed)
    async with world.serving():
        await rejudge(world)
    made = {
        int(each.subject.turn_id[1:]): each.sampling.probability for each in await world.ledger() if each.happened_at
    }
    few = [n for n in range(many) if 0.1 <= draws[n] < 0.3]
    around = [n for n in range(many) if 0.3 <= draws[n] < 0.8 and not few[0] < n < few[-1]]
    assert made == dict.fromkeys(few, 0.3) | dict.fromkeys(around, 0.8)


async def test_all_judges_by_a_new_definition_what_an_older_one_has_judged(world: World) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    evaluators = world.settings["evaluators"] | {"short": {"kind": "length", "maximum": 3}}
    world.configure(**monitored(world, "short"), evaluators=evaluators)
    async with world.serving():
        assert "there is nothing to make" in (await rejudge(world)).stdout, "each subject has a score"
        done = await rejudge(world, "--what", "all")
        assert f"made {PAST} of {PAST}" in done.stdout
        nothing = (await rejudge(world, "--what", "all")).stdout
        assert "there is nothing to make" in nothing
        assert "--what all" not in nothing, "it is no remedy for itself"
    ledger = await world.ledger()
    old = {each.evaluation_id for each in ledger if each.happened_at is None}
    new = [each for each in ledger if each.happened_at]
    assert {each.attributes["replay_of"] for each in new} == old
    assert len({each.evaluator_version for each in ledger}) == 2


@pytest.mark.parametrize(
    ("evaluator", "change"),
    [("helpful", KIND), ("complete", {"longest_text": 5000})],
)
async def test_all_replaces_what_an_older_definition_has_not_scored(
    world: World, evaluator: str, change: dict[str, Any]
) -> None:
    """The new score named no failure, so a later run made a second one of the subject in the failure's place."""
    world.configure(**monitored(world, evaluator))
    world.judge.faults = BAD_REQUEST
    await live(world)
    world.judge.faults = Faults()
    failed = {each.subject.conversation_id: each.evaluation_id for each in await world.ledger()}
    world.configure(**with_change(world, evaluator, change))
    async with world.serving():
        done = await rejudge(world, "--what", "all", "--max-usd", "1")
        assert f"made {PAST} of {PAST} ({PAST} scored)" in done.stdout, done.output
        for what in ("failed", "unscored", "all"):
            again = await rejudge(world, "--what", what, "--max-usd", "1")
            assert "there is nothing to make" in again.stdout, again.output
    new = [each for each in await world.ledger() if each.happened_at]
    assert {each.subject.conversation_id: each.supersedes for each in new} == {c: (e,) for c, e in failed.items()}
    assert len({each.evaluator_version for each in await world.ledger()}) == 2


def live_ones(ledger: list[Evaluation]) -> list[Evaluation]:
    superseded = {name for each in ledger for name in each.supersedes}
    return [each for each in ledger if each.evaluation_id not in superseded]


@pytest.mark.parametrize(("evaluator", "change"), [("helpful", KIND), ("complete", {"longest_text": 5000})])
@pytest.mark.parametrize("order", [("failed", "all"), ("failed", "unscored", "all"), ("all", "failed")])
async def test_what_failed_is_made_once_by_a_changed_criterion(
    world: World, evaluator: str, change: dict[str, Any], order: tuple[str, ...]
) -> None:
    """The retry kept its id from the older version, so `--what all` did not know it, and paid for a second score."""
    world.configure(**monitored(world, evaluator))
    world.judge.faults = BAD_REQUEST
    await live(world, range(4), expected=4)
    world.judge.faults = Faults()
    await live(world, range(4, 8), expected=4)
    world.configure(**with_change(world, evaluator, change))
    async with world.serving():
        for what in order:
            done = await rejudge(world, "--what", what, "--max-usd", "1")
            assert done.exit_code == 0, done.output
        for what in ("all", "failed"):
            again = await rejudge(world, "--what", what, "--max-usd", "1")
            assert "there is nothing to make" in again.stdout, again.output
        await world.until_drained()
    new = [each for each in await world.ledger() if each.happened_at]
    assert Counter(each.subject.conversation_id for each in new) == Counter(f"c{n}" for n in range(8))
    assert len(live_ones(await world.ledger())) == 12, "4 by the older version, 8 by the present one"


@pytest.mark.parametrize("what", ["failed", "unscored", "all"])
async def test_a_failure_whose_subject_the_present_version_has_scored_is_not_made_again(
    world: World, what: What
) -> None:
    """After a kill, earlier releases scored live by a new version what the version before it had failed on."""
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world, range(4), expected=4)
    world.judge.faults = Faults()
    world.configure(**with_change(world, "helpful", KIND))
    version = evaluator_version_in(load(world.folder / "evalstream.yaml"), "helpful", "all")
    failed = {each.subject.turn_id: each for each in await world.ledger()}
    scored = [
        replace(
            failed[name], evaluation_id=name * 16, evaluator_version=version, outcome="scored", score=1.0,
            raw_score=1.0, error=None,
        )
        for name in ("t0", "t1")
    ]  # fmt: skip
    async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
        await logs.evaluations.append(
            [Record((each.subject.conversation_id or "").encode(), evaluation_to_json(each)) for each in scored]
        )
    dry = await rejudge(world, "--what", what, "--dry-run")
    assert "2 evaluations to make" in dry.stdout, dry.output


async def test_what_fails_again_by_a_changed_criterion_is_made_once(world: World) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world, range(4), expected=4)
    world.configure(**with_change(world, "helpful", KIND))
    async with world.serving():
        await rejudge(world, "--what", "failed", "--max-usd", "1")
        world.judge.faults = Faults()
        done = await rejudge(world, "--what", "all", "--max-usd", "1")
        assert "made 4 of 4 (4 scored)" in done.stdout, done.output
    assert [each.outcome for each in live_ones(await world.ledger())] == ["scored"] * 4


@pytest.mark.parametrize(("first", "second"), [("failed", "all"), ("all", "failed"), ("all", "unscored")])
async def test_what_failed_is_made_once_if_another_run_has_requested_it(
    world: World, first: What, second: What
) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world, range(4), expected=4)
    world.judge.faults = Faults()
    world.configure(**with_change(world, "helpful", KIND))
    stretch = Stretch(NOW - timedelta(days=7), datetime.now(UTC))
    options = RejudgeOptions(stretch=stretch, what=first, max_usd=1.0, patience=0.5)
    assert await request(load(world.folder / "evalstream.yaml"), options, print, lambda *_: "") == 1
    async with world.serving():
        done = await rejudge(world, "--what", second, "--max-usd", "1")
        assert done.exit_code == 0, done.output
        await world.until_drained()
    assert [each.outcome for each in live_ones(await world.ledger())] == ["scored"] * 4


async def test_all_knows_what_a_monitor_has_judged_before_it_came_second(world: World) -> None:
    """Its evaluations had ids without its name; the present ones have it."""
    world.configure(**monitored(world, "short"))
    await live(world, range(4), expected=4)
    monitor = monitored(world, "short")["monitors"]["all"]
    world.configure(monitors={"above": deepcopy(monitor), "all": monitor})
    dry = await rejudge(world, "--what", "all", "--dry-run", "--monitor", "all")
    assert "there is nothing to make" in dry.stdout, dry.output


async def test_what_was_not_drawn_stays_out_if_the_monitor_came_second_since(world: World) -> None:
    """Only ids said when the evaluator was at work: as they changed, undrawn turns weighed on top of the drawn ones."""
    world.configure(**monitored(world, "short", sample=0.25))
    few = [n for n in range(PAST) if draw(SALT, f"c{n}") < 0.25]
    await live(world, expected=len(few))
    monitor = monitored(world, "short", sample=1.0)["monitors"]["all"]
    world.configure(monitors={"above": deepcopy(monitor), "all": monitor})
    dry = await rejudge(world, "--what", "all", "--dry-run", "--monitor", "all")
    assert f"{PAST - len(few)} evaluations left out: {STAY_OUT}\n" in dry.stdout, dry.output


async def test_parts_without_ids_of_traces_that_are_as_long_are_each_judged(world: World) -> None:
    """Both parts had one key: the part that was judged hid the one that came while no monitor had the evaluator."""
    present = monitored(world, "complete", max_turns=2, end_markers={})

    async def come(numbers: range, expected: int) -> None:
        before, spans = len(await world.ledger()), {"trace_id": None, "span_id": None}
        async with world.serving() as service:
            turns = [replace(turn(n), conversation_id="c", **spans) for n in numbers]
            await service.logs.turns.append(list(map(record, turns)))
            await world.until(lambda found: len(found) == before + expected)
            await world.until_drained()

    world.configure(**monitored(world, "complete", "short", max_turns=2, end_markers={}, evaluators=["short"]))
    await come(range(2), 2)
    world.configure(**present)
    await come(range(2, 4), 1)
    for until in ("now", f"{turn(2).ended_at}"):  # with the judged part, and without it
        for what in ("unscored", "all"):
            dry = await rejudge(world, "--what", what, "--to", until, "--dry-run")
            assert "all  complete  1" in dry.stdout, dry.output


async def test_parts_without_ids_of_traces_that_another_version_judged_are_not_unscored(world: World) -> None:
    """As both parts had one key, `unscored` judged them again. A failed part passed for expired."""
    parts, spans = {"max_turns": 2, "end_markers": {}}, {"trace_id": None, "span_id": None}
    world.configure(**monitored(world, "complete", **parts))
    for numbers, faults in ((range(2), Faults()), (range(2, 4), BAD_REQUEST)):
        world.judge.faults = faults
        async with world.serving() as service:
            turns = [replace(turn(n), conversation_id="c", **spans) for n in numbers]
            await service.logs.turns.append(list(map(record, turns)))
            await world.until(lambda found: len(found) == numbers.stop // 2)  # noqa: B023 - called before it changes
            await world.until_drained()
    world.judge.faults = Faults()
    world.configure(**with_change(world, "complete", {"threshold": 0.9}) | monitored(world, "complete", **parts))
    async with world.serving():
        done = await rejudge(world, "--max-usd", "1")
        assert "made 1 of 1 (1 scored)" in done.stdout, done.output
    first, failed, retried = await world.ledger()
    assert (failed.outcome, retried.supersedes) == ("failed", (failed.evaluation_id,))
    assert retried.subject == failed.subject != first.subject


async def test_a_part_without_ids_of_traces_replaces_no_other_part(world: World) -> None:
    """`all` took the other part, which an earlier run had drawn at a lower rate, for a repair of this one."""
    parts, spans = {"max_turns": 2, "end_markers": {}}, {"trace_id": None, "span_id": None}
    name = next(f"c{n}" for n in range(PAST) if draw(SALT, f"c{n}") < 0.5)
    world.configure(**monitored(world, "short", **parts))
    async with world.serving() as service:
        turns = [replace(turn(n), conversation_id=name, **spans) for n in range(4)]
        await service.logs.turns.append(list(map(record, turns)))
        await world.until(lambda found: len(found) == 4)
    for sample, first in ((0.5, 2), (1.0, 0)):
        world.configure(**monitored(world, "complete", **parts, sample=sample))
        async with world.serving():
            since = turn(first).ended_at
            done = await rejudge(world, "--what", "all", "--max-usd", "1", "--from", f"{since}")
            assert "made 1 of 1 (1 scored)" in done.stdout, done.output
    made = of(live_ones(await world.ledger()), "complete")
    assert [each.sampling.probability for each in made] == [0.5, 1.0]
    assert "replay_of" not in made[1].attributes, "it names no other part, which the page would count in its place"


@pytest.mark.parametrize("between", [(), ("all",)])
async def test_a_repaired_failure_weighs_by_the_rate_of_all_others(world: World, between: tuple[str, ...]) -> None:
    """A present version that repaired failures of 0.5 and judged all the rest at 1 counted those that fail 1.5 times."""
    few = [n for n in range(PAST) if draw(SALT, f"c{n}") < 0.5]
    world.configure(**monitored(world, "helpful", sample=0.5))
    for numbers, faults in ((range(10), Faults()), (range(10, 20), BAD_REQUEST), (range(20, PAST), Faults())):
        world.judge.faults = faults
        await live(world, numbers, expected=len({*numbers} & {*few}))
    for sample, runs in ((0.5, ("failed", *between)), (1.0, ("all", "all"))):
        world.configure(**with_change(world, "helpful", KIND) | monitored(world, "helpful", sample=sample))
        async with world.serving():
            for what in runs:
                done = await rejudge(world, "--what", what, "--max-usd", "1")
                assert done.exit_code == 0, done.output
            assert "there is nothing to make" in (await rejudge(world, "--what", "failed")).stdout
            await world.until_drained()
    version = (await world.ledger())[-1].evaluator_version
    new = [each for each in live_ones(await world.ledger()) if each.evaluator_version == version]
    made = {int((each.subject.turn_id or "")[1:]): each.sampling.probability for each in new}
    assert len(made) == len(new)
    around = [n for n in range(PAST) if not few[0] <= n <= few[-1]]
    at_once = dict.fromkeys(few, 0.5) | dict.fromkeys(around, 1.0)  # the earlier run stands for what is between
    assert made == (at_once if between else dict.fromkeys(range(PAST), 1.0))


async def test_a_repair_that_failed_is_made_once_at_the_present_rate(world: World) -> None:
    """`all` made it at the old rate, by which those that fail counted twice; only a second `all`, paid again, mended it."""
    few = [n for n in range(PAST) if draw(SALT, f"c{n}") < 0.5]
    world.configure(**monitored(world, "helpful", sample=0.5))
    world.judge.faults = BAD_REQUEST
    await live(world, expected=len(few))
    changed = with_change(world, "helpful", KIND)
    for sample, what, faults in ((0.5, "failed", BAD_REQUEST), (1.0, "all", Faults())):
        world.judge.faults = faults
        world.configure(**changed | monitored(world, "helpful", sample=sample))
        async with world.serving():
            done = await rejudge(world, "--what", what, "--max-usd", "1")
    assert f"made {PAST} of {PAST} ({PAST} scored)" in done.stdout, done.output
    assert "there is nothing to make" in (await rejudge(world, "--what", "all", "--dry-run")).stdout
    made = live_ones(await world.ledger())
    assert {each.sampling.probability for each in made} == {1.0}
    assert len(made) == len({each.subject.turn_id for each in made}) == PAST


async def test_all_makes_again_what_failed_in_a_monitor_whose_pack_has_another_version(world: World) -> None:
    """The failure was taken for one of another version, as the first monitor asks alone, and was never made."""
    alone = world.settings["monitors"]["all"] | {"evaluators": ["helpful", "kind"]}
    packed = deepcopy(alone) | {"packs": [["helpful", "kind"]]}
    kind = deepcopy(world.settings["evaluators"]["helpful"]) | {"evaluation_steps": ["Is it kind?"]}
    evaluators = world.settings["evaluators"] | {"kind": kind}
    world.configure(monitors={"all": alone, "packed": packed}, evaluators=evaluators)
    world.judge.faults = BAD_REQUEST
    await live(world, range(4), expected=16)
    world.judge.faults = Faults()
    async with world.serving():
        done = await rejudge(world, "--what", "all", "--max-usd", "1")
        assert "made 16 of 16 (16 scored)" in done.stdout, done.output
    assert len({each.evaluator_version for each in of(await world.ledger(), "helpful")}) == 2


@pytest.mark.parametrize(("options", "old"), [({}, ()), ({"sample": 0.25}, ()), (None, ("helpful",))])
async def test_what_came_between_two_times_of_a_definition_is_made_by_it(
    world: World, options: dict[str, Any] | None, old: tuple[str, ...]
) -> None:
    """A definition was replaced and came back, or its monitor did without it: the turns between were called undrawn."""
    present = world.settings["evaluators"]
    between = {f"c{n}" for n in range(10, 20)}
    drawn = [c for c in between if options is not None and draw(SALT, c) < options.get("sample", 1.0)]
    world.configure(**monitored(world, "short"))
    await live(world, range(10), expected=10)
    if options is None:
        world.configure(**monitored(world, *old))
        await live(world, range(10, 20), expected=10)
    else:
        changed = {"evaluators": present | {"short": {"kind": "length", "maximum": 3}}}
        world.configure(**monitored(world, "short", **options), **changed)
        await live(world, range(10, 20), expected=len(drawn))
    world.configure(**monitored(world, "short"), evaluators=present)
    await live(world, range(20, 30), expected=10)
    async with world.serving():
        done = await rejudge(world, "--what", "all")
        assert "left out" not in done.stdout, done.output
        assert "made 10 of 10" in done.stdout, done.output
        assert "there is nothing to make" in (await rejudge(world, "--what", "all")).stdout
    assert {each.subject.conversation_id for each in await world.ledger() if each.happened_at} == between


async def test_failures_by_another_version_that_are_older_than_the_time_are_told_too(world: World) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world, range(2), expected=2)
    helpful = world.settings["evaluators"]["helpful"] | {"evaluation_steps": ["Is it kind?"]}
    world.configure(**monitored(world, "helpful"), evaluators=world.settings["evaluators"] | {"helpful": helpful})
    told = (await world.command("rejudge", "--what", "all", "--dry-run")).stdout
    option = f"--from {turn(0).ended_at:%Y-%m-%dT%H:%M:%SZ}"
    assert f"2 evaluations left out: their turns ended before --from; {option} takes them in" in told
    dry = (await world.command("rejudge", "--what", "all", *option.split(), "--dry-run")).stdout
    assert "2 evaluations to make" in dry


async def test_requests_that_an_older_version_has_taken_are_made_after_the_restart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in was changed before the restart: later runs waited for what nobody would make, and audit missed it."""
    world.configure(**monitored(world, "short"))
    await live(world)
    options = RejudgeOptions(stretch=Stretch(NOW - timedelta(days=7), datetime.now(UTC)), what="all", patience=1.0)
    async with world.serving():
        monkeypatch.setattr(Length, "revision", 2)
        assert await request(load(world.folder / "evalstream.yaml"), options, print, lambda *_: "") == 1
        await world.until_drained()
    assert (await world.command("audit")).exit_code == 0
    async with world.serving():
        done = await rejudge(world, "--what", "all")
        assert f"made {PAST} of {PAST}" in done.stdout
        await world.until_drained()
    assert (await world.command("audit")).exit_code == 0
    monkeypatch.setattr(Length, "revision", 3)
    audit = await world.command("audit")
    assert audit.exit_code == 0, audit.output


@pytest.mark.parametrize("is_known", [True, False], ids=["configuration", "revision"])
async def test_the_audit_counts_a_rejudged_subject_once_however_its_version_changed(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    """After a change of the configuration, 166 turns were 233 due, as if many had been judged twice."""
    world.configure(**monitored(world, "short"))
    await live(world)
    if is_known:
        world.configure(**with_change(world, "short", {"maximum": 1000}))
    else:
        monkeypatch.setattr(Length, "revision", 2)
    await live(world, range(PAST, PAST + 3), days=0.01, expected=3)
    async with world.serving():
        assert f"made {PAST} of {PAST}" in (await rejudge(world, "--what", "all")).stdout
        await world.until_drained()
    audit = await world.command("audit", "--drained")
    assert audit.exit_code == 0, audit.output
    others = f"{PAST} more of the same subjects by another configuration or version of the evaluator"
    assert f"due        short of all: {PAST + 3} = {PAST + 3} scored; {others}\n" in audit.stdout


async def test_a_service_that_would_judge_by_other_versions_gets_no_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made and paid for 32 evaluations by the code that it had, before the command said so."""
    present = world.settings["evaluators"]
    world.settings["export"]["prometheus"]["port"] = port = free_port()
    plugin = world.folder / "mine" / "brief.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    with_plugin = {"plugins": "mine", "evaluators": present | {"brief": {"kind": "brief"}}}
    world.configure(**monitored(world, "short", "brief"), **with_plugin)
    service = f"nothing was requested: the service on port {port} has "

    async def refused() -> str:
        done = await rejudge(world, "--what", "all", "--max-usd", "1")
        assert f"{PAST} evaluations to make" in done.stdout, done.output
        return str(done.exception)

    await live(world, expected=2 * PAST)
    try:
        async with world.serving():
            plugin.write_text(PLUGIN.replace("= 1\n", "= 2\n"))
            forget()
            restart = "another configuration: the code of plug-ins differs; to take this file, restart that service"
            assert await refused() == service + restart
        async with world.serving():
            helpful = {"evaluators": present | {"helpful": present["helpful"] | {"evaluation_steps": ["Is it kind?"]}}}
            world.configure(**monitored(world, "short", "helpful"), **(with_plugin | helpful))
            live_part = "evaluators.brief, evaluators.helpful and monitors.all differ; it takes changes of its file within seconds"
            assert await refused() == f"{service}another configuration: {live_part}"
            world.configure(**monitored(world, "short", sample=1.0), **with_plugin)
            assert "there is nothing to make" in (await rejudge(world, "--what", "all")).stdout
            world.configure(**monitored(world, "short", "brief"), **with_plugin)
            monkeypatch.setattr(Length, "revision", 2)
            released = await rejudge(world, "--what", "all", "--evaluator", "short")
            assert str(released.exception) == f"{service}other code of short; restart it"
        async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
            assert await requested_evaluations(logs.turns, {}) == {}
    finally:
        forget()


async def test_budgets_of_the_traffic_of_now_neither_pay_for_the_past_nor_stop_it(world: World) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(**monitored(world, "short", "helpful", budget={"usd_per_hour": 0.000001}))
    async with world.serving() as service:
        done = await rejudge(world, "--max-usd", "1")
        assert f"made {PAST} of {PAST} ({PAST} scored)" in done.stdout, done.output
        assert value(service, "evalstream_budget_spent_usd") == 0
    async with world.serving() as service:  # nor after a restart, which reads costs back
        assert value(service, "evalstream_budget_spent_usd") == 0


async def test_a_budget_that_is_new_does_not_reduce_the_sample_of_before(world: World) -> None:
    """Of 9,200 turns 897 were made: a tenth, once a rate had been decided."""
    budget = {"budget": {"usd_per_hour": 0.001}}
    world.configure(**monitored(world, "short"))
    await live(world)
    world.configure(**monitored(world, "short", **budget))
    await live(world, range(PAST, PAST + 4), days=0.01, expected=4)
    world.configure(**monitored(world, "short", "helpful", **budget))
    dry = await rejudge(world, "--dry-run")
    assert f"all  helpful  {PAST}" in dry.stdout, dry.output


async def test_what_a_budget_skipped_is_made_alone_though_a_new_evaluator_lacks_the_past(world: World) -> None:
    """The runbook's command spent its limit on the past of an evaluator that was new, and made no skipped evaluation."""
    world.configure(**monitored(world, "helpful", budget={"usd_per_hour": 1e-9}))
    async with world.serving() as service:
        at_every_rate = [n for n in range(4000) if draw(SALT, f"c{n}") < FLOOR]
        await service.logs.turns.append([record(turn(n)) for n in at_every_rate])
        await world.until_drained()
    skipped = [each.evaluation_id for each in await world.ledger() if each.reason_code == "over_budget"]
    assert skipped
    world.configure(**monitored(world, "helpful", "complete"))
    async with world.serving():
        other = await rejudge(world, "--reason", "shed", "--max-usd", "1")
        assert "there is nothing to make" in other.stdout, other.output
        done = await rejudge(world, "--reason", "over_budget", "--max-usd", "1")
    assert f"made {len(skipped)} of {len(skipped)} (" in done.stdout, done.output
    ledger = await world.ledger()
    assert of(ledger, "complete") == []
    assert {name for each in ledger for name in each.supersedes} == {*skipped}


@pytest.mark.parametrize("evaluator", ["helpful", "complete"])
async def test_what_a_budget_left_out_stays_out_after_the_budget_is_removed(world: World, evaluator: str) -> None:
    """A new budget left out most conversations; a minute after its removal a run made them, at the full rate."""
    world.configure(**monitored(world, evaluator, budget={"usd_per_hour": 0.001}))
    async with world.serving() as service:
        await service.logs.turns.append([record(turn(n)) for n in range(PAST)])
        await world.until_drained()
    judged = len(await world.ledger())
    assert judged < PAST / 2, "the budget reduced the sample"
    world.configure(**monitored(world, evaluator))
    async with world.serving():
        await world.until_drained()
    dry = await rejudge(world, "--dry-run")
    owed = sum(each.outcome != "scored" for each in await world.ledger())
    expected = f"all  {evaluator}  {owed}" if owed else "there is nothing to make"
    assert expected in dry.stdout, dry.output


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        (["--max-usd", "5"], {"log": {"kind": "memory"}}, "log.kind is memory"),
        ([], {"store_text": False}, "store_text is false"),
        ([], {}, "--max-usd: say what judging the past may cost"),
        (["--monitor", "al"], {}, "--monitor: unknown monitor 'al'; did you mean 'all'?"),
        ([], {"judges": {"main": {"model": "m", "base_url": "http://x/v1"}}}, "(0 for a judge on your own machine)"),
        (["--evaluator", "helpfull"], {}, "--evaluator: unknown evaluator 'helpfull'; did you mean 'helpful'?"),
        (
            ["--evaluator", "short", "--monitor", "all"],
            {"monitors": {name: {"evaluators": [of]} for name, of in (("all", "helpful"), ("other", "short"))}},
            "--evaluator: no selected monitor uses 'short', so it has nothing to judge",
        ),
        (["--reason", "shed", "--what", "all"], {}, "--reason: selects what failed or was skipped, not --what all"),
        (["--to", "8d"], {}, "the time must begin before it ends"),
    ],
)
async def test_what_is_wrong_is_one_sentence(
    arguments: list[str], changes: dict[str, Any], message: str, world: World
) -> None:
    world.configure(**changes)
    done = await rejudge(world, *arguments)
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)


async def killed_anywhere(world: World) -> None:
    """The service and the command killed in turn, while a backfill runs beside traffic of now."""
    world.configure(**monitored(world, "short"))
    await live(world)
    settings = world.settings | monitored(world, "short", "helpful", "complete")
    process = ServiceProcess(world.folder, settings, ["--stages", "evaluate,export"])
    world.judge.faults = replace(Faults(), latency=0.3)
    try:
        await process.start()
        for kill_service in (False, True, False, True):
            command = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "collector.cli", "rejudge", "-c", str(process.path), "--from", "7d",
                "--max-usd", "10", cwd=world.folder, stdout=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            had = len(await world.ledger())
            await world.until(lambda found, had=had: len(found) >= min(had + 6, 3 * PAST))
            if kill_service:
                await process.kill()
                await process.start()
            with suppress(ProcessLookupError):  # it may have come to its end
                command.kill()
            await command.wait()
        done = await rejudge(world, "--max-usd", "10")
        assert done.exit_code == 0, done.output
        await world.until_drained()
        assert await process.stop() == 0
    finally:
        await process.end()
    ledger = await world.ledger()
    assert Counter(each.evaluation_id for each in ledger).most_common(1)[0][1] == 1
    for name in ("helpful", "complete"):
        subjects = Counter(each.subject.conversation_id for each in of(ledger, name))
        assert subjects == Counter({f"c{n}": 1 for n in range(PAST)}), name


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_kills_of_service_and_command_neither_lose_nor_double_one(world: World) -> None:
    await killed_anywhere(world)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_kills_on_kafka(kafka_broker: Any, tmp_path: Path) -> None:
    topics = {
        "bootstrap_servers": [kafka_broker.bootstrap],
        "prefix": f"rejudge-{uuid.uuid4().hex[:8]}",
        "partitions": 3,
        "group_instance_id": "one",
    }
    async with a_world(tmp_path, {"kind": "kafka", "kafka": topics}) as world:
        await killed_anywhere(world)
