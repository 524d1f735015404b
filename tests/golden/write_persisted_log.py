"""Writes `persisted/log/`: the log that a service leaves when it is killed in the middle of its work.

    PYTHONPATH=tests/golden:tests/e2e .venv/bin/python tests/golden/write_persisted_log.py

It runs the real command with a judge on loopback, sends it traces over OTLP/HTTP, and kills it. What is written again
by a later version is no longer a test of reading what an earlier one wrote: write to another folder then, beside it.
"""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from made_up import SECOND, START, Trace, chat, parts
from service import ServiceProcess, until_ledger
from stand_in_judge import completion

from collector.config.settings import LogSettings
from collector.logs.log import Record
from collector.service.open_logs import open_logs

FOLDER = Path(__file__).parent / "persisted" / "log"
WAITS, REFUSED = "Tell me everything.", "Say what you may not."
"""What the judge never answers about, and what it refuses."""

EVALUATIONS = 30
"""How many are made before the service is killed."""

CONFIGURATION: dict[str, Any] = {
    "log": {"path": "evalstream.db", "retention": "36500d"},
    "assemble": {"idle_timeout": "1s", "allowed_lateness": "2s", "link": {"services": ["nameless"]}},
    "judges": {
        "main": {"model": "judge-1", "usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 2.0},
    },
    "evaluators": {
        "helpful": {
            "kind": "g_eval", "judge": "main", "threshold": 0.5,
            "criteria": "The answer is about what was asked.", "evaluation_params": ["input", "actual_output"],
        },
        "harmless": {"kind": "toxicity", "judge": "main"},
        "complete": {"kind": "completeness", "judge": "main"},
        "short": {"kind": "length", "maximum": 100},
        "right": {"kind": "exact_match"},
    },
    "monitors": {
        "shop": {
            "match": {"service": ["shop", "nameless"]}, "evaluators": ["helpful", "complete", "right"],
            "idle_timeout": "60s", "allowed_lateness": "60s", "end_markers": {"events": ["goodbye"]},
        },
        "paid": {"match": {"service": "paid"}, "evaluators": ["harmless"], "budget": {"usd_per_hour": 1000}},
        "sampled": {"match": {"service": "sampled"}, "evaluators": ["short", "helpful"], "sample": 0.5},
    },
    "evaluate": {"snapshot_after": "3s"},
    "export": {"jsonl": {"path": "scores.jsonl"}},
}  # fmt: skip


class Judge:
    """The stand-in judge behind a counter; what it is asked about `WAITS` it answers only when it is `ready`."""

    def __init__(self, *, ready: bool = True) -> None:
        self.requests: list[str] = []
        self.ready = asyncio.Event()
        if ready:
            self.ready.set()

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.text()
        self.requests.append(body)
        if WAITS in body:
            await self.ready.wait()
        if REFUSED in body:
            return web.json_response({"error": {"message": "no", "code": "content_filter"}}, status=400)
        return web.Response(body=orjson.dumps(completion(orjson.loads(body))), content_type="application/json")


@asynccontextmanager
async def serving(judge: Judge) -> AsyncGenerator[str]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", judge.answer)
    async with TestServer(app, host="127.0.0.1") as server:
        yield str(server.make_url("/v1"))


class Traffic:
    """Traces of one model call each, numbered, that happen when they are sent."""

    def __init__(self, service: ServiceProcess) -> None:
        self._service = service
        self._number = 0

    async def say(self, conversation: str | None, question: str, answer: str, *before: str, **more: Any) -> None:
        """One exchange; `before` is what was said, by user and assistant in turn."""
        self._number += 1
        roles = ("user", "assistant") * len(before)
        named = {"gen_ai.conversation.id": conversation} if conversation else {}
        said = parts(*zip(roles, before, strict=False), ("user", question))
        resource = {"service.name": more.get("service", "shop")}
        ends = [("goodbye", {})] if more.get("ends") else []
        trace = Trace(f"{self._number:032x}", resource=resource).span(
            self._number, "chat", chat(question, answer, **{"gen_ai.input.messages": said}, **named),
            at=time.time() - START / SECOND - 0.5, took=0.5, events=ends,
        )  # fmt: skip
        assert await self._service.post("traces", trace.spans.SerializeToString()) == 200


async def write(folder: Path) -> None:
    judge = Judge(ready=False)
    async with serving(judge) as url:
        configuration = deepcopy(CONFIGURATION)
        configuration["judges"]["main"]["base_url"] = url
        service = ServiceProcess(folder, configuration)
        await service.start()
        try:
            await send(service)
        finally:
            await service.end()


async def send(service: ServiceProcess) -> None:
    traffic = Traffic(service)
    # A conversation that closes, one that is reopened, one that stays open and is carried.
    await traffic.say("closed", "How much is a kayak?", "A kayak is 84 euros.")
    await traffic.say("closed", "And a canoe?", "A canoe is 96 euros.", ends=True)
    await traffic.say("reopened", "When are you open?", "We are open from nine to six.", ends=True)
    await traffic.say("carried", "Where are you?", "We are at the harbour.")
    await traffic.say("refused", REFUSED, "I may not.", ends=True)
    await traffic.say(None, "Do you have lamps?", "Yes, two lamps.", service="nameless")
    await traffic.say("visit-7", "Hello?", "Hello!", service="sampled")
    await traffic.say("visit-0", "Not in the sample?", "No, not in the sample.", service="sampled")
    log = LogSettings.model_validate(service.config["log"] | {"path": str(service.folder / "evalstream.db")})
    async with open_logs(log, linking=True) as logs:
        await logs.spans.append([Record(b"5f" * 16, b"of no signal")])
    await asyncio.sleep(5)
    await traffic.say("reopened", "Also on Sundays?", "On Sundays from ten.", "When are you open?", "From nine.")
    await traffic.say("carried", "Can I park there?", "There is room to park.")
    await asyncio.sleep(7)
    await traffic.say("paid-1", "Is it paid for?", "It is paid for.", service="paid")
    await traffic.say(None, "Red ones?", "One is red.", "Do you have lamps?", "Yes, two lamps.", service="nameless")
    await asyncio.sleep(2)
    # One that is not answered; what comes behind it is done, and only the ledger knows.
    await traffic.say("waiting", WAITS, "That is everything.")
    await traffic.say("open", "Do you rent tents?", "We rent tents, too.")
    await traffic.say("finished", "Any helmets?", "Helmets are for free.", ends=True)
    ledger = await until_ledger(service, EVALUATIONS)
    await asyncio.sleep(2.5)  # until all of it is committed
    again = await service.ledger()
    assert len(again) == len(ledger) == EVALUATIONS, [(each.evaluator, each.subject) for each in again]
    await traffic.say("visit-8", "Not assembled yet?", "No, not assembled yet.", service="sampled")
    await service.kill()


def pack(folder: Path, to: Path) -> None:
    """The file without what is free in it, and the configuration without what is this run's."""
    database = folder / "evalstream.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    to.mkdir(parents=True, exist_ok=True)
    (to / "evalstream.db.gz").write_bytes(gzip.compress(database.read_bytes(), 9, mtime=0))
    (to / "evalstream.yaml").write_text(yaml.safe_dump(CONFIGURATION, sort_keys=False))


def main() -> None:
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(write(folder))
        pack(folder, to)
        with closing(sqlite3.connect(folder / "evalstream.db")) as connection:
            rows = connection.execute("SELECT id >> 57 FROM records").fetchall()
            names = dict(connection.execute("SELECT number, name FROM logs"))
        print({names[number]: count for number, count in Counter(number for (number,) in rows).items()})


if __name__ == "__main__":
    main()
