"""`evalstream rejudge --batch`: the past judged by the command itself, at half the price, into the service's ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, batch_server
from past_world import BAD_REQUEST, World, a_world
from test_batches import INPUT_PRICE, LIST_PRICE, OUTPUT_PRICE, PACE
from test_rejudge import NOW, PAST, live, monitored, of, record, turn

from collector.commands.rejudge.batch_run import INTERIM
from collector.commands.rejudge.rejudge import RejudgeOptions, rejudge
from collector.config.loading import load
from collector.evaluate.retry.past_jobs import Stretch
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.logs.log import LogUnavailable
from collector.service.open_logs import open_logs

KEY = "0" * 64
SALT = keyed_salt(KEY, "evalstream")


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.chdir(tmp_path)
    async with a_world(tmp_path, {"path": str(tmp_path / "evalstream.db")}) as world:
        yield world


def with_batches(server: BatchServer) -> dict[str, Any]:
    prices = {"usd_per_million_input_tokens": INPUT_PRICE, "usd_per_million_output_tokens": OUTPUT_PRICE}
    return {"judges": {"main": {"model": "main", "base_url": server.base_url, **prices}}}


async def rejudged(world: World, **options: Any) -> tuple[int, list[str]]:
    said: list[str] = []
    stretch = Stretch(NOW - timedelta(days=7), NOW + timedelta(days=1))
    every = RejudgeOptions(stretch=stretch, batch=True, pace=PACE, **({"max_usd": 10.0} | options))
    status = await rejudge(load(world.folder / "evalstream.yaml"), every, said.append)
    return status, said


async def test_a_new_evaluator_over_the_past_at_half_the_price(world: World) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    async with batch_server(looks=2) as server:
        world.configure(**monitored(world, "short", "helpful", sample=0.5), **with_batches(server))
        drawn = {f"c{n}" for n in range(PAST) if draw(SALT, f"c{n}") < 0.5}
        status, said = await rejudged(world)
        assert (status, said[-1][: len(f"made {len(drawn)} of {len(drawn)}")]) == (
            0,
            f"made {len(drawn)} of {len(drawn)}",
        )
        assert set(server.submitted.values()) == {1}
        made = of(await world.ledger(), "helpful")
        assert {each.subject.conversation_id for each in made} == drawn
        assert {each.sampling.probability for each in made} == {0.5}, "the weights add up to the traffic"
        assert {each.happened_at for each in made} == {turn(int(name[1:])).ended_at for name in drawn}
        costs = sorted(each.cost_usd or 0.0 for each in made)
        assert costs == [pytest.approx(LIST_PRICE / 2, abs=1e-12)] * (len(drawn) - 1) + [
            pytest.approx(LIST_PRICE, abs=1e-12)
        ]
        again = await rejudged(world)
        assert again[0] == 0
        assert again[1][-1] == "there is nothing to make"
        assert not INTERIM.exists()
        assert not list(world.folder.glob("*.batches"))
        before = len(server.at_once)
        async with world.serving():
            await world.until_drained()
        assert len(server.at_once) == before, "the service makes nothing of the past"
    assert Counter(each.evaluation_id for each in await world.ledger()).most_common(1)[0][1] == 1


async def test_what_the_service_has_not_come_to_is_its_own(world: World) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    async with batch_server() as server:
        world.configure(**monitored(world, "short", "helpful"), **with_batches(server))
        async with open_logs(load(world.folder / "evalstream.yaml").settings.log) as logs:
            await logs.turns.append([record(turn(n)) for n in range(PAST, PAST + 3)])
        status, said = await rejudged(world, evaluators=("helpful",))
        assert status == 0
        assert any("3 evaluations left out: the service has not come to them yet" in line for line in said), said
        assert len(of(await world.ledger(), "helpful")) == PAST
        async with world.serving():
            await world.until(lambda found: len(of(found, "short")) == PAST + 3)
        live_ones = len(of(await world.ledger(), "helpful")) - PAST
        status, said = await rejudged(world, evaluators=("helpful",))
        assert status == 0, said
        assert len(of(await world.ledger(), "helpful")) == PAST + 3, live_ones
    assert Counter(each.evaluation_id for each in await world.ledger()).most_common(1)[0][1] == 1


async def test_an_interrupted_run_is_continued_and_pays_for_nothing_twice(world: World) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    async with batch_server(looks=10_000) as server:
        world.configure(**monitored(world, "short", "helpful"), **with_batches(server))
        run = asyncio.create_task(rejudged(world))
        while "look" not in server.calls:
            await asyncio.sleep(0.01)
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        assert len(of(await world.ledger(), "helpful")) == 0
        server.looks = 1
        status, said = await rejudged(world)
        assert (status, f"made {PAST} of {PAST}" in said[-1]) == (0, True), said
        assert set(server.submitted.values()) == {1}
        assert len(server.submitted) + len(server.at_once) == PAST
    assert len(of(await world.ledger(), "helpful")) == PAST


async def test_the_limit_counts_the_price_of_batches(world: World) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    async with batch_server() as server:
        world.configure(**monitored(world, "short", "helpful"), **with_batches(server))
        status, said = await rejudged(world, max_usd=8 * LIST_PRICE)
        assert status == 1
        assert "left by --max-usd" in said[-1]
        spent = sum(each.cost_usd or 0.0 for each in of(await world.ledger(), "helpful"))
        assert 4 * LIST_PRICE < spent <= 8 * LIST_PRICE
        status, said = await rejudged(world, max_usd=spent)
        assert (status, len(of(await world.ledger(), "helpful"))) == (1, len(of(await world.ledger(), "helpful")))
        status, said = await rejudged(world, max_usd=10.0)
        assert status == 0, said
    assert len(of(await world.ledger(), "helpful")) == PAST


async def test_what_failed_is_made_again_and_counts_once(world: World) -> None:
    world.configure(**monitored(world, "helpful"))
    world.judge.faults = BAD_REQUEST
    await live(world)
    failed = of(await world.ledger(), "helpful")
    assert {each.outcome for each in failed} == {"failed"}
    async with batch_server() as server:
        world.configure(**monitored(world, "helpful"), **with_batches(server))
        status, said = await rejudged(world, what="failed")
        assert status == 0, said
        made = [each for each in of(await world.ledger(), "helpful") if each.score is not None]
        assert {each.supersedes[0] for each in made} == {each.evaluation_id for each in failed}
        assert {each.retry and each.retry.attempt for each in made} == {1 + 1}
        again = await rejudged(world, what="failed")
        assert again[1][-1] == "there is nothing to make"
    assert len(made) == PAST


async def test_what_could_not_be_written_to_the_log_is_not_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.configure(**monitored(world, "short"))
    await live(world)
    async with batch_server() as server:
        world.configure(**monitored(world, "short", "helpful"), **with_batches(server))

        async def unavailable(*_: Any) -> LogUnavailable:
            return LogUnavailable("down")

        with monkeypatch.context() as patched:
            patched.setattr("collector.commands.rejudge.batch_run.write_into_log", unavailable)
            status, said = await rejudged(world)
        assert status == 1
        assert said[-1] == (
            f"they could not be written to the log (down); run the same command again: they are in {INTERIM}"
        )
        assert len(of(await world.ledger(), "helpful")) == 0
        status, said = await rejudged(world)
        assert status == 0, said
        assert sum(server.submitted.values()) + sum(server.at_once.values()) == PAST
    assert len(of(await world.ledger(), "helpful")) == PAST
    assert not INTERIM.exists()
