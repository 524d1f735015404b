"""Monitors with `urgency: hours` in a running service: what goes into batches, how often, at which price."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from batch_server import BatchServer, batch_server
from prometheus_client import generate_latest
from stand_in_judge import completion
from test_batches import LIST_PRICE, prepare
from test_packs_in_service import records_of
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.evaluate.budget.controller import PartitionBudget
from collector.logs.log import Record
from collector.records.json import turn_to_json
from collector.service import evaluate as deferred
from collector.service.app import Running, running
from evaluators.cases import Turn
from evaluators.judges.batches.batch_terms import BatchPace
from evaluators.results import Evaluation

QUICK = BatchPace(first_look=0.02, longest_look=0.05, settled=0.3, first_retry=0.02, patience=float("inf"))
COUNT = 12
KEY = "6" * 64
"""A key of draws by which some of so few turns are drawn at the rate that a budget begins with."""


@pytest.fixture(autouse=True)
def _quick_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "PACE", QUICK)
    monkeypatch.setattr("secrets.token_hex", lambda size: KEY[: 2 * size])


def configure(folder: Path, url: str, change: Callable[[dict[str, Any]], None] = lambda _config: None) -> Path:
    """A service with one monitor whose evaluations may wait."""
    prepare(folder, url, 0)
    path = folder / "evalstream.yaml"
    config = yaml.safe_load(path.read_text())
    config["monitors"]["all"]["urgency"] = "hours"
    config |= {"evaluate": {"gather": 0.2}, "export": {}}
    change(config)
    path.write_text(yaml.safe_dump(config))
    return path


def turns(count: int, first: int = 0, context: str = "") -> list[Record]:
    found = (context,) if context else ()
    return [
        Record(
            f"c{n}".encode(),
            turn_to_json(
                Turn(
                    turn_id=f"t{n}",
                    conversation_id=f"c{n}",
                    input=f"What is {n}?",
                    actual_output=f"It is {n}.",
                    retrieval_context=found,
                )
            ),
        )
        for n in range(first, first + count)
    ]


@asynccontextmanager
async def service(path: Path) -> AsyncGenerator[Running]:
    async with running(load(path), {"evaluate"}) as started:
        yield started


async def made(started: Running, count: int, seconds: float = 30.0) -> Sequence[Evaluation]:
    async with asyncio.timeout(seconds):
        while len(evaluations := await records_of(started.logs.evaluations)) < count:
            await asyncio.sleep(0.02)
    return evaluations


def assert_once(server: BatchServer, evaluations: Sequence[Evaluation], count: int = COUNT) -> None:
    """Each question was sent once, and each evaluation made once."""
    assert Counter(each.outcome for each in evaluations) == {"scored": count}
    assert len({each.evaluation_id for each in evaluations}) == count
    assert set(server.submitted.values()) <= {1}
    assert not set(server.submitted) & set(server.at_once)
    assert len(server.submitted) + len(server.at_once) == count


async def submitted(server: BatchServer, number: int = 1, seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while len(server.batches) < number:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("api", ["chat", "anthropic"])
async def test_all_but_the_first_at_half_the_price(tmp_path: Path, api: str) -> None:
    async with batch_server(looks=2) as server:
        path = configure(tmp_path, server.base_url, lambda config: config["judges"]["main"].update(api=api))
        async with service(path) as started:
            await started.logs.turns.append(turns(COUNT))
            evaluations = await made(started, COUNT)
        assert_once(server, evaluations)
        prices = Counter(round((each.cost_usd or 0) / LIST_PRICE, 6) for each in evaluations)
        assert prices == {1.0: 1, 0.5: COUNT - 1}


async def test_a_restart_waits_for_the_batch_that_was_sent(tmp_path: Path) -> None:
    async with batch_server(looks=10**9) as server:
        path = configure(tmp_path, server.base_url)
        async with service(path) as started:
            await started.logs.turns.append(turns(COUNT))
            await submitted(server)
            await asyncio.sleep(0.2)
            assert len(await records_of(started.logs.evaluations)) == 1
        server.looks = 1
        async with service(path) as started:
            evaluations = await made(started, COUNT)
        assert_once(server, evaluations)
        async with service(path) as started:
            await asyncio.sleep(0.5)
            assert len(await records_of(started.logs.evaluations)) == COUNT
        assert len(server.batches) == 1


def ends(number: int, status: str) -> str:
    """The first batch ends otherwise, the second as usual."""
    return status if number == 0 else "completed"


def outcome_of(first: Callable[[str], str]) -> Callable[[dict[str, Any], int], str]:
    """What becomes of a request in the first batch; in later ones all goes well."""
    return lambda body, number: first(json.dumps(body)) if number == 0 else "ok"


@pytest.mark.parametrize("reason", ["expired", "500", "nothing"])
async def test_what_has_no_answer_goes_into_one_more_batch(tmp_path: Path, reason: str) -> None:
    """Half of a batch expires, or fails, or has no result at all."""

    def some(body: str) -> str:
        return reason if any(f"is {n}?" in body for n in range(0, COUNT, 2)) else "ok"

    async with batch_server(outcome=outcome_of(some)) as server:
        async with service(configure(tmp_path, server.base_url)) as started:
            await started.logs.turns.append(turns(COUNT))
            evaluations = await made(started, COUNT)
        assert Counter(each.outcome for each in evaluations) == {"scored": COUNT}
        assert len(server.batches) == 2
        again = Counter(server.submitted.values())
        assert again[2] == len(list(server.batches.values())[1].items)
        assert again[1] + again[2] + len(server.at_once) == COUNT


async def test_what_expires_twice_is_a_failure_with_its_name(tmp_path: Path) -> None:
    async with batch_server(outcome=lambda _body, _number: "expired", end=lambda _number: "expired") as server:
        async with service(configure(tmp_path, server.base_url)) as started:
            await started.logs.turns.append(turns(COUNT))
            evaluations = await made(started, COUNT)
        failed = Counter(each.error.type for each in evaluations if each.error is not None)
        assert failed == {"judge_timeout": COUNT - 1}
        assert len(server.batches) == 2


async def test_a_batch_that_somebody_cancels_is_not_sent_again(tmp_path: Path) -> None:
    async with batch_server(outcome=lambda _body, _number: "cancelled", end=lambda _number: "cancelled") as server:
        async with service(configure(tmp_path, server.base_url)) as started:
            await started.logs.turns.append(turns(COUNT))
            evaluations = await made(started, COUNT)
        failed = Counter(each.error.type for each in evaluations if each.error is not None)
        assert failed == {"judge_unavailable": COUNT - 1}
        assert len(server.batches) == 1


async def test_a_batch_that_is_gone_at_the_provider_is_not_paid_for_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was submitted and may have been billed: nobody knows, and only a person can say that it is sent again."""

    def refuse(step: str) -> web.Response | None:
        return web.json_response({"error": {"message": "no such batch"}}, status=404) if step == "look" else None

    async with batch_server(refuse=refuse) as server:
        async with service(configure(tmp_path, server.base_url)) as started:
            await started.logs.turns.append(turns(COUNT))
            evaluations = await made(started, COUNT)
            gone = started.telemetry.registry.get_sample_value(
                "evalstream_batches_total", {"judge": "main", "outcome": "gone"}
            )
        errors = Counter((each.error.type, each.error.message) for each in evaluations if each.error is not None)
        assert errors == {("judge_unavailable", "its batch was cancelled or deleted at the provider"): COUNT - 1}
        assert set(server.submitted.values()) == {1}
        assert gone == len(server.batches) == 1
    [said] = [each.getMessage() for each in caplog.records if "not at the provider any more" in each.getMessage()]
    assert f"{COUNT - 1} answers that may have been paid for" in said


