"""A judge through a client of OpenAI that its user made: addresses and credentials are the client's."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from chat_server import completion, rating
from openai import AsyncAzureOpenAI, AsyncBedrockOpenAI, AsyncOpenAI

from evaluators import OpenAIJudge
from evaluators.errors import JudgeDenied, JudgeUnavailable, NoCompletion
from evaluators.judge import Prompt
from evaluators.scale import Scale
from evaluators.testing import with_answer_key

PROMPT = Prompt("You judge. Answer as JSON.", {"actual_output": "the judged answer"})
REPLY = Scale(0, 10).reply


class Seen:
    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.answer: dict[str, Any] | None = None

    async def take(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        body = await request.json() if request.can_read_body else {}
        if self.answer is not None:
            return web.Response(**self.answer)
        return web.json_response(completion(with_answer_key(body["messages"][-1]["content"], rating(9))))


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Seen, str]]:
    seen = Seen()
    application = web.Application(client_max_size=1 << 24)
    application.router.add_route("*", "/{path:.*}", seen.take)
    async with TestServer(application) as server:
        yield seen, str(server.make_url("/")).rstrip("/")


async def ask(client: AsyncOpenAI, **options: Any) -> Any:
    async with OpenAIJudge("gpt-5-mini", client=client, retries=0, **options) as judge:
        return await judge.ask(PROMPT, REPLY)


async def test_its_organization_project_and_headers() -> None:
    async with serving() as (seen, url):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", organization="org-1", project="proj-1")
        assert (await ask(client, headers={"X-Team": "a"})).reply.score == 9
        assert not client.is_closed(), "it is its user's"
        await client.close()
    headers = seen.requests[0].headers
    assert [headers[name] for name in ("Authorization", "OpenAI-Organization", "OpenAI-Project", "X-Team")] == [
        "Bearer k",
        "org-1",
        "proj-1",
        "a",
    ]


async def test_a_classic_address_of_azure_and_a_token_that_changes() -> None:
    tokens = iter(["first", "second"])
    async with serving() as (seen, url):
        client = AsyncAzureOpenAI(
            azure_endpoint=url, api_version="2024-10-21", azure_ad_token_provider=lambda: next(tokens)
        )
        for _ in range(2):
            assert (await ask(client)).reply.score == 9
        await client.close()
    assert seen.requests[0].path_qs == "/openai/deployments/gpt-5-mini/chat/completions?api-version=2024-10-21"
    assert [request.headers["Authorization"] for request in seen.requests] == ["Bearer first", "Bearer second"]


async def test_bedrock() -> None:
    async with serving() as (seen, url):
        client = AsyncBedrockOpenAI(base_url=f"{url}/openai/v1", api_key="bearer", aws_region="eu-central-1")
        assert (await ask(client)).reply.score == 9
        await client.close()
    assert seen.requests[0].headers["Authorization"] == "Bearer bearer"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    async with serving() as (seen, url):
        seen.answer = {"status": status, "headers": {"Location": f"{url}/elsewhere"}}
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k")
        with pytest.raises(JudgeDenied):
            await ask(client)
        await client.close()
    assert len(seen.requests) == 1


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_its_answers_are_bounded_and_those_to_others_are_not(status: int) -> None:
    async with serving() as (seen, url):
        packed = gzip.compress(b" " * (20 << 20))
        seen.answer = {"status": status, "body": packed, "headers": {"Content-Encoding": "gzip"}}
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
        with pytest.raises(NoCompletion, match="larger than"):
            await ask(client)
        if status == 200:
            seen.answer = {"body": packed, "headers": {"Content-Encoding": "gzip"}}
            assert len((await client.get("/files/1/content", cast_to=httpx2.Response)).content) == 20 << 20
        await client.close()


async def test_credentials_that_cannot_be_fetched_are_an_outage() -> None:
    async def no_token() -> str:
        raise OSError("no identity here")

    async with serving() as (seen, url):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key=no_token)
        with pytest.raises(JudgeUnavailable, match="OSError"):
            await ask(client)
        await client.close()
    assert not seen.requests
