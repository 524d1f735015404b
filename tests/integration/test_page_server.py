"""The page's server, asked as browsers and foreign sites ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from shown import WATCHED, Shown, showing

from collector.evaluate.retry.request import RETRY_HEADERS, RetryRequest, parse_request
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import Committed, Record
from collector.logs.memory import MemoryLog
from collector.page import server
from collector.page.server import MOST_CONNECTIONS, MOST_STREAMS, Page, PageLogs
from collector.page.settings import PageSettings
from collector.records.json import evaluation_to_json
from collector.service.tasks import open_tasks
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn
from evaluators.results import Evaluation, Retry


@pytest.fixture
async def shown() -> AsyncIterator[Shown]:
    async with showing() as each:
        turn = await each.put_turn("visit-1", "Are you open?", "No.")
        await each.put(each.judged(turn, 0.2))
        await each.until_listed(1)
        yield each


async def ask(shown: Shown, path: str, method: str = "GET", **options: Any) -> tuple[int, Any, Any]:
    async with aiohttp.ClientSession() as session, session.request(method, shown.url(path), **options) as response:
        body = await response.json() if "json" in response.content_type else await response.text()
        return response.status, body, response.headers


def label_path(shown: Shown) -> str:
    (listed,) = shown.page.view
    return f"api/evaluations/{listed.evaluation.evaluation_id}/labels"


@pytest.mark.parametrize("path", ["", "assets/main.js", "api/overview", "api/nothing"])
async def test_every_answer_has_the_headers_that_keep_text_from_running(shown: Shown, path: str) -> None:
    _, _, headers = await ask(shown, path)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["assets/..%2Fserver.py", "assets/server.py", "assets/", "assets/nothing.js", "server.py"]
)
async def test_only_the_pages_own_files_can_be_asked_for(shown: Shown, path: str) -> None:
    assert (await ask(shown, path))[0] == 404


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1:80", 200), ("localhost", 200), ("[::1]:1", 200), ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("", 403)])  # fmt: skip
async def test_a_name_that_was_pointed_here_is_not_answered(shown: Shown, host: str, status: int) -> None:
    assert (await ask(shown, "api/overview", headers={"Host": host}))[0] == status


async def test_a_name_out_of_the_configuration_is() -> None:
    async with showing(PageSettings(allowed_hosts=["Eval.example"])) as shown:
        assert (await ask(shown, "api/overview", headers={"Host": "eval.example"}))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_only_the_page_itself_can_label(shown: Shown, headers: dict[str, str], status: int) -> None:
    sent = {"Content-Type": "application/json"} | {
        name: value.format(port=shown.port) for name, value in headers.items()
    }
    answer = await ask(shown, label_path(shown), "POST", data=b'{"opinion": "agree"}', headers=sent)
    assert answer[0] == status
    assert len(await shown.labels()) == (status == 201)


def retry_path(judged: Evaluation) -> str:
    return f"api/evaluations/{judged.evaluation_id}/retry"


async def requests_in(shown: Shown) -> list[RetryRequest]:
    return [
        parse_request(record.value)
        for partition in range(2)
        async for batch in shown.turns.read(partition, 0)
        for record in batch
        if record.headers == RETRY_HEADERS
    ]


async def test_a_failure_is_made_again_and_counts_once(shown: Shown) -> None:
    turn = await shown.put_turn("visit-2", "Do you rent boats?", "Yes.")
    failure = shown.judged(turn, None)
    await shown.put(failure)
    await shown.until_listed(2)
    path = f"api/evaluations/{failure.evaluation_id}"
    assert (await ask(shown, path))[1]["retry"] == "owed"
    assert (await ask(shown, retry_path(failure), "POST", json={}))[0] == 202
    assert (await ask(shown, path))[1]["retry"] == "requested"
    (request,) = await requests_in(shown)
    assert (request.failed, request.case) == (failure, turn)
    new = replace(
        shown.judged(turn, 0.9, evaluator=failure.evaluator),
        evaluation_id=request.evaluation_id,
        supersedes=request.supersedes,
        retry=request.retry,
    )
    before = (await ask(shown, "api/overview?range=5m"))[1]
    await shown.put(new)
    await shown.until_listed(3)
    after = (await ask(shown, "api/overview?range=5m"))[1]
    assert failures_of(before) == 1
    assert failures_of(after) == 0
    assert {row["id"] for row in (await ask(shown, "api/evaluations?outcome=failed"))[1]["rows"]} == set()
    assert (await ask(shown, path))[1]["superseded_by"] == new.evaluation_id
    status, body, _ = await ask(shown, retry_path(failure), "POST", json={})
    assert (status, body) == (409, {"error": "it was made again already"})
    status, body, _ = await ask(shown, retry_path(new), "POST", json={})
    assert (status, body) == (409, {"error": "only a failed evaluation can be made again"})


def failures_of(overview: Any) -> int:
    charts = sum(each["whole"]["failed"] for each in overview["tracks"])
    counts = sum(map(failures_in, overview["funnel"]["outcomes"]))
    assert charts == counts
    return charts


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Origin": "http://evil.example"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Content-Type": "text/plain"}, 415)],
)  # fmt: skip
async def test_only_the_page_itself_can_spend_money(shown: Shown, headers: dict[str, str], status: int) -> None:
    failure = shown.judged(await shown.put_turn("visit-2", "Do you rent boats?", "Yes."), None)
    await shown.put(failure)
    await shown.until_listed(2)
    sent = {"Content-Type": "application/json"} | headers
    assert (await ask(shown, retry_path(failure), "POST", data=b"{}", headers=sent))[0] == status
    assert await requests_in(shown) == []


async def test_a_page_that_is_open_to_everybody_spends_no_money() -> None:
    async with showing(PageSettings(host="0.0.0.0", insecure=True)) as shown:
        failure = shown.judged(await shown.put_turn("visit-2", "Do you rent boats?", "Yes."), None)
        await shown.put(failure)
        await shown.until_listed(1)
        status, body, _ = await ask(shown, retry_path(failure), "POST", json={})
        assert (status, body["error"]) == (
            403,
            "making an evaluation again costs money, so it needs a token; write page.auth",
        )
        assert (await ask(shown, f"api/evaluations/{failure.evaluation_id}"))[1]["retry"] == "owed"
        assert await requests_in(shown) == []


async def test_turns_that_are_not_cached_any_more_are_left_to_the_command(shown: Shown) -> None:
    failure = shown.judged(Turn(turn_id="gone", conversation_id="gone", trace_id=f"{9:032x}"), None)
    await shown.put(failure)
    await shown.until_listed(2)
    status, body, _ = await ask(shown, retry_path(failure), "POST", json={})
    assert status == 409
    assert "evalstream rejudge --what failed reads them from the log" in body["error"]


async def test_traces_that_come_to_the_page_are_told_where_to_go(shown: Shown) -> None:
    status, body, _ = await ask(shown, "v1/traces", "POST", json={})
    assert (status, body) == (404, {"error": "this is the page; traces go to receive.otlp_http"})


async def test_labels_that_are_none_and_labels_of_nothing_are_refused_in_a_sentence(shown: Shown) -> None:
    status, body, _ = await ask(shown, label_path(shown), "POST", json={})
    assert (status, body) == (400, {"error": "say agree or disagree, give a score, or write a note"})
    status, body, _ = await ask(shown, f"api/evaluations/{'0' * 32}/labels", "POST", json={"opinion": "agree"})
    assert status == 404
    assert "not on the page" in body["error"]
    status, _, _ = await ask(shown, label_path(shown), "POST", json={"note": "x" * 100_000})
    assert status == 413


async def test_while_the_page_reads_back_the_queue_does_not_say_that_nothing_is_left(shown: Shown) -> None:
    """A program that labels took the first seconds after a start for the end of its work."""
    path = "api/queue?by=ann&evaluator=grounded"
    async with shown.page.stage.open_evaluations(9, Committed(7, 9)):
        status, body, headers = await ask(shown, path)
        assert (status, headers["Retry-After"]) == (503, "5")
        assert "still reads back" in body["error"]
        assert (await ask(shown, "api/evaluations"))[1]["reads_back"], "the list named a part of them as all"
    assert not (await ask(shown, "api/evaluations"))[1]["reads_back"]
    status, body, _ = await ask(shown, path)
    assert (status, body["item"]) == (200, None)


async def test_a_wrong_filter_is_answered_with_a_sentence(shown: Shown) -> None:
    status, body, _ = await ask(shown, "api/evaluations?order=best")
    assert status == 400
    assert body["error"].startswith("order: ")


async def test_the_stream_tells_of_changes_and_ends_with_the_server(shown: Shown) -> None:
    async with aiohttp.ClientSession() as session, session.get(shown.url("api/changes")) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        first = await response.content.readuntil(b"data: ")
        assert b"event: changed" in first
        version = int(await response.content.readline())
        turn = await shown.put_turn("visit-2", "And now?", "Yes.")
        async with asyncio.timeout(60):
            await response.content.readuntil(b"data: ")
            assert int(await response.content.readline()) > version
        assert turn.turn_id in [each.turn_id for each in shown.page.view.turn_cache.turns("visit-2")]


async def test_streams_are_bounded(shown: Shown) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        streams = [await session.get(shown.url("api/changes")) for _ in range(MOST_STREAMS + 1)]
        assert sorted(each.status for each in streams) == [200] * MOST_STREAMS + [503]
        for each in streams:
            each.close()


async def test_a_browser_that_has_gone_is_no_error(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A page that was closed as it loaded wrote a line of level error with places in aiohttp."""
    seen = asyncio.Event()

    def close_the_tab(request: web.Request, _hosts: object) -> None:
        assert request.transport is not None
        request.transport.abort()
        seen.set()

    monkeypatch.setattr(server, "_known_host", close_the_tab)
    for path in ("api/changes", "api/overview", ""):
        seen.clear()
        with pytest.raises(aiohttp.ClientError):
            await ask(shown, path)
        await seen.wait()
    monkeypatch.undo()
    _, writer = await asyncio.open_connection("127.0.0.1", shown.port)
    head = f"POST /{label_path(shown)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 99\r\n\r\n{{".encode())
    await asyncio.sleep(0.2)
    writer.transport.abort()
    await asyncio.sleep(0.2)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_connections_beyond_the_limit_are_refused_and_counted() -> None:
    refused: list[int] = []
    evaluations, labels, turns = (MemoryLog(name, 1) for name in ("evaluations", "labels", "turns"))
    page = Page(PageSettings(port=0), PageLogs(evaluations, labels, turns), on_refused=lambda: refused.append(1))
    async with page.serve() as port:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS)]
        async with asyncio.timeout(60):
            while len(refused) < MOST_CONNECTIONS // 2:
                await asyncio.sleep(0.01)
        for _, writer in opened:
            writer.close()


