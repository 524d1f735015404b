"""The server of /metrics, /readyz and /healthz in front of several workers.

The status of several workers, joined as if one had reported it.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from collector.admission.http_server import serving
from collector.export.scrape import MOST_CONNECTIONS
from collector.service.workers.worker import Worker
from evaluators.wire.http_client import HttpClient

logger = logging.getLogger(__name__)

_METRICS_WITHIN, _READY_WITHIN = 8.0, 0.8
"""Seconds for an answer: below Prometheus' usual 10 s, and below the second that probes wait. If one worker hangs,
the others' metrics still arrive. One that is known to stand still is not waited for by metrics either.
"""
ASK_EVERY, SILENT_AFTER = 5.0, 10.0
"""Seconds between two questions whether a worker answers, and without an answer until the log says so."""
_LONGEST = 64 * 2**20


@asynccontextmanager
async def serve_joint_metrics(workers: Sequence[Worker], *, host: str, port: int) -> AsyncGenerator[int]:
    """Serve until left; gives the port.

    Raises:
        OSError: the address cannot be bound.
    """
    async with AsyncExitStack() as stack:
        asking = {worker.number: await stack.enter_async_context(_asking(worker)) for worker in workers}
        standing = set[int]()
        application = _application(asking, standing)
        server = serving(
            application, host=host, port=port, max_connections=MOST_CONNECTIONS, idle_timeout=75.0, stop_grace=1.0
        )
        watching = asyncio.create_task(_watch(asking, standing))
        stack.callback(watching.cancel)
        yield await stack.enter_async_context(server)


async def _watch(asking: Mapping[int, HttpClient], standing: set[int]) -> None:
    """Keep the numbers of the workers that stand still; write a line when one does, and when it answers again."""
    silent_since = dict[int, float]()
    while True:
        await asyncio.sleep(ASK_EVERY)
        answers = await asyncio.gather(*(_ask(client, "/healthz", {}, _READY_WITHIN) for client in asking.values()))
        now = time.monotonic()
        for number, (text, _) in zip(asking, answers, strict=True):
            if text is not None:
                silent_since.pop(number, None)
                if number in standing:
                    standing.discard(number)
                    logger.info("worker %d answers again", number)
            elif now - silent_since.setdefault(number, now) >= SILENT_AFTER and number not in standing:
                standing.add(number)
                logger.error(
                    "worker %d has not answered for %.0f s: it stands still", number, now - silent_since[number]
                )


def _asking(worker: Worker) -> HttpClient:
    return HttpClient(timeout=_METRICS_WITHIN, longest=_LONGEST, socket=str(worker.metrics))


def _application(asking: dict[int, HttpClient], standing: set[int]) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        headers = {"Accept": request.headers.get("Accept", "")}
        answers = await asyncio.gather(
            *(
                _ask(client, request.path_qs, headers, _READY_WITHIN if number in standing else _METRICS_WITHIN)
                for number, client in asking.items()
            )
        )
        texts = {number: text for number, (text, _) in zip(asking, answers, strict=True) if text is not None}
        kind = next((kind for text, kind in answers if text is not None), CONTENT_TYPE_LATEST)
        return web.Response(body=join_metrics(texts).encode(), headers={"Content-Type": kind})

    async def ready(_request: web.Request) -> web.Response:
        answers = await asyncio.gather(*(_ask(client, "/readyz", {}, _READY_WITHIN) for client in asking.values()))
        status, body = join_readiness({number: text for number, (text, _) in zip(asking, answers, strict=True)})
        return web.json_response(body, status=status)

    async def alive(_request: web.Request) -> web.Response:
        """The process ends with any of its workers, and each of them notices by itself what holds it."""
        return web.Response(text="ok\n")

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/readyz", ready)
    application.router.add_get("/healthz", alive)
    return application


async def _ask(
    client: HttpClient, path: str, headers: dict[str, str], within: float = _METRICS_WITHIN
) -> tuple[str | None, str]:
    """The text and its content type; None without an answer."""
    try:
        async with asyncio.timeout(within):
            answer = await client.request("GET", f"http://worker{path}", headers=headers)
    except (aiohttp.ClientError, OSError):
        return None, ""
    return answer.content.decode(errors="replace"), answer.headers.get("Content-Type", "")


_END = "# EOF"


@dataclass(slots=True)
class _Family:
    comments: dict[str, None] = field(default_factory=dict[str, None])
    samples: list[str] = field(default_factory=list[str])


def join_metrics(texts: Mapping[int, str]) -> str:
    """The metrics of workers by their numbers, in Prometheus' text format or OpenMetrics, with a label `worker`."""
    families: dict[str, _Family] = {}
    ends = False
    for worker, text in texts.items():
        family = families.setdefault("", _Family())
        for line in text.splitlines():
            if line == _END:
                ends = True
            elif line.startswith("# "):
                family = families.setdefault(line.split(" ", 3)[2], _Family())
                family.comments[line] = None
            elif line:
                family.samples.append(_of_worker(line, worker))
    lines = [line for family in families.values() for line in (*family.comments, *family.samples)]
    return "\n".join([*lines, *([_END] if ends else []), ""])


def _of_worker(sample: str, worker: int) -> str:
    name, space, rest = sample.partition(" ")
    name, brace, labels = name.partition("{")
    if not brace:
        return f'{name}{{worker="{worker}"}}{space}{rest}'
    return f'{name}{{worker="{worker}",{labels}{space}{rest}'


def join_readiness(answers: Mapping[int, str | None]) -> tuple[int, dict[str, Any]]:
    """Status and body of /readyz out of those of workers by their numbers; None for one that did not answer.

    All have to be ready.
    """
    read = {number: _readiness(answer) for number, answer in answers.items()}
    problems = [f"worker {number}: {problem}" for number, body in read.items() for problem in body["problems"]]
    checks = {f"worker {number}: {name}": of for number, body in read.items() for name, of in body["checks"].items()}
    degraded = any(body["status"] == "degraded" for body in read.values())
    status = "not ready" if problems else "degraded" if degraded else "ready"
    return 503 if problems else 200, {"status": status, "problems": problems, "checks": checks}


def _readiness(answer: str | None) -> dict[str, Any]:
    if answer is None:
        return {"status": "not ready", "problems": ["it does not answer"], "checks": {}}
    return cast("dict[str, Any]", json.loads(answer))