def several_questions(config: dict[str, Any]) -> None:
    """Claims first, then a verdict on each: the second request has the answer to the first in it."""
    config["evaluators"]["faithful"] = {"kind": "faithfulness"}
    config["monitors"]["all"]["evaluators"] = ["helpful", "faithful"]


@pytest.mark.parametrize("packed", [False, True])
async def test_a_restart_between_two_questions_repeats_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr("batch_server.answered", lambda body, _text=None: completion(body))

    def change(config: dict[str, Any]) -> None:
        several_questions(config)
        if packed:
            config["monitors"]["all"]["pack"] = "auto"

    async with batch_server(looks=1) as server:
        path = configure(tmp_path, server.base_url, change)
        records = turns(COUNT, context="It is so.")
        async with service(path) as started:
            await started.logs.turns.append(records)
            await submitted(server, 2)  # the second has questions about what the first has answered
            server.looks = 10**9
        for _ in range(3):
            async with service(path) as started:
                await asyncio.sleep(0.5)
        before = len(server.batches)
        server.looks = 1
        async with service(path) as started:
            evaluations = await made(started, 2 * COUNT)
        assert Counter(each.outcome for each in evaluations) == {"scored": 2 * COUNT}
        assert len({each.evaluation_id for each in evaluations}) == 2 * COUNT
        assert Counter(server.submitted.values()) == {1: len(server.submitted)}
        assert not set(server.submitted) & set(server.at_once)
        assert before <= len(server.batches) <= before + 1
        assert {each.evaluator: bool(each.cost_usd) for each in evaluations} == {"helpful": True, "faithful": True}


