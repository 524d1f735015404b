"""Anthropic's Message Batches: `POST /messages/batches` with all requests, results as JSON lines.

A batch has no metadata, so after a crash a submitted batch is recognised by the names in its results.
"""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from evaluators.judges.answer_places import mapping
from evaluators.judges.apis.payload import count, objects, text
from evaluators.judges.batches import provider
from evaluators.judges.batches.results import BatchResult, BatchState, Missing, answered

if TYPE_CHECKING:
    from evaluators.judges.batches.batch_connection import BatchConnection

_PATH = "/messages/batches"
_MISSING: Mapping[str, Missing] = {"expired": "expired", "canceled": "cancelled"}
_STATUSES = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429,
    "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip
"""The HTTP status that an error of this type has outside of a batch."""


class AnthropicBatches:
    """Batches of an endpoint of Anthropic's Messages."""

    def __init__(self, connection: "BatchConnection") -> None:
        self._connection = connection

    async def check(self) -> None:
        """See `BatchProvider.check`."""
        await provider.unless_absent(lambda: self._connection.get(_PATH, limit="1"), _PATH)

    async def submit(self, key: str, items: Sequence[provider.BatchItem]) -> str:
        """See `BatchProvider.submit`."""
        requests = [{"custom_id": item.name, "params": item.body} for item in items]
        return provider.id_in(await self._connection.post(_PATH, orjson.dumps({"requests": requests})))

    async def find_batch(self, key: str, names: Collection[str], since: float, known: Collection[str]) -> str | None:
        """See `BatchProvider.find_batch`. A batch of the same size is a candidate; once it has ended, the names in its
        results show whether it is the one.
        """
        for each in await self._since(since):
            counts = mapping(each.get("request_counts"))
            if provider.id_in(each) in known or sum(map(count, counts.values())) != len(names):
                continue
            if each.get("processing_status") != "ended":
                raise provider.Undecided
            async with aclosing(self._connection.lines(f"{_PATH}/{provider.id_in(each)}/results")) as lines:
                async for line in lines:
                    if line.get("custom_id") in names:
                        return provider.id_in(each)
                    break
        return None

    async def _since(self, since: float) -> list[dict[str, Any]]:
        """The batches that were made since a time; the list begins with the newest."""
        batches: list[dict[str, Any]] = []
        after: dict[str, str] = {}
        while True:
            page = await self._connection.get(_PATH, limit="100", **after)
            listed = objects(page.get("data"))
            recent = [each for each in listed if _time(each.get("created_at")) >= since - provider.CLOCKS_DIFFER]
            batches += recent
            if not page.get("has_more") or not listed or len(recent) < len(listed):
                return batches
            after = {"after_id": provider.id_in(listed[-1])}

    async def state(self, batch: str) -> BatchState:
        """See `BatchProvider.state`."""
        payload = await self._connection.get(f"{_PATH}/{batch}")
        counts = {name: count(value) for name, value in mapping(payload.get("request_counts")).items()}
        status = provider.short_name(payload.get("processing_status")) or "unknown"
        # The address of the results is known: an address in an answer could lead the key elsewhere.
        return BatchState(
            status=status,
            ended=status == "ended",
            done=sum(counts.values()) - counts.get("processing", 0),
            results=(f"{_PATH}/{batch}/results",) if payload.get("results_url") else (),
        )

    async def results(self, state: BatchState) -> AsyncGenerator[BatchResult]:
        """See `BatchProvider.results`."""
        for path in state.results:
            async with aclosing(self._connection.lines(path)) as lines:
                async for line in lines:
                    yield _result(line)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()


def _result(line: Mapping[str, Any]) -> BatchResult:
    name = text(line.get("custom_id")) or ""
    result = mapping(line.get("result"))
    kind = text(result.get("type")) or ""
    if kind == "succeeded":
        return BatchResult(name, 200, orjson.dumps(result.get("message")))
    if kind != "errored":
        return BatchResult(name, None, b"", _MISSING.get(kind, "failed"))
    error = mapping(result.get("error"))
    inner = mapping(error.get("error")) or error
    return answered(name, _STATUSES.get(text(inner.get("type")) or "", 500), orjson.dumps({"error": inner}))


def _time(value: Any) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return float("inf")
