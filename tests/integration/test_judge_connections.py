"""What goes over a judge's connections, whatever its size: a warning of the HTTP library would be an error here."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from collector.config.settings import JudgeSettings
from collector.judging.open_judges import client_factory
from evaluators.errors import JudgeUnavailable
from evaluators.judges.batches.batch_connection import BatchConnection
from evaluators.judges.batches.openai_batches import OpenAIBatches
from evaluators.judges.batches.provider import BatchItem
from evaluators.judges.batches.results import BatchState
from evaluators.judges.connection import Connection
from evaluators.judges.error_mapping import HttpStatusError

SIZES = (0, 10, 1 << 20, (1 << 20) + 1, 5_000_000)


async def count(request: web.Request) -> web.Response:
    """How many bytes came, and with which headers."""
    return web.json_response({"bytes": len(await request.read()), "headers": dict(request.headers)})


async def take(request: web.Request) -> web.Response:
    """The fields of a form, and the size of its file."""
    form = await request.post()
    file = form["file"]
    assert isinstance(file, web.FileField)
    line = orjson.loads(file.file.read())
    assert (file.filename, file.content_type, form["purpose"]) == ("evalstream-a.jsonl", "application/jsonl", "batch")
    return web.json_response({"id": f"file-{len(line['body']['text'])}"})


async def create(request: web.Request) -> web.Response:
    return web.json_response({"id": f"of_{(await request.json())['input_file_id']}"})


async def elsewhere(_request: web.Request) -> web.Response:
    raise web.HTTPTemporaryRedirect("/v1/count")


async def give(_request: web.Request) -> web.Response:
    return web.Response(body=b'{"a": 1}\n\n {"a": 2}\n{"a": 3}')


@pytest.fixture
async def url() -> AsyncGenerator[str]:
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/v1/count", count)
    app.router.add_post("/v1/files", take)
    app.router.add_post("/v1/batches", create)
    app.router.add_get("/v1/batches", elsewhere)
    app.router.add_get("/v1/files/lines/content", give)
    app.router.add_post("/v1/elsewhere", elsewhere)
    app.router.add_get("/v1/lines", give)
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/v1"


@pytest.mark.parametrize("size", SIZES)
async def test_requests_of_any_size(url: str, size: int) -> None:
    connection = Connection(url, "/count", {"X-Team": "chat"}, fresh_headers=lambda: {"x-team": "new", "b": "c"})
    try:
        response = await connection.post(b"x" * size)
    finally:
        await connection.aclose()
    assert response.is_success
    assert f'"bytes": {size}'.encode() in response.content
    assert b'"x-team": "new"' in response.content, "one header, the freshest"
    assert response.content.lower().count(b'"x-team"') == 1


@pytest.mark.parametrize("size", SIZES)
async def test_batches_of_any_size(url: str, size: int) -> None:
    connection = BatchConnection(url, {"Authorization": "Bearer key"})
    try:
        posted = await connection.post("/count", b"x" * size)
    finally:
        await connection.aclose()
    assert posted["bytes"] == size
    assert posted["headers"]["Authorization"] == "Bearer key"


async def test_lines_come_one_by_one(url: str) -> None:
    connection = BatchConnection(url, {})
    try:
        assert [line async for line in connection.lines("/lines")] == [{"a": 1}, {"a": 2}, {"a": 3}]
        with pytest.raises(HttpStatusError):
            _ = [line async for line in connection.lines("/nothing")]
    finally:
        await connection.aclose()


@pytest.fixture
async def batches(url: str) -> AsyncGenerator[OpenAIBatches]:
    """The batches of a judge as its configuration makes them."""
    client = client_factory("main", JudgeSettings(model="m", base_url=url), None)()
    batches = OpenAIBatches(client, "/chat/completions", headers=lambda: {"X-Team": "new"})
    try:
        yield batches
    finally:
        await batches.aclose()


@pytest.mark.parametrize("size", SIZES)
async def test_files_of_any_size(batches: OpenAIBatches, size: int) -> None:
    assert await batches.submit("a", [BatchItem("one", {"text": "x" * size})]) == f"of_file-{size}"


async def test_the_clients_answers_are_read_line_by_line_and_nobody_is_followed(batches: OpenAIBatches) -> None:
    ended = BatchState(status="completed", ended=True, results=("lines",))
    assert [result.missing async for result in batches.results(ended)] == ["failed"] * 3
    with pytest.raises(HttpStatusError, match="404"):
        _ = [result async for result in batches.results(replace(ended, results=("nothing",)))]
    with pytest.raises(HttpStatusError, match="307"):
        await batches.check()


async def test_nobody_is_followed_elsewhere(url: str) -> None:
    """A redirect would carry the key and the judged text to where nobody configured them to go."""
    connection, batches = Connection(url, "/elsewhere", {}), BatchConnection(url, {})
    try:
        assert (await connection.post(b"{}")).status_code == 307
        with pytest.raises(HttpStatusError):
            await batches.post("/elsewhere", b"{}")
    finally:
        await connection.aclose()
        await batches.aclose()


async def test_a_proxy_of_another_kind_is_said(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    sentence = r"a proxy of the kind socks5.*`proxy`, or .* NO_PROXY"
    with pytest.raises(JudgeUnavailable, match=sentence):
        Connection(url, "/count", {})
    batches = BatchConnection(url, {})
    with pytest.raises(JudgeUnavailable, match=sentence):
        await batches.get("/count")
