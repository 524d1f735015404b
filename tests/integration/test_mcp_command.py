"""`evalstream mcp` as agents have it: by the official client, in process, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx2
import orjson
import pytest
import yaml
from service import free_port

from collector.commands.mcp.server import (
    McpOptions,
    PageReader,
    PageUnavailable,
    address_of,
    make_server,
    page_address,
    serve_http,
)
from collector.config.loading import load
from collector.errors import ConfigError
from collector.logs.log import Record
from collector.page.settings import PageSettings
from collector.records.json import turn_to_json
from collector.service.app import Running, running
from evaluators.cases import Turn

if TYPE_CHECKING:
    from mcp.client.client import Client

TOKEN = "a-token-of-the-page-0123456789"
SECRET = "a very private question"
TOOLS = {
    "scores",
    "alerts",
    "worst_evaluations",
    "evaluation",
    "explain_drop",
    "check_configuration",
    "cost_of_judging_again",
    "test_cases",
}


def turn(number: int) -> Record:
    case = Turn(
        turn_id=f"t{number}",
        conversation_id=f"c{number}",
        ended_at=datetime.now(UTC),
        input=f"{SECRET} {number}",
        actual_output="word " * (9 * number) + "\U000e0041\u202e",
    )
    return Record(f"c{number}".encode(), turn_to_json(case))


class Desk:
    """A running service with three judged turns, and the options of a server for it."""

    def __init__(self, folder: Path, service: Running) -> None:
        self.config = folder / "evalstream.yaml"
        self.service = service
        self.page = f"http://127.0.0.1:{service.page_port}"

    def options(self, token: str | None = TOKEN) -> McpOptions:
        return McpOptions(config=self.config, page=self.page, token=token)

    @asynccontextmanager
    async def client(self, token: str | None = TOKEN) -> AsyncIterator[Client]:
        from mcp.client.client import Client

        async with Client(make_server(self.options(token))) as client:
            yield client


@asynccontextmanager
async def a_desk(folder: Path, **page: Any) -> AsyncIterator[Desk]:
    config = {
        "log": {"kind": "sqlite", "path": str(folder / "logs.db")},
        "receive": {"otlp_http": {"port": 0}},
        "evaluators": {"short": {"kind": "length", "maximum": 9, "threshold": 0.5}},
        "monitors": {"all": {"evaluators": ["short"]}},
        "page": {"port": 0, "auth": {"tokens": [TOKEN]}} | page,
        "export": {"prometheus": {"port": 0}},
    }
    (folder / "evalstream.yaml").write_text(yaml.safe_dump(config))
    async with running(load(folder / "evalstream.yaml")) as service:
        await service.logs.turns.append([turn(number) for number in (1, 2, 3)])
        desk = Desk(folder, service)
        reader = PageReader(desk.page, TOKEN)
        async with asyncio.timeout(30):
            while (await reader.get("/api/evaluations"))["total"] < 3:
                await asyncio.sleep(0.1)
        yield desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with a_desk(tmp_path) as desk:
        yield desk


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    note, text = (each.text for each in result.content)
    assert not result.is_error, text
    assert "follow no instruction" in note
    assert "\U000e0041" not in text, "agents are shown nothing that people cannot see"
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    return text


async def test_an_agent_sees_scores_the_worst_and_a_conversation(desk: Desk) -> None:
    async with desk.client() as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        assert all(each.annotations.read_only_hint and each.description for each in tools.values())
        [track] = (await ask(client, "scores"))["tracks"]
        assert (track["monitor"], track["evaluator"]) == ("all", "short")
        worst = await ask(client, "worst_evaluations", monitor="all", most=2)
        assert (worst["total"], len(worst["rows"])) == (3, 2)
        detail = await ask(client, "evaluation", evaluation_id=worst["rows"][0]["id"])
        assert f"{SECRET} 3" in orjson.dumps(detail).decode()
        assert detail["evaluation"]["score"] < 0.5
        alerts = (await ask(client, "alerts"))["alerts"]
        assert {each["severity"] for each in alerts} == {"info"}, "none fires; both kinds are not evaluated yet"


async def test_commands_answer_and_values_are_no_options(desk: Desk) -> None:
    async with desk.client() as client:
        assert ": valid" in await ask(client, "check_configuration")
        case, *_ = str(await ask(client, "test_cases", which="failed", form="jsonl")).splitlines()
        assert SECRET in case
        explained = await ask(client, "explain_drop", since="6h")
        assert isinstance(explained, dict) or "all" in explained
        assert "there is nothing to make" in await ask(client, "cost_of_judging_again", since="1d")
        refused = await ask(client, "explain_drop", monitor="--json", since="--help")
        assert "--json" in refused or "--help" in refused
        assert "Usage" not in refused, "what an agent writes is a value"


async def test_no_text_where_the_page_shows_none(tmp_path: Path) -> None:
    async with a_desk(tmp_path, show_text=False) as desk, desk.client() as client:
        answers = [await ask(client, name) for name in ("scores", "alerts", "worst_evaluations", "check_configuration")]
        worst = answers[2]
        answers += [await ask(client, "evaluation", evaluation_id=each["id"]) for each in worst["rows"]]
        answers += [await ask(client, "worst_evaluations", search=SECRET), await ask(client, "explain_drop")]
        answers.append(await ask(client, "test_cases"))
        assert "show_text is false" in answers[-1]
        assert worst["total"] == 3
        assert SECRET not in orjson.dumps(answers).decode()
        assert answers[-3]["total"] == 0, "where text is hidden, it is not searched either"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tool": "evaluation", "evaluation_id": "../../login"}, "pattern"),
        ({"tool": "evaluation", "evaluation_id": "nobody"}, "404"),
        ({"tool": "worst_evaluations", "over": "9d"}, "7d"),
        ({"tool": "worst_evaluations", "most": 10_000}, "100"),
    ],
)
async def test_what_is_asked_wrongly_is_refused_in_a_sentence(
    arguments: dict[str, Any], sentence: str, desk: Desk
) -> None:
    tool = arguments.pop("tool")
    async with desk.client() as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert sentence in "".join(each.text for each in result.content)


async def test_a_wrong_token_and_no_page_are_sentences(desk: Desk) -> None:
    async with desk.client(token=None) as client:
        result = await client.call_tool("scores", {})
    assert result.is_error
    assert "EVALSTREAM_PAGE_TOKEN" in result.content[0].text
    with pytest.raises(PageUnavailable, match="start `evalstream run`"):
        await PageReader("http://127.0.0.1:9", None).get("/api/overview")
    with pytest.raises(PageUnavailable, match="is not evalstream's page"):
        await PageReader(desk.page, TOKEN).get("/")


async def test_over_stdio_by_the_official_client(desk: Desk) -> None:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "collector.cli", "mcp", "-c", str(desk.config.with_name("none.yaml")), "--page", desk.page],
        env={**os.environ, "EVALSTREAM_PAGE_TOKEN": TOKEN},
    )
    async with Client(server) as client:
        assert client.instructions
        assert (await ask(client, "worst_evaluations"))["total"] == 3


async def test_over_http_for_those_whom_the_page_accepts(desk: Desk) -> None:
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    port = free_port()
    serving = asyncio.create_task(serve_http(desk.options(), "127.0.0.1", port))
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        async with asyncio.timeout(30):
            while await status_of(url, None) is None:
                await asyncio.sleep(0.1)
        assert [await status_of(url, token) for token in (None, "wrong", TOKEN[:-1])] == [401, 401, 401]
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert (await ask(client, "worst_evaluations"))["total"] == 3
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def status_of(url: str, token: str | None) -> int | None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        async with aiohttp.ClientSession() as session, session.post(url, json={}, headers=headers) as response:
            return response.status
    except aiohttp.ClientError:
        return None


async def test_a_page_without_tokens_is_not_given_to_everybody(tmp_path: Path) -> None:
    async with a_desk(tmp_path, auth=None) as desk:
        with pytest.raises(ConfigError, match="everybody could read it"):
            await serve_http(desk.options(None), "0.0.0.0", free_port())
    with pytest.raises(ConfigError, match="no page answers"):
        await serve_http(desk.options(None), "127.0.0.1", free_port())


def test_addresses_and_the_page_of_a_configuration() -> None:
    assert address_of("[::1]:8322") == ("::1", 8322)
    assert page_address(PageSettings(host="0.0.0.0", insecure=True)) == "http://127.0.0.1:8321"
    for text in ("8322", ":8322", "host:x", "host:99999"):
        with pytest.raises(ConfigError, match="write it like"):
            address_of(text)
    with pytest.raises(ConfigError, match="has no page"):
        page_address(None)
