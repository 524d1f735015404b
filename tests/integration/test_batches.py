"""`evalstream score --batch` against providers with batches: what is sent, how often, at which price."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from batch_server import batch_server

from collector.commands.replay.replay import ReplayOptions, replay
from collector.commands.score.score import ScoreOptions, score
from collector.config.loading import load
from collector.errors import ConfigError
from collector.judging.batches import at_batch_prices
from collector.logs.log import Record
from collector.past.evaluations import EvaluationFilter
from collector.service.open_logs import open_logs
from collector.service.plan_builder import expected_usd
from evaluators.judges.batches.batch_terms import BatchPace

PACE = BatchPace(
    linger=0.05, first_look=0.01, longest_look=0.05, settled=0.2, first_retry=0.01, patience=2.0, patience_at_start=0.1
)
INPUT_PRICE, OUTPUT_PRICE = 3.0, 15.0
LIST_PRICE = (1000 * INPUT_PRICE + 100 * OUTPUT_PRICE) / 1e6
"""What a request of the stub costs outside of a batch."""


def prepare(folder: Path, url: str, count: int, *, turns: Callable[[int], str] = str, **judge: Any) -> None:
    """A configuration with one evaluator, and so many turns."""
    main = {
        "model": "m",
        "base_url": url,
        "usd_per_million_input_tokens": INPUT_PRICE,
        "usd_per_million_output_tokens": OUTPUT_PRICE,
    }
    helpful = {
        "kind": "g_eval",
        "evaluation_steps": ["Say whether it answers."],
        "evaluation_params": ["input", "actual_output"],
        "judge": "main",
    }
    config = {
        "log": {"path": str(folder / "evalstream.db")},
        "judges": {"main": main | judge},
        "evaluators": {"helpful": helpful},
        "monitors": {"all": {"evaluators": ["helpful"]}},
    }
    (folder / "evalstream.yaml").write_text(yaml.safe_dump(config))
    lines = [
        json.dumps(
            {"turn_id": f"t{n}", "conversation_id": f"c{n}", "input": f"What is {turns(n)}?", "actual_output": "It."}
        )
        for n in range(count)
    ]
    (folder / "turns.jsonl").write_text("\n".join(lines) + "\n")


async def scored(folder: Path, *, batch: bool = True, pace: BatchPace = PACE, **options: Any) -> int:
    every = ScoreOptions(
        paths=[str(folder / "turns.jsonl")], output=folder / "out.jsonl", batch=batch, pace=pace, json=True, **options
    )
    return await asyncio.to_thread(score, load(folder / "evalstream.yaml"), every)


def evaluations(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def outcomes(folder: Path) -> list[str]:
    return sorted(each["outcome"] for each in evaluations(folder))


def journal(folder: Path) -> Path:
    return folder / "out.jsonl.batches"


APIS = [{"api": "chat"}, {"api": "anthropic"}]


@pytest.mark.parametrize("judge", APIS, ids=["chat", "anthropic"])
async def test_all_but_the_first_request_go_out_in_one_batch_at_half_the_price(
    tmp_path: Path, judge: dict[str, str]
) -> None:
    async with batch_server(looks=3) as server:
        prepare(tmp_path, server.base_url, 20, **judge)
        assert await scored(tmp_path) == 0
        made = evaluations(tmp_path)
        assert [each["outcome"] for each in made] == ["scored"] * 20
        assert len(server.batches) == 1
        assert set(server.submitted.values()) == set(server.at_once.values()) == {1}
        assert (len(server.submitted), len(server.at_once)) == (19, 1)
        costs = sorted(each["cost_usd"] for each in made)
        assert costs == [pytest.approx(LIST_PRICE / 2, abs=1e-12)] * 19 + [pytest.approx(LIST_PRICE, abs=1e-12)]
        assert not journal(tmp_path).exists()


async def test_dollars_a_turn_before_and_after(tmp_path: Path) -> None:
    async with batch_server() as server:
        prepare(tmp_path, server.base_url, 100)
        assert await scored(tmp_path, batch=False) == 0
        before = sum(each["cost_usd"] for each in evaluations(tmp_path)) / 100
        (tmp_path / "out.jsonl").unlink()
        assert await scored(tmp_path) == 0
        after = sum(each["cost_usd"] for each in evaluations(tmp_path)) / 100
    assert before == pytest.approx(LIST_PRICE, abs=1e-12)
    assert after == pytest.approx(LIST_PRICE * (99 / 2 + 1) / 100, abs=1e-12)


async def test_the_discount_is_that_of_the_judge(tmp_path: Path) -> None:
    async with batch_server() as server:
        prepare(tmp_path, server.base_url, 3, batch_discount=0.25)
        assert await scored(tmp_path) == 0
    costs = sorted(each["cost_usd"] for each in evaluations(tmp_path))
    assert costs == [pytest.approx(LIST_PRICE * share, abs=1e-12) for share in (0.75, 0.75, 1.0)]


@pytest.mark.parametrize("judge", APIS, ids=["chat", "anthropic"])
async def test_what_expired_is_in_the_next_batch_once(tmp_path: Path, judge: dict[str, str]) -> None:
    def half(body: dict[str, Any], batch: int) -> str:
        return "expired" if batch == 0 and hash_of(body) % 2 else "ok"

    async with batch_server(outcome=half, end=lambda n: "completed" if n else "expired") as server:
        prepare(tmp_path, server.base_url, 20, **judge)
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 20
        first, second = (set(each.items) for each in server.batches.values())
        assert second < first


def hash_of(body: dict[str, Any]) -> int:
    return sum(json.dumps(body["messages"]).encode())


@pytest.mark.parametrize("outcome", ["expired", "500", "429", "nothing"])
async def test_what_never_comes_fails_after_two_batches(tmp_path: Path, outcome: str) -> None:
    async with batch_server(outcome=lambda _body, _batch: outcome) as server:
        prepare(tmp_path, server.base_url, 4)
        assert await scored(tmp_path) == 1
        assert outcomes(tmp_path) == ["failed"] * 3 + ["scored"]
        assert set(server.submitted.values()) == {2}
        assert not journal(tmp_path).exists(), "the next run asks anew"
        [problem] = {each["error"]["type"] for each in evaluations(tmp_path) if each["outcome"] == "failed"}
        assert problem == ("judge_timeout" if outcome == "expired" else "judge_unavailable")
        server.outcome = lambda _body, _batch: "ok"
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path).count("scored") == 4


async def test_a_batch_that_fails_whole_is_submitted_once_more(tmp_path: Path) -> None:
    async with batch_server(end=lambda n: "completed" if n else "failed") as server:
        prepare(tmp_path, server.base_url, 5)
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 5
        assert set(server.submitted.values()) == {2}


async def test_a_cancelled_batch_is_not_submitted_again_by_itself(tmp_path: Path) -> None:
    def half(body: dict[str, Any], _batch: int) -> str:
        return "cancelled" if hash_of(body) % 2 else "ok"

    async with batch_server(outcome=half, end=lambda _n: "cancelled") as server:
        prepare(tmp_path, server.base_url, 11)
        await scored(tmp_path)
        assert set(server.submitted.values()) == {1}
        failed = [each for each in evaluations(tmp_path) if each["outcome"] == "failed"]
        assert 0 < len(failed) < 10
        assert {each["error"]["message"] for each in failed} == {"its batch was cancelled or deleted at the provider"}
        server.outcome, server.end = (lambda _body, _batch: "ok"), (lambda _n: "completed")
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path).count("scored") == 11
        assert sum(server.submitted.values()) == 10 + len(failed) - 1, "one of them goes out at once"


async def test_a_refused_request_fails_alone(tmp_path: Path) -> None:
    marked = "number 7"

    def one(body: dict[str, Any], _batch: int) -> str:
        return "400" if marked in json.dumps(body["messages"]) else "ok"

    async with batch_server(outcome=one) as server:
        prepare(tmp_path, server.base_url, 10, turns=lambda n: f"number {n}")
        assert await scored(tmp_path) == 1
        assert outcomes(tmp_path) == ["failed"] + ["scored"] * 9
        [failed] = [each for each in evaluations(tmp_path) if each["outcome"] == "failed"]
        assert (failed["subject"]["turn_id"], failed["error"]["type"]) == ("t7", "judge_rejected")
        assert set(server.submitted.values()) == {1}


async def test_an_error_inside_of_a_result_fails_it(tmp_path: Path) -> None:
    async with batch_server(outcome=lambda _body, _batch: "error inside") as server:
        prepare(tmp_path, server.base_url, 3)
        await scored(tmp_path)
        assert outcomes(tmp_path) == ["failed", "failed", "scored"]
        assert set(server.submitted.values()) == {1}


async def test_results_that_nobody_asked_for_are_counted_and_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = [{"custom_id": "who", "response": {"status_code": 200, "body": {}}}, {"custom_id": 7}, {}]
    async with batch_server(extra_lines=strange) as server:
        prepare(tmp_path, server.base_url, 5)
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 5
    assert "4 answers, 3 results that nobody asked for" in capsys.readouterr().err


async def test_an_endpoint_without_batches_says_so_in_one_sentence(tmp_path: Path) -> None:
    async with batch_server(refuse=lambda step: web.Response(status=404) if step == "list" else None) as server:
        prepare(tmp_path, server.base_url, 5)
        with pytest.raises(ConfigError, match=r"judges.main at http://.*: the endpoint takes no batches \(HTTP 404 at"):
            await scored(tmp_path)
        assert server.calls == ["list"], "nothing was sent"


async def test_without_an_output_there_is_nothing_to_resume_from(tmp_path: Path) -> None:
    prepare(tmp_path, "http://127.0.0.1:9/v1", 1)
    options = ScoreOptions(paths=[str(tmp_path / "turns.jsonl")], batch=True)
    with pytest.raises(ConfigError, match=r"--batch: name a file that ends in \.jsonl"):
        await asyncio.to_thread(score, load(tmp_path / "evalstream.yaml"), options)


async def test_what_the_endpoint_does_not_take_is_learnt_before_a_batch(tmp_path: Path) -> None:
    def refusal(body: dict[str, Any]) -> web.Response | None:
        for name in ("response_format", "temperature", "logprobs"):
            if name in body:
                error = {"error": {"message": f"unsupported parameter {name}", "param": name}}
                return web.json_response(error, status=400)
        return None

    async with batch_server(at_once_refusal=refusal) as server:
        prepare(tmp_path, server.base_url, 30)
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 30
        assert len(server.batches) == 1
        assert not any("temperature" in each or "response_format" in each for each in server.submitted)


async def test_a_first_request_that_is_refused_for_itself_holds_up_nobody(tmp_path: Path) -> None:
    def refusal(body: dict[str, Any]) -> web.Response | None:
        if "number 0?" not in json.dumps(body["messages"]):
            return None
        return web.json_response({"error": {"message": "too long", "code": "context_length_exceeded"}}, status=400)

    async with batch_server(at_once_refusal=refusal) as server:
        prepare(tmp_path, server.base_url, 10, turns=lambda n: f"number {n}")
        assert await scored(tmp_path) == 1
        assert outcomes(tmp_path) == ["failed"] + ["scored"] * 9
        assert len(server.batches) == 1


async def test_equal_questions_are_as_many_requests(tmp_path: Path) -> None:
    async with batch_server() as server:
        prepare(tmp_path, server.base_url, 6, turns=lambda _n: "the same")
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 6
        assert sum(server.submitted.values()) == 5


@pytest.mark.parametrize(("status", "answered"), [(500, False), (500, True), (429, False)], ids=str)
async def test_a_submission_of_which_nobody_knows_is_looked_for_first(
    tmp_path: Path, status: int, answered: bool
) -> None:
    """A gateway answers 500, having passed the request on, or not."""
    async with batch_server() as server:
        failures = iter([True])

        async def step(name: str) -> None:
            if answered and name == "after create" and next(failures, False):
                raise web.HTTPInternalServerError

        def refuse(name: str) -> web.Response | None:
            return web.Response(status=status) if not answered and name == "create" and next(failures, False) else None

        server.step, server.refuse = step, refuse
        prepare(tmp_path, server.base_url, 5)
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 5
        assert set(server.submitted.values()) == {1}
        assert len(server.batches) == 1


async def test_an_outage_while_the_batch_is_under_way_costs_time_alone(tmp_path: Path) -> None:
    async with batch_server(looks=2) as server:
        outage = iter([502, 503, 429, 500])
        server.refuse = lambda name: (
            web.Response(status=status) if name in {"look", "content"} and (status := next(outage, None)) else None
        )
        prepare(tmp_path, server.base_url, 5)
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 5
        assert set(server.submitted.values()) == {1}


async def test_a_key_that_was_revoked_ends_the_run_and_loses_nothing(tmp_path: Path) -> None:
    async with batch_server(looks=2) as server:
        revoked = True
        server.refuse = lambda name: web.Response(status=401) if name == "look" and revoked else None
        prepare(tmp_path, server.base_url, 5)
        await scored(tmp_path)
        assert outcomes(tmp_path) == ["failed"] * 4 + ["scored"]
        assert journal(tmp_path).exists(), "the batch is open"
        revoked = False
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path).count("scored") == 5
        assert set(server.submitted.values()) == {1}
        assert not journal(tmp_path).exists()


async def test_a_judge_without_answer_keys_asks_the_same_after_an_interruption(tmp_path: Path) -> None:
    async with batch_server(looks=10_000) as server:
        prepare(tmp_path, server.base_url, 5, answer_key=False)
        run = asyncio.create_task(scored_here(tmp_path))
        while "look" not in server.calls:
            await asyncio.sleep(0.01)
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        server.looks = 1
        assert await scored(tmp_path) == 0
        assert set(server.submitted.values()) == {1}


async def scored_here(folder: Path) -> Any:
    """The same in this event loop, so that it can be cancelled."""
    from collector.commands.score import score as module

    options = ScoreOptions(
        paths=[str(folder / "turns.jsonl")], output=folder / "out.jsonl", batch=True, pace=PACE, json=True
    )
    config = load(folder / "evalstream.yaml")
    turns = list(module.turns_in(options.paths, config))
    return await module._score(config, options, turns, [])


async def test_two_runs_do_not_share_a_journal(tmp_path: Path) -> None:
    async with batch_server(looks=10_000) as server:
        prepare(tmp_path, server.base_url, 3)
        run = asyncio.create_task(scored_here(tmp_path))
        while "look" not in server.calls:
            await asyncio.sleep(0.01)
        with pytest.raises(ConfigError, match="another run works with it"):
            await scored(tmp_path)
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run


async def test_the_journal_is_its_owners_alone(tmp_path: Path) -> None:
    async with batch_server(looks=10_000) as server:
        prepare(tmp_path, server.base_url, 3)
        run = asyncio.create_task(scored_here(tmp_path))
        while "look" not in server.calls:
            await asyncio.sleep(0.01)
        assert journal(tmp_path).stat().st_mode & 0o077 == 0
        assert b"What is" not in journal(tmp_path).read_bytes()
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run


async def test_replay_asks_in_batches_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with batch_server() as server:
        prepare(tmp_path, server.base_url, 8)
        assert await scored(tmp_path, batch=False) == 0
        config = load(tmp_path / "evalstream.yaml")
        judged = (tmp_path / "out.jsonl").read_bytes().splitlines()
        async with open_logs(config.settings.log) as logs:
            await logs.evaluations.append([Record(None, line, partition=0) for line in judged])
        options = ReplayOptions(
            selection=EvaluationFilter(since=None, until=None, monitors=(), evaluators=()),
            paths=[str(tmp_path / "turns.jsonl")],
            output=tmp_path / "again.jsonl",
            batch=True,
            pace=PACE,
        )
        assert await asyncio.to_thread(replay, config, config, options) == 0
        assert (len(server.submitted), set(server.submitted.values())) == (7, {1})
    assert "for roughly 0.0" in capsys.readouterr().err
    costs = sorted(json.loads(line)["cost_usd"] for line in (tmp_path / "again.jsonl").read_text().splitlines())
    assert costs == [pytest.approx(LIST_PRICE / 2, abs=1e-12)] * 7 + [pytest.approx(LIST_PRICE, abs=1e-12)]


async def test_a_cascade_asks_in_one_batch_after_the_other(tmp_path: Path) -> None:
    """The strong judge is asked about what the cheap one has left in doubt, when that is known."""
    async with batch_server() as server:
        prepare(tmp_path, server.base_url, 10)
        config = yaml.safe_load((tmp_path / "evalstream.yaml").read_text())
        config["judges"]["strong"] = config["judges"]["main"] | {"model": "s"}
        config["cascades"] = {"both": {"first": "main", "then": "strong", "share": 1.0}}
        config["evaluators"]["helpful"]["judge"] = "both"
        (tmp_path / "evalstream.yaml").write_text(json.dumps(config))
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 10
        models = [{body["model"] for body in batch.items.values()} for batch in server.batches.values()]
        assert models == [{"m"}, {"s"}]
        assert set(server.submitted.values()) == {1}


async def test_a_pack_is_one_request_whose_price_its_questions_share(tmp_path: Path) -> None:
    async with batch_server() as server:
        prepare(tmp_path, server.base_url, 5)
        config = yaml.safe_load((tmp_path / "evalstream.yaml").read_text())
        config["evaluators"]["kind"] = config["evaluators"]["helpful"] | {"evaluation_steps": ["Say whether it is."]}
        config["monitors"]["all"] = {"evaluators": ["helpful", "kind"], "packs": [["helpful", "kind"]]}
        (tmp_path / "evalstream.yaml").write_text(json.dumps(config))
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 10
        assert (sum(server.submitted.values()), sum(server.at_once.values())) == (4, 1)
    costs = sorted(each["cost_usd"] for each in evaluations(tmp_path))
    assert costs == [pytest.approx(LIST_PRICE / 4, abs=1e-12)] * 8 + [pytest.approx(LIST_PRICE / 2, abs=1e-12)] * 2


async def test_evaluation_steps_are_not_waited_for_in_a_batch(tmp_path: Path) -> None:
    """Of several evaluators, too: what all cases wait for would take a day of its own."""
    async with batch_server() as server:
        prepare(tmp_path, server.base_url, 5)
        config = yaml.safe_load((tmp_path / "evalstream.yaml").read_text())
        fields = {"kind": "g_eval", "evaluation_params": ["input", "actual_output"]}
        config["evaluators"] = {name: fields | {"criteria": f"It is {name}."} for name in ("short", "kind", "right")}
        config["monitors"]["all"] = {"evaluators": ["short", "kind", "right"]}
        (tmp_path / "evalstream.yaml").write_text(json.dumps(config))
        assert await scored(tmp_path) == 0
        assert outcomes(tmp_path) == ["scored"] * 15
        assert sum(server.at_once.values()) == 3 + 1
        assert not any('"steps"' in each for each in server.submitted)


def test_what_evaluations_probably_cost_is_at_the_price_of_batches(tmp_path: Path) -> None:
    prepare(tmp_path, "http://127.0.0.1:9/v1", 1, batch_discount=0.4)
    config = load(tmp_path / "evalstream.yaml")
    assert expected_usd(at_batch_prices(config), "helpful") == pytest.approx(0.6 * expected_usd(config, "helpful"))
