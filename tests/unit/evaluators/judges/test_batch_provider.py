"""What a provider sends that is shown to people, or put into an address; and in which order it is sent something."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from openai import AsyncOpenAI

from evaluators.errors import NoCompletion
from evaluators.judges.batches.openai_batches import OpenAIBatches
from evaluators.judges.batches.provider import BatchItem, id_in, short_name


@pytest.mark.parametrize("name", ["batch_68a1", "file-2", "token_limit_exceeded", "msgbatch_01.a"])
def test_short_names(name: str) -> None:
    assert short_name(name) == name
    assert id_in({"id": name}) == name


@pytest.mark.parametrize("value", ["", None, 7, "a b", "../files", "\x1b[2J", "x" * 129, "naïve"], ids=repr)
def test_anything_else_is_none(value: object) -> None:
    assert short_name(value) == ""
    with pytest.raises(NoCompletion):
        id_in({"id": value})


async def test_no_batch_is_made_of_a_file_whose_sender_has_lost_its_partition_meanwhile() -> None:
    """It stood still while it sent the file: whoever owns the partition now sends the same."""
    paths: list[str] = []
    asked, owns = asyncio.Event(), asyncio.Event()

    def respond(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.path)
        return httpx2.Response(200, json={"id": "of_it"})

    async def confirm() -> None:
        asked.set()
        await owns.wait()

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(respond))
    async with AsyncOpenAI(base_url="http://it/v1", api_key="k", http_client=http) as client:
        batches = OpenAIBatches(client, "/chat/completions", confirm)
        submitting = asyncio.create_task(batches.submit("key", [BatchItem("a", {})]))
        await asked.wait()
        assert paths == ["/v1/files"]
        owns.set()
        assert await submitting == "of_it"
    assert paths == ["/v1/files", "/v1/batches"]
