"""OpenAI's batches: a file of requests (`POST /files`), and `POST /batches` over it, found again by its metadata.

Source of the formats: the types of the openai package, `Batch` and `BatchCreateParams`, and its guide on batches.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import orjson

from evaluators.judges.answer_places import mapping
from evaluators.judges.apis.payload import count, objects, text
from evaluators.judges.batches import provider
from evaluators.judges.error_mapping import HttpStatusError, meaning_of

if TYPE_CHECKING:
    from evaluators.judges.batches.batch_connection import BatchConnection

METADATA_KEY = "evalstream"
_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
_MISSING: Mapping[str, provider.Missing] = {"batch_expired": "expired", "batch_cancelled": "cancelled"}
_CLOCKS_DIFFER = 3600.0
"""Seconds by which the provider's clock may be behind ours."""


class OpenAIBatches:
    """Batches of an OpenAI-compatible endpoint, for requests to one of its paths.

    Between the file and the batch of it `confirm` waits until it may still be sent: a large file takes seconds.
    """

    most_items = 5_000
    most_bytes = 90 * 2**20

    def __init__(
        self, connection: BatchConnection, path: str, confirm: Callable[[], Awaitable[None]] = provider.certain
    ) -> None:
        self._connection = connection
        self._confirm = confirm
        self._url = f"/v1{path}"

    async def check(self) -> None:
        """See `BatchProvider.check`."""
        try:
            await self._connection.get("/batches", limit="1")
        except HttpStatusError as error:
            if error.status in provider.ABSENT:
                raise provider.NoBatches(error.status, "/batches") from None
            raise

    async def submit(self, key: str, items: Sequence[provider.BatchItem]) -> str:
        """See `BatchProvider.submit`. A file that no batch was made of costs nothing, and expires at the provider."""
        lines = b"\n".join(
            orjson.dumps({"custom_id": item.name, "method": "POST", "url": self._url, "body": item.body})
            for item in items
        )
        file = await self._connection.upload("/files", f"evalstream-{key}.jsonl", lines, purpose="batch")
        body = {
            "input_file_id": provider.id_in(file),
            "endpoint": self._url,
            "completion_window": "24h",
            "metadata": {METADATA_KEY: key},
        }
        await self._confirm()
        return provider.id_in(await self._connection.post("/batches", orjson.dumps(body)))

    async def submitted(self, key: str, names: Collection[str], since: float, known: Collection[str]) -> str | None:
        """See `BatchProvider.submitted`: the list begins with the newest."""
        del names, known
        after: dict[str, str] = {}
        while True:
            page = await self._connection.get("/batches", limit="100", **after)
            batches = objects(page.get("data"))
            for batch in batches:
                if mapping(batch.get("metadata")).get(METADATA_KEY) == key:
                    return provider.id_in(batch)
            if not page.get("has_more") or not batches or count(batches[-1].get("created_at")) < since - _CLOCKS_DIFFER:
                return None
            after = {"after": provider.id_in(batches[-1])}

    async def state(self, batch: str) -> provider.BatchState:
        """See `BatchProvider.state`."""
        payload = await self._connection.get(f"/batches/{batch}")
        status = provider.short_name(payload.get("status")) or "unknown"
        counts = mapping(payload.get("request_counts"))
        files = (text(payload.get(name)) for name in ("output_file_id", "error_file_id"))
        problems = objects(mapping(payload.get("errors")).get("data"))
        return provider.BatchState(
            status=status,
            ended=status in _ENDED,
            done=count(counts.get("completed")) + count(counts.get("failed")),
            results=tuple(file for file in files if file),
            problem=next((code for problem in problems if (code := provider.short_name(problem.get("code")))), ""),
        )

    async def results(self, state: provider.BatchState) -> AsyncGenerator[provider.BatchResult]:
        """See `BatchProvider.results`: answers and errors are in two files."""
        for file in state.results:
            async with aclosing(self._connection.lines(f"/files/{file}/content")) as lines:
                async for line in lines:
                    yield _result(line)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()


def _result(line: Mapping[str, Any]) -> provider.BatchResult:
    name = text(line.get("custom_id")) or ""
    response = mapping(line.get("response"))
    status = count(response.get("status_code"))
    if not status:
        code = text(mapping(line.get("error")).get("code")) or ""
        return provider.BatchResult(name, None, b"", _MISSING.get(code, "failed"))
    content = orjson.dumps(response.get("body"))
    passes = status >= 300 and meaning_of(HttpStatusError(status, {}, content)) in provider.PASSING
    return provider.BatchResult(name, status, content, "failed" if passes else None)
