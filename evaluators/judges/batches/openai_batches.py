"""OpenAI's batches by its official client: a file of requests, and a batch made of it, which is found again by its
metadata. The raw answers are read by evalstream's own reader. The module is imported only if there are batches, as the
client takes most of a second to import. Source of the formats: the client's types `Batch` and `BatchCreateParams`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any

import orjson
from openai import AsyncAzureOpenAI, AsyncOpenAI

from evaluators.judges.answer_places import mapping
from evaluators.judges.apis.payload import count, objects, parsed, text
from evaluators.judges.batches import provider
from evaluators.judges.batches.batch_connection import DEADLINE, SILENCE, json_lines
from evaluators.judges.batches.results import BatchResult, BatchState, Missing, answered
from evaluators.judges.client_connection import STREAMED, WHOLE, as_judge_errors, bound_answers, streamed

METADATA_KEY = "evalstream"
_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
_MISSING: Mapping[str, Missing] = {"batch_expired": "expired", "batch_cancelled": "cancelled"}


@dataclass(eq=False, repr=False)
class OpenAIBatches:
    """Batches of an OpenAI-compatible endpoint, for requests to one of its paths.

    After the file was sent, `confirm` is asked again before the batch is made: a large file takes seconds. `headers` is
    called before each request.
    """

    client: InitVar[AsyncOpenAI]
    path: InitVar[str]
    confirm: Callable[[], Awaitable[None]] = provider.certain
    headers: Callable[[], Mapping[str, str]] = dict

    def __post_init__(self, client: AsyncOpenAI, path: str) -> None:
        self._client = bound_answers(client).with_options(max_retries=0)  # a retry might submit a batch twice
        # Azure's classic addresses have no version in their paths
        self._url = path if isinstance(client, AsyncAzureOpenAI) else f"/v1{path}"

    async def check(self) -> None:
        """See `BatchProvider.check`."""
        looked = partial(self._answer, self._client.with_raw_response.batches.list, limit=1)
        await provider.unless_absent(looked, "/batches")

    async def submit(self, key: str, items: Sequence[provider.BatchItem]) -> str:
        """See `BatchProvider.submit`. A file without a batch costs nothing, and expires at the provider."""
        lines = b"\n".join(
            orjson.dumps({"custom_id": item.name, "method": "POST", "url": self._url, "body": item.body})
            for item in items
        )
        named = (f"evalstream-{key}.jsonl", lines, "application/jsonl")
        file = await self._answer(self._client.with_raw_response.files.create, file=named, purpose="batch")
        await self.confirm()
        batch = await self._answer(
            self._client.with_raw_response.batches.create,
            input_file_id=provider.id_in(file),
            endpoint=self._url,
            completion_window="24h",
            metadata={METADATA_KEY: key},
        )
        return provider.id_in(batch)

    async def find_batch(self, key: str, names: Collection[str], since: float, known: Collection[str]) -> str | None:
        """See `BatchProvider.find_batch`: the list begins with the newest."""
        after: dict[str, str] = {}
        while True:
            page = await self._answer(self._client.with_raw_response.batches.list, limit=100, **after)
            batches = objects(page.get("data"))
            for batch in batches:
                if mapping(batch.get("metadata")).get(METADATA_KEY) == key:
                    return provider.id_in(batch)
            if not page.get("has_more") or not batches:
                return None
            if count(batches[-1].get("created_at")) < since - provider.CLOCKS_DIFFER:
                return None
            after = {"after": provider.id_in(batches[-1])}

    async def state(self, batch: str) -> BatchState:
        """See `BatchProvider.state`."""
        payload = await self._answer(self._client.with_raw_response.batches.retrieve, batch)
        status = provider.short_name(payload.get("status")) or "unknown"
        counts = mapping(payload.get("request_counts"))
        files = (provider.short_name(payload.get(name)) for name in ("output_file_id", "error_file_id"))
        problems = objects(mapping(payload.get("errors")).get("data"))
        return BatchState(
            status=status,
            ended=status in _ENDED,
            done=count(counts.get("completed")) + count(counts.get("failed")),
            results=tuple(file for file in files if file),
            problem=next((code for problem in problems if (code := provider.short_name(problem.get("code")))), ""),
        )

    async def results(self, state: BatchState) -> AsyncGenerator[BatchResult]:
        """See `BatchProvider.results`: answers and errors are in two files."""
        for file in state.results:
            headers = {**self.headers(), **STREAMED}
            content = self._client.with_streaming_response.files.content(file, extra_headers=headers, timeout=SILENCE)
            with as_judge_errors():
                async with content as response, aclosing(json_lines(streamed(response.http_response))) as lines:
                    async for line in lines:
                        yield _result(line)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _answer(self, call: Callable[..., Awaitable[Any]], *arguments: str, **named: Any) -> dict[str, Any]:
        """The object in the answer to a call of the client."""
        headers = {**self.headers(), **WHOLE}
        with as_judge_errors():
            async with asyncio.timeout(DEADLINE):
                response = await call(*arguments, **named, extra_headers=headers, timeout=SILENCE)
        return mapping(parsed(response.http_response.content))


def _result(line: Mapping[str, Any]) -> BatchResult:
    name = text(line.get("custom_id")) or ""
    response = mapping(line.get("response"))
    status = count(response.get("status_code"))
    if not status:
        code = text(mapping(line.get("error")).get("code")) or ""
        return BatchResult(name, None, b"", _MISSING.get(code, "failed"))
    return answered(name, status, orjson.dumps(response.get("body")))
