"""The port to a provider that takes requests in batches: the requests, the state of a batch, and its results."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from evaluators.cases import Json
from evaluators.errors import JudgeDenied, NoCompletion
from evaluators.judges.batches.results import BatchResult, BatchState
from evaluators.judges.error_mapping import HttpStatusError

T = TypeVar("T")

ABSENT = frozenset({404, 405, 501})
"""Statuses of an endpoint that has no batches."""

MOST_ITEMS = 5_000
"""The most requests in a batch; no provider takes fewer."""
MOST_BYTES = 90 * 2**20
"""The most bytes of a batch."""
CLOCKS_DIFFER = 3600.0
"""Seconds by which the provider's clock may be behind this machine's."""

_LONGEST_NAME = 128


async def certain() -> None:
    """Permission to send, given at once: no other process can send the batch."""


def short_name(value: Any) -> str:
    """A short name of letters, digits, `_`, `-` and `.`, fit to be shown; "" for anything else."""
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        return ""
    plain = value.replace("_", "").replace("-", "").replace(".", "")
    return value if plain.isascii() and plain.isalnum() else ""


def id_in(payload: Mapping[str, Any]) -> str:
    """The id in a response.

    Raises:
        NoCompletion: the response has no id.
    """
    if not (name := short_name(payload.get("id"))):
        raise NoCompletion("the endpoint answered with no id")
    return name


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A request, and the name that identifies its result."""

    name: str
    body: Mapping[str, Json]


class NoBatches(JudgeDenied):
    """The endpoint takes no batches."""

    def __init__(self, status: int, path: str) -> None:
        super().__init__(f"the endpoint takes no batches (HTTP {status} at {path})", remedy="address")


async def unless_absent(call: Callable[[], Awaitable[T]], path: str) -> T:
    """The response to a call about batches.

    Raises:
        NoBatches: the endpoint has no batches.
    """
    try:
        return await call()
    except HttpStatusError as error:
        if error.status in ABSENT:
            raise NoBatches(error.status, path) from None
        raise


class Undecided(Exception):
    """It cannot be known whether a batch was submitted before another batch has ended."""


class BatchProvider(Protocol):
    """A provider's batches of one model. Its errors are `HttpStatusError` and `JudgeUnavailable`."""

    async def check(self) -> None:
        """Check whether the endpoint takes batches.

        Raises:
            NoBatches: it does not.
        """

    async def submit(self, key: str, items: Sequence[BatchItem]) -> str:
        """Submit a batch under evalstream's `key`; returns the provider's id."""
        ...

    async def find_batch(self, key: str, names: Collection[str], since: float, known: Collection[str]) -> str | None:
        """The id of the batch that was submitted under a key, not before `since` (Unix seconds); None if none was.
        `known` are the ids of batches that are certainly others.

        Raises:
            Undecided: whether it was submitted cannot be known yet.
        """
        ...

    async def state(self, batch: str) -> BatchState:
        """The state of a batch."""
        ...

    def results(self, state: BatchState) -> AsyncGenerator[BatchResult]:
        """The results of a batch that has ended, in any order."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