async def test_others_are_judged_while_it_waits(tmp_path: Path) -> None:
    """With one slot, and many that wait."""

    def change(config: dict[str, Any]) -> None:
        config["evaluate"] |= {"concurrency": 1, "max_waiting": 1, "shed_after": 0.5}
        config["evaluators"]["soon"] = deepcopy(config["evaluators"]["helpful"])
        config["evaluators"]["soon"]["evaluation_steps"] = ["Is it polite?"]
        config["monitors"]["at_once"] = {"evaluators": ["soon"]}

    async with batch_server(looks=10**9) as server:
        async with service(configure(tmp_path, server.base_url, change)) as started:
            await started.logs.turns.append(turns(COUNT))
            await submitted(server)
            await made(started, COUNT + 1)
            await started.logs.turns.append(turns(COUNT, first=COUNT))
            evaluations = await made(started, 2 * COUNT + 1)
            server.looks = 1
            evaluations = await made(started, 4 * COUNT)
        waited = {each.outcome for each in evaluations if each.evaluator == "helpful"}
        assert waited == {"scored"}, "what waits on purpose is not shed for its age"
        assert Counter(each.evaluator for each in evaluations) == {"soon": 2 * COUNT, "helpful": 2 * COUNT}


async def test_what_has_no_room_is_shed_and_what_was_sent_is_not(tmp_path: Path) -> None:
    async with batch_server(looks=10**9) as server:
        path = configure(tmp_path, server.base_url, lambda config: config["evaluate"].update(max_deferred=COUNT))
        async with service(path) as started:
            await started.logs.turns.append(turns(COUNT))
            await submitted(server)
            await started.logs.turns.append(turns(5, first=COUNT))
            shed = [each for each in await made(started, 5) if each.reason == "shed"]
            assert 4 <= len(shed) <= 5, "the first of all goes out at once, and makes room for one more"
            metrics = generate_latest(started.telemetry.registry).decode()
            assert 'evalstream_evaluations_deferred{state="submitted"}' in metrics
        config = yaml.safe_load(path.read_text())
        config["evaluate"]["max_deferred"] = 1
        path.write_text(yaml.safe_dump(config))
        server.looks = 1
        async with service(path) as started:
            evaluations = await made(started, COUNT + 5)
        outcomes = Counter(each.reason or each.outcome for each in evaluations)
        assert outcomes == {"scored": COUNT + 5 - len(shed), "shed": len(shed)}


async def test_the_budget_of_a_day_has_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour's is not blocked by what is paid hours later."""
    monkeypatch.setattr(PartitionBudget, "first_due", lambda *_: ())  # the rates of a start judge all
    async with batch_server(looks=10**9) as server:

        def change(config: dict[str, Any]) -> None:
            config["monitors"]["all"]["budget"] = {"usd_per_hour": 3 * LIST_PRICE, "usd_per_day": 500 * LIST_PRICE}

        async with service(configure(tmp_path, server.base_url, change)) as started:
            await started.logs.turns.append(turns(COUNT))
            await submitted(server)
            await asyncio.sleep(0.3)
            server.looks = 1
            evaluations = await made(started, 1)
        assert evaluations


async def test_a_new_configuration_takes_over_what_waits(tmp_path: Path) -> None:
    async with batch_server(looks=10**9) as server:
        path = configure(tmp_path, server.base_url)
        async with running(load(path), {"evaluate"}, path=path) as started:
            await started.logs.turns.append(turns(COUNT))
            await submitted(server)
            await asyncio.sleep(0.2)
            config = yaml.safe_load(path.read_text())
            config["monitors"]["other"] = {"evaluators": ["helpful"], "match": {"model": "nobody"}}
            path.write_text(yaml.safe_dump(config))
            started.reload.request()
            await asyncio.sleep(1.0)
            server.looks = 1
            evaluations = await made(started, COUNT)
        assert_once(server, evaluations)
        assert len(server.batches) == 1