async def test_a_page_of_a_part_of_the_partitions_says_so(shown: Shown) -> None:
    overview = (await ask(shown, "api/overview"))[1]
    assert overview["part"] is None


async def test_after_a_restart_the_page_is_as_it_was() -> None:
    async with showing() as shown:
        turn = await shown.put_turn("visit-1", "Are you open?", "No.")
        judged = shown.judged(turn, 0.2)
        await shown.put(judged)
        await shown.until_listed(1)
        await ask(shown, label_path(shown), "POST", json={"opinion": "disagree"})
        await asyncio.sleep(0.3)  # a commit
        turns, evaluations, labels = shown.turns, shown.evaluations, shown.given
    again = Page(PageSettings(port=0), PageLogs(evaluations, labels, turns))
    async with open_tasks(Telemetry()) as tasks, asyncio.timeout(60):
        tasks.start("page", partial(again.follow, tasks.start))
        while again.view.get(judged.evaluation_id) is None or again.view.get(judged.evaluation_id).label is None:
            await asyncio.sleep(0.01)
        while not again.view.turn_cache.turns("visit-1"):
            await asyncio.sleep(0.01)


async def test_what_cannot_be_read_in_the_logs_stops_nothing() -> None:
    async with showing() as shown:
        await shown.turns.append([Record(b"x", b"no turn")])
        await shown.evaluations.append([Record(b"x", b"{}")])
        await shown.given.append([Record(b"x", b"{}")])
        turn = await shown.put_turn("visit-1", "Are you open?", "No.")
        await shown.put(shown.judged(turn, 0.2))
        await shown.until_listed(1)


