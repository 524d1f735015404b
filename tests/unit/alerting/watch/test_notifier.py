"""Posts of alerts: none follows a redirect, and a page is no acceptance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import orjson
import pytest
from aiohttp import web

from collector.alerting.watch.notifier import AlertInstance, Notifier
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import WATCH_NOTIFICATIONS
from evaluators.wire.http_client import HttpClient

ALERT = AlertInstance({"alertname": "EvalstreamScoreDropped"}, {"summary": "it fell"})


@asynccontextmanager
async def posted_to(**answer: Any) -> AsyncIterator[tuple[Notifier, list[str]]]:
    """A notifier whose posts get an answer, and the paths that were asked."""
    paths: list[str] = []

    async def take(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(**answer)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", take)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with HttpClient(timeout=5) as client:
        yield Notifier(client, Telemetry(), 15.0, address, f"{address}/hook"), paths
    await runner.cleanup()


async def test_an_alert_starts_when_its_mean_fell_and_not_when_a_process_saw_it() -> None:
    """Each restart of the watcher posted the same alert with a later `startsAt`."""
    starts: list[str] = []

    class Receiver:
        async def request(self, _method: str, _url: str, *, data: bytes, headers: dict[str, str]) -> None:
            del headers
            starts.extend(alert["startsAt"] for alert in orjson.loads(data)["alerts"])
            raise OSError("nobody listens")

    for seen in (1000.0, 2000.0):
        notifier = Notifier(cast("HttpClient", Receiver()), Telemetry(), 15.0, webhook="http://hook.example")
        await notifier.notify([replace(ALERT, since=600.0)], seen)
    assert starts == ["1970-01-01T00:10:00.000Z"] * 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    async with posted_to(status=status, headers={"Location": "/elsewhere"}) as (notifier, paths):
        await notifier.notify([ALERT], 1000.0)
    assert paths == ["/api/v2/alerts", "/hook"]
    assert notifier.telemetry.counter(WATCH_NOTIFICATIONS, "failed")._value.get() == 2


@pytest.mark.parametrize(
    ("text", "kind", "outcome"),
    [
        ("<html>Log in</html>", "text/html", "failed"),
        ('{"status": "error", "error": "bad_data"}', "application/json", "failed"),
        ("ok", "text/html", "ok"),
        ("", "text/plain", "ok"),
        ('{"status": "success"}', "application/json", "ok"),
    ],
)
async def test_a_page_is_no_acceptance(text: str, kind: str, outcome: str) -> None:
    async with posted_to(text=text, content_type=kind) as (notifier, _):
        await notifier.notify([ALERT], 1000.0)
    assert notifier.telemetry.counter(WATCH_NOTIFICATIONS, outcome)._value.get() == 2
