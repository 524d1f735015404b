"""Terms of a batch endpoint: the owner of its requests, its waits, and the receiver of its progress.

Endpoints that were found to take no batches: their requests are sent at once instead.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from evaluators.errors import JudgeError
from evaluators.judges.batches.provider import NoBatches, certain

LOOK_AGAIN = 3600.0
"""Seconds between two looks whether an endpoint takes batches."""


class AbsentBatches:
    """Knowledge about the endpoints of a process, by home (`BatchTerms`); all partitions share it."""

    def __init__(self) -> None:
        self._absent: set[str] = set()
        self._look_at: dict[str, float] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}

    def __contains__(self, home: str) -> bool:
        return home in self._absent

    def add(self, home: str) -> None:
        """The endpoint takes none."""
        self._absent.add(home)

    def discard(self, home: str) -> None:
        """It takes some."""
        self._absent.discard(home)

    def begin_look(self, home: str, now: float) -> bool:
        """Whether it is time to look at an endpoint, and nobody else does."""
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

    A batch is submitted when no request came for `linger`, or its first one for `longest_linger`. It is looked at
    after `first_look`, then after waits that grow to `longest_look`. What may have been submitted by a process that was
    killed is looked for until `settled` after it was written down. What fails for now is tried again after waits from
    `first_retry` to `longest_look`; a request outside of batches for `patience`, and the first look whether there are
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
    """How far a batch is. `without_answer` counts its requests that go into another batch or fail, when it has ended.

    `unknown` counts results that nobody has asked for.
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

    `home` names the judge and its endpoint in the journal. `timeout` is that of a request outside of batches.
    `most_items` is how many requests are in a batch at most, if that is less than the provider takes. Before anything
    is sent `confirm` waits until it may be. `on_at_once` is called for each request that was answered at once. Where
    `endures` is set, what is refused for its key, its money or for what waits already is tried again for as long as
    that takes. Where `absent` is set, an endpoint that takes no batches is remembered there, and asked at once, with
    `concurrency` requests at a time; `on_absent` is called when that is found out.
    """

    home: str
    discount: float
    timeout: float
    pace: BatchPace = field(default_factory=BatchPace)
    on_progress: Callable[[BatchProgress], None] = lambda _progress: None
    on_problem: Callable[[JudgeError], None] = lambda _error: None
    on_at_once: Callable[[], None] = lambda: None
    most_items: int | None = None
    confirm: Callable[[], Awaitable[None]] = certain
    endures: bool = False
    absent: AbsentBatches | None = None
    concurrency: int = 1
    on_absent: Callable[[NoBatches], None] = lambda _error: None