async def figures_of(shown: Shown) -> tuple[Any, Any]:
    """All that the page shows, but for the time at which it was asked."""
    _, overview, _ = await ask(shown, "api/overview?range=24h")
    _, listed, _ = await ask(shown, "api/evaluations?range=24h&limit=500")
    figures = {name: value for name, value in overview.items() if name not in {"now", "version"}}
    return figures, sorted(listed["rows"], key=lambda row: row["id"])


async def put_beside(shown: Shown, *evaluations: Evaluation) -> None:
    """As the ledger does: all evaluations of a conversation are in one partition."""
    keyed = [(judged.subject.conversation_id.encode(), evaluation_to_json(judged)) for judged in evaluations]
    await shown.evaluations.append([Record(*record) for record in keyed])


async def test_partitions_that_leave_and_return_change_no_figure() -> None:
    """The funnel said 620 for 340 evaluations after another page had had half of the partitions for a while."""
    timing = ConsumerTiming(commit_interval=0.1)
    logs = PageLogs(*(MemoryLog(name, 2, timing=timing) for name in ("evaluations", "labels", "turns", "history")))
    page = Page(PageSettings(port=0), logs, WATCHED)
    page.view.started -= 60
    async with page.serve() as port:
        shown = Shown(page, logs.turns, logs.evaluations, logs.labels, port)
        async with open_tasks(Telemetry()) as tasks:
            tasks.start("page", partial(page.follow, tasks.start))
            turns = [await shown.put_turn(f"visit-{number}", "Are you open?", "No.") for number in range(8)]
            judged = [shown.judged(turn, number / 8) for number, turn in enumerate(turns)]
            failures = [shown.judged(turn, None, evaluator="grounded") for turn in turns]
            await put_beside(shown, *judged, *failures)
            for failure, turn, happened_at in zip(
                failures, turns[:4], [None, None, *[judged[0].ended_at] * 2], strict=False
            ):
                again = {
                    "supersedes": (failure.evaluation_id,),
                    "retry": Retry(attempt=2, reason="judge_timeout"),
                    "happened_at": happened_at,
                }
                await put_beside(shown, shown.judged(turn, 0.9, evaluator="grounded", **again))
            await shown.until_listed(20)
            path = f"api/evaluations/{judged[0].evaluation_id}/labels"
            assert (await ask(shown, path, "POST", json={"opinion": "disagree"}))[0] == 201
            await asyncio.sleep(0.3)  # a commit
            before = await figures_of(shown)
        assert [(outcomes["scored"], failures_in(outcomes)) for outcomes in before[0]["funnel"]["outcomes"]] == [
            (8, 0), (4, 4),
        ]  # fmt: skip
        async with open_tasks(Telemetry()) as tasks:
            tasks.start("page", partial(page.follow, tasks.start))
            await asyncio.sleep(0.5)
            await shown.until_listed(20)
            assert await figures_of(shown) == before


def failures_in(outcomes: Any) -> int:
    return sum(row[-1] for row in outcomes["others"])