async def test_a_batch_that_is_refused_for_what_waits_already_is_submitted_again(tmp_path: Path) -> None:
    """However often: nothing of it was done."""
    refused = {"object": "list", "data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]}

    class Busy(BatchServer):
        def _described(self, batch: Any) -> dict[str, Any]:
            described = super()._described(batch)
            return described | {"errors": refused} if batch.status == "failed" else described

    server = Busy(end=lambda number: "failed" if number < 4 else "completed")
    async with TestServer(server.application()) as started_server:
        url = f"http://127.0.0.1:{started_server.port}/v1"
        async with service(configure(tmp_path, url)) as started:
            await started.logs.turns.append(turns(COUNT))
            evaluations = await made(started, COUNT)
    assert Counter(each.outcome for each in evaluations) == {"scored": COUNT}
    assert len(server.batches) == 5


async def test_conversations_wait_like_turns(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["evaluators"]["whole"] = {"kind": "conversational_g_eval", "criteria": "Is it helpful?"}
        config["monitors"]["all"] |= {"evaluators": ["whole"], "max_turns": 2}

    async with batch_server(looks=10**9) as server:
        path = configure(tmp_path, server.base_url, change)
        async with service(path) as started:
            for n in range(2):
                await started.logs.turns.append(
                    [
                        Record(
                            f"c{c}".encode(),
                            turn_to_json(
                                Turn(
                                    turn_id=f"t{c}-{n}",
                                    conversation_id=f"c{c}",
                                    input=f"What is {c} and {n}?",
                                    actual_output="It.",
                                )
                            ),
                        )
                        for c in range(6)
                    ]
                )
            await submitted(server)
            await asyncio.sleep(0.2)
        server.looks = 1
        async with service(path) as started:
            evaluations = await made(started, 6)
        assert Counter(each.outcome for each in evaluations) == {"scored": 6}
        assert set(server.submitted.values()) == {1}


async def test_a_denied_key_is_waited_for(tmp_path: Path) -> None:
    """What is refused for its key is sent when somebody has mended that."""
    denied = True

    def refuse(step: str) -> web.Response | None:
        return web.json_response({"error": {"message": "no"}}, status=401) if denied and step == "create" else None

    async with batch_server(refuse=refuse) as server:
        async with service(configure(tmp_path, server.base_url)) as started:
            await started.logs.turns.append(turns(COUNT))
            async with asyncio.timeout(30):
                while server.calls.count("create") < 3:
                    await asyncio.sleep(0.02)
            denied = False
            evaluations = await made(started, COUNT)
        assert_once(server, evaluations)


async def test_audit_and_check_know_that_it_waits(tmp_path: Path) -> None:
    """What waits on purpose is not missing, and `rejudge` has nothing to do."""
    async with batch_server(looks=10**9) as server:
        path = configure(tmp_path, server.base_url)
        async with service(path) as started:
            await started.logs.turns.append(turns(COUNT))
            await submitted(server)
            await asyncio.sleep(0.3)
        for command, expected in (("audit", 0), ("rejudge --what failed --dry-run", 0)):
            done = await asyncio.to_thread(CliRunner().invoke, app, [*command.split(), "-c", str(path)])
            assert done.exit_code == expected, (command, done.output, done.exception)
        server.looks = 1
        async with service(path) as started:
            assert_once(server, await made(started, COUNT))
        done = await asyncio.to_thread(CliRunner().invoke, app, ["audit", "-c", str(path)])
        assert done.exit_code == 0, done.output


async def test_a_monitor_that_is_set_back_to_now_asks_at_once(tmp_path: Path) -> None:
    """And a new configuration ends what the page and metrics say of waiting, with a budget for all monitors as well."""
    async with batch_server(looks=10**9) as server:
        path = configure(
            tmp_path, server.base_url, lambda config: config["evaluate"].update(budget={"usd_per_day": 100.0})
        )
        async with running(load(path), {"evaluate"}, path=path) as started:
            await asyncio.sleep(0.2)
            await started.logs.turns.append(turns(COUNT))
            async with asyncio.timeout(30):
                while not server.batches and not server.at_once:
                    await asyncio.sleep(0.02)
            config = yaml.safe_load(path.read_text())
            config["monitors"]["all"]["urgency"] = "now"
            path.write_text(yaml.safe_dump(config))
            started.reload.request()
            async with asyncio.timeout(30):
                while (
                    started.telemetry.registry.get_sample_value(
                        "evalstream_evaluations_deferred", {"state": "submitted"}
                    )
                    is not None
                ):
                    await asyncio.sleep(0.05)
            await started.logs.turns.append(turns(COUNT, first=COUNT))
            evaluations = await made(started, 2)
        assert evaluations
