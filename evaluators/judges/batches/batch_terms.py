"""Terms of a batch endpoint: the owner of its requests, its waits, and the receiver of its progress. Requests to an
endpoint that takes no batches are sent at once.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from evaluators.errors import JudgeError
from evaluators.judges.batches.provider import NoBatches, certain

LOOK_AGAIN = 3600.0
"""Seconds between two checks whether an endpoint takes batches."""


class AbsentBatches:
    """The endpoints of a process that take no batches, by home (`BatchTerms`); all partitions share them."""

    def __init__(self) -> None:
        self._absent: set[str] = set()
        self._look_at: dict[str, float] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}

    def __contains__(self, home: str) -> bool:
        return home in self._absent

    def add(self, home: str) -> None:
        """Note that the endpoint takes no batches."""
        self._absent.add(home)

    def discard(self, home: str) -> None:
        """Note that the endpoint takes batches."""
        self._absent.discard(home)

    def begin_look(self, home: str, now: float) -> bool:
        """Whether it is time to check an endpoint, and no other task does."""
        if now < self._look_at.get(home, 0.0):
            return False
        self._look_at[home] = now + LOOK_AGAIN
        return True

    def slots(self, home: str, count: int) -> asyncio.Semaphore:
        """The limit of simultaneous requests to an endpoint."""
        return self._slots.setdefault(home, asyncio.Semaphore(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPace:
    """Waits, in seconds.

    A batch is submitted when no request came for `linger`, or its first request is `longest_linger` old. Its state is
    checked after `first_look`, then after waits that grow to `longest_look`. A batch that a killed process may have
    submitted is searched until `settled` after it was recorded. A call that fails for now is tried again after waits
    from `first_retry` to `longest_look`: a request outside of batches for `patience`, the first check whether there are
    batches for `patience_at_start`.
    """

    linger: float = 3.0
    longest_linger: float = math.inf
    first_look: float = 5.0
    longest_look: float = 60.0
    settled: float = 60.0
    first_retry: float = 0.5
    patience: float = 300.0
    patience_at_start: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """The progress of a batch. `without_answer` counts its requests that go into another batch or fail, once it has
    ended. `unknown` counts results that fit no request.
    """

    batch: str
    status: str
    done: int
    total: int
    seconds: float
    ended: bool = False
    without_answer: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTerms:
    """The owner of the requests, the discount of a batch on the list price, and the receiver of reports.

    `home` names the judge and its endpoint in the journal. `timeout` is for a request outside of batches. `most_items`
    bounds the requests in a batch, if it is below the provider's limit. Before anything is sent, `confirm` waits for
    permission. `on_at_once` is called for each request that was answered at once. With `endures`, a call that is
    refused for its key, its money or a full queue is tried again without end. `on_problem` is called for each call that
    will be tried again, `on_answer` when one of these succeeds, or a call that shows that the endpoint works: it takes
    a batch, or has none and answers a request. `on_answer` gets whether the call failed before. With `absent`, an
    endpoint that takes no batches is recorded there and asked at once, with `concurrency` requests at a time;
    `on_absent` is called when that is found out.
    """

    home: str
    discount: float
    timeout: float
    pace: BatchPace = field(default_factory=BatchPace)
    on_progress: Callable[[BatchProgress], None] = lambda _progress: None
    on_problem: Callable[[JudgeError], None] = lambda _error: None
    on_answer: Callable[[bool], None] = lambda _has_failed: None
    on_at_once: Callable[[], None] = lambda: None
    most_items: int | None = None
    confirm: Callable[[], Awaitable[None]] = certain
    endures: bool = False
    absent: AbsentBatches | None = None
    concurrency: int = 1
    on_absent: Callable[[NoBatches], None] = lambda _error: None
