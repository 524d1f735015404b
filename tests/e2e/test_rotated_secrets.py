"""Keys in files are used as they are now: a running process continues when they rotate, with nothing restarted."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from made_up import Trace
from service import service
from stand_in_judge import serve_judge

from collector.config.loading import check
from collector.errors import ConfigError
from collector.judging.open_judges import open_judges
from evaluators.secret_files import SecretFiles


class Gate:
    """A gateway that lets in who shows the keys of now, before the stand-in judge; and an OTLP endpoint."""

    def __init__(self, judge: str) -> None:
        self.keys = {"Authorization": "Bearer first", "x-team": "first"}
        self.seen: Counter[tuple[str, int]] = Counter()
        self._judge = judge

    async def handle(self, request: web.Request) -> web.Response:
        otlp = request.path in ("/v1/logs", "/v1/traces")
        names = ("x-team",) if otlp else ("Authorization", "x-team")
        right = all(request.headers.get(name) == self.keys[name] for name in names)
        self.seen["otlp" if otlp else "judge", 200 if right else 401] += 1
        if not right:
            return web.Response(status=401)
        if otlp:
            return web.Response(body=b"", content_type="application/x-protobuf")
        headers = {"Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._judge}/chat/completions", data=await request.read(), headers=headers) as answer,
        ):
            return web.Response(body=await answer.read(), status=answer.status, content_type="application/json")

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_post("/{path:.*}", self.handle)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


def replaced(path: Path, text: str) -> None:
    """As what mounts secrets does it: another file under the same name."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


async def until(condition, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.1)


@pytest.mark.long
async def test_a_running_service_takes_rotated_keys(tmp_path: Path) -> None:
    key, team = tmp_path / "key", tmp_path / "team"
    key.write_text("first\n")
    team.write_text("first\n")
    async with serve_judge() as url:
        gate = Gate(url)
        async with gate.served() as gateway:
            breaker = {"first_wait": "100ms", "longest_wait": "300ms"}
            config = {
                "log": {"path": "logs.db"},
                "assemble": {"idle_timeout": 0.2},
                "judges": {
                    "main": {
                        "model": "m", "base_url": f"{gateway}/v1", "api_key_file": str(key), "breaker": breaker,
                        "header_files": {"x-team": str(team)},
                    }
                },
                "evaluators": {"helpful": {"kind": "g_eval", "judge": "main", "evaluation_params": ["input"], "evaluation_steps": ["Look."]}},
                "monitors": {"all": {"evaluators": ["helpful"]}},
                "export": {"otlp": {"endpoint": gateway, "header_files": {"x-team": str(team)}}},
            }  # fmt: skip
            async with service(tmp_path, config) as process:
                await send(process, 1)
                await until(lambda: gate.seen["judge", 200] >= 1 and gate.seen["otlp", 200] >= 2)
                gate.keys = {"Authorization": "Bearer second", "x-team": "second"}
                await send(process, 2)
                await until(lambda: "refuses every request" in process.stderr.read_text())
                replaced(key, "wrong-as-well\n")
                await until(lambda: "also with the new key" in process.stderr.read_text())
                refused = gate.seen["judge", 401]
                await until(lambda: gate.seen["judge", 401] >= refused + 3)
                before = gate.seen.copy()
                replaced(key, "second\n")
                replaced(team, "second\n")
                await until(lambda: gate.seen["judge", 200] > before["judge", 200])
                await until(lambda: gate.seen["otlp", 200] >= before["otlp", 200] + 2)
                text = process.stderr.read_text()
                ledger = await process.ledger()
    assert [each.outcome for each in ledger] == ["scored", "scored"]
    refusals = re.findall(r"judge main at \S+ (refuses every request.*?) \(", text)
    assert refusals == ["refuses every request", "refuses every request, also with the new key"], text
    assert "wrong-as-well" not in text
    assert "first" not in text.replace("first_", "").replace("first time", "")
    assert "second\\n" not in text


async def send(process, number: int) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"What?"}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"That."}]}]',
    }
    trace = Trace(f"{number:032x}", start=time.time_ns()).span(1, "chat", attributes)
    assert await process.post("traces", trace.spans.SerializeToString()) == 200


def test_a_file_in_the_middle_of_being_replaced_leaves_the_key_of_before(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "key"
    path.write_text("first\n")
    files = SecretFiles({"key": path}, lambda: now[0])
    path.write_text("")
    os.utime(path, (1, 1))
    now[0] += 2
    assert files.texts() == {"key": "first"}
    path.unlink()
    now[0] += 2
    assert files.texts() == {"key": "first"}
    path.write_text("second")
    assert files.texts() == {"key": "first"}, "looked at once a second"
    now[0] += 2
    assert files.texts() == {"key": "second"}


def test_a_replaced_key_that_is_none_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The key of before was sent on, was refused on, and nothing said that the new one is two lines."""
    now = [0.0]
    path = tmp_path / "key"
    path.write_text("first\n")
    files = SecretFiles({"key": path}, lambda: now[0])

    def look(times: int) -> list[str]:
        caplog.clear()
        for _ in range(times):
            now[0] += 1
            files.texts()
        return caplog.messages

    before = "its content of before is used until that is mended"
    replaced(path, "sec\nret\n")
    assert look(2) == [], "it may be in the middle of being replaced"
    assert look(9) == [f"{path} holds no key: one line of printable ASCII is needed; {before}"]
    replaced(path, "second\n")
    assert look(1) == []
    assert files.texts() == {"key": "second"}
    path.unlink()
    assert look(9) == [f"{path} cannot be read; {before}"]


@pytest.mark.parametrize(("content", "problem"), [(None, "cannot be read (No such file or directory)"), (b"", "holds no key"), ("schlüssel".encode(), "holds no key")], ids=["missing", "empty", "not ascii"])  # fmt: skip
async def test_a_wrong_file_is_said_at_the_start(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    values = {
        "judges": {"main": {"model": "m", "api_key_file": str(path)}},
        "evaluators": {"helpful": {"kind": "answer_relevancy", "judge": "main"}},
        "monitors": {"all": {"evaluators": ["helpful"]}},
    }
    with pytest.raises(ConfigError, match=r"judges\.main: ") as raised:
        async with open_judges(check(values, "test"), None):
            pass
    assert f"{path} {problem}" in str(raised.value)


def test_one_key_only() -> None:
    values = {"judges": {"main": {"model": "m", "api_key": "k", "api_key_file": "/run/key"}}}
    with pytest.raises(ConfigError, match="api_key_file: api_key is there, too; keep one of them"):
        check(values, "test")
