"""An endpoint whose requests are gathered and submitted in batches: half the price, an answer within a day."""

import asyncio
import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import KW_ONLY, dataclass

import orjson

from evaluators.cases import Json
from evaluators.errors import JudgeError, JudgeUnavailable
from evaluators.judges.batches.batch_terms import LOOK_AGAIN, BatchTerms
from evaluators.judges.batches.journal import BatchJournal, JournalEntry
from evaluators.judges.batches.owned_requests import OwnedRequests, RequestWaits, billed_to_nobody, current_requests
from evaluators.judges.batches.patient_calls import PatientCalls
from evaluators.judges.batches.provider import MOST_BYTES, MOST_ITEMS, BatchItem, BatchProvider, NoBatches
from evaluators.judges.batches.submitted_batches import SubmittedBatches
from evaluators.judges.endpoint import Endpoint, EndpointReply, RequestOutdated
from evaluators.judges.error_mapping import ABOUT_QUESTION, HttpStatusError, meaning_of, to_judge_error
from evaluators.wire.http_client import in_requests

MOST_ATTEMPTS = 2
"""How many batches a request may be in: a request that expired or failed goes into one more."""
_NAME_DIGITS = 48
_OF_ONE_REQUEST = ABOUT_QUESTION | {"unsupported", "filtered"}
"""Meanings of refusals that concern one request, or its shape."""


@dataclass(eq=False, repr=False)
class BatchEndpoint:
    """Gathers requests, submits them in batches, and gives each its answer; the journal records all of it.

    The first request of each shape goes out at once, at the full price, and the others of its shape wait for its
    answer: else each missing capability of an endpoint would cost a batch, and a day. A request without a shape also
    goes out at once, such as the one for evaluation steps. A request without an answer when its batch ends goes into
    the next batch, once, unless the batch was cancelled. Equal requests are numbered in their order of arrival;
    requests of a known evaluation (`OwnedRequests`) are numbered within it. One event loop at a time.
    """

    endpoint: Endpoint
    provider: BatchProvider
    journal: BatchJournal
    terms: BatchTerms
    _: KW_ONLY
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._calls = PatientCalls(self.terms, self.sleep, self.clock)
        self._waits = RequestWaits()
        self._batches = SubmittedBatches(
            self.provider, self.journal, self.terms, self._waits, calls=self._calls, sleep=self.sleep, clock=self.clock
        )
        self._numbers: dict[str, set[int]] = {}
        self._first: dict[str, asyncio.Future[Exception | None]] = {}
        self._gathered: dict[str, Mapping[str, Json]] = {}
        self._gather_until = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Check whether the endpoint takes batches, and follow the batches that an earlier run has left.

        Raises:
            NoBatches: the endpoint takes no batches. JudgeError: the endpoint cannot be asked.
        """
        try:
            await self._calls.call(self.provider.check, self.terms.pace.patience_at_start)
        except HttpStatusError as error:
            raise to_judge_error(error) from None
        self.follow_open()

    def follow_open(self) -> None:
        """Follow the batches that an earlier run, or a former owner, has left."""
        self._batches.follow_open()

    def look_for_batches(self) -> None:
        """Check in the background whether the endpoint takes batches, now and from time to time."""
        self._looking = asyncio.get_running_loop().create_task(self._look_forever())

    async def _look_forever(self) -> None:
        absent, home = self.terms.absent, self.terms.home
        assert absent is not None, "only what is remembered is looked for"
        while True:
            if absent.begin_look(home, self.clock()):
                try:
                    await self._calls.call(self.provider.check, math.inf)
                except NoBatches as error:
                    self._batches.learn_absence(error)
                    self._submit_gathered()
                except (HttpStatusError, JudgeError):
                    pass  # any other fault of the endpoint shows when a batch is submitted
                else:
                    absent.discard(home)
            await self.sleep(LOOK_AGAIN)

    async def aclose(self) -> None:
        """Close the connections. Batches go on at the provider, and a later run finds them."""
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._batches.aclose()
        await self.endpoint.aclose()

    async def connected(self) -> object:
        """See `Endpoint.connected`."""
        return await self.endpoint.connected()

    async def post(self, body: Mapping[str, Json], shape: Hashable = None) -> EndpointReply:
        """The response to a request, once it has arrived: see `PostsRequests.post`.

        Raises:
            HttpStatusError: the response has an error's status. JudgeUnavailable: there is no response after two
            batches, or after a cancelled one. RequestOutdated: the request has to be made again.
        """
        digest = hashlib.sha256(orjson.dumps(body)).hexdigest()[:_NAME_DIGITS]
        form = None if shape is None else repr(shape)
        if (requests := current_requests()) is not None:
            with requests.posting():
                return await self._answer(requests.name(digest), body, form, requests)
        number = self._take_number(digest)
        name = f"{digest}-{number}"
        try:
            return await self._answer(name, body, form)
        finally:
            if not self.journal.has_request(self.terms.home, name):
                self._numbers[digest].discard(number)  # the request was not sent

    def _take_number(self, digest: str) -> int:
        used = self._numbers.setdefault(digest, set())
        number = next(each for each in range(1, len(used) + 2) if each not in used)
        used.add(number)
        return number

    async def _answer(
        self, name: str, body: Mapping[str, Json], shape: str | None, requests: OwnedRequests | None = None
    ) -> EndpointReply:
        while True:
            entry = self.journal.entry(self.terms.home, name)
            if entry is not None and entry.status is not None:
                return self._reply(entry, shape)
            if entry is not None and entry.batch is None:
                _raise_if_spent(entry)
            if entry is None and shape is None:
                return await self._at_once(name, body)
            if entry is None and shape is not None and not self.journal.has_answered_shape(self.terms.home, shape):
                if (reply := await self._first_of_shape(name, body, shape)) is not None:
                    return reply
                continue
            if (entry is None or entry.batch is None) and self._batches.is_absent:
                return await self._without_batches(name, body)
            if entry is None or entry.batch is None:
                self._gather(name, body)
            else:
                self._batches.follow(entry.batch)
            await self._waits.wait(name, requests, submitted=entry is not None and entry.batch is not None)

    def _reply(self, entry: JournalEntry, shape: str | None) -> EndpointReply:
        status = entry.status or 0
        if not 200 <= status < 300:
            raise HttpStatusError(status, {}, entry.content)
        if shape is not None and not self.journal.has_answered_shape(self.terms.home, shape):
            self.journal.record_shape(self.terms.home, shape)
        return EndpointReply(entry.content, 1.0 if entry.at_once else 1.0 - self.terms.discount)

    async def _first_of_shape(self, name: str, body: Mapping[str, Json], shape: str) -> EndpointReply | None:
        """The reply to the first request of a shape; None for a request that has waited for it.

        Raises:
            RequestOutdated: the first request was refused, perhaps for its shape.
        """
        pending = self._first.get(shape)
        if pending is not None:
            problem = await asyncio.shield(pending)
            if problem is None:
                return None
            if isinstance(problem, HttpStatusError) and meaning_of(problem) in _OF_ONE_REQUEST:
                raise RequestOutdated from None
            raise billed_to_nobody(problem) from None
        self._first[shape] = pending = asyncio.get_running_loop().create_future()
        problem: Exception | None = None
        try:
            reply = await self._at_once(name, body)
        except (HttpStatusError, JudgeError) as error:
            problem = error
            raise
        else:
            self.journal.record_shape(self.terms.home, shape)
            return reply
        finally:
            del self._first[shape]
            pending.set_result(problem)

    async def _at_once(self, name: str, body: Mapping[str, Json]) -> EndpointReply:
        is_work, patience = self._batches.is_absent, self.terms.pace.patience
        reply = await self._calls.call(lambda: self._post_now(body), patience, is_work=is_work)
        self.terms.on_at_once()
        await self.journal.record_at_once(self.terms.home, name, reply.content)
        return reply

    async def _without_batches(self, name: str, body: Mapping[str, Json]) -> EndpointReply:
        assert self.terms.absent is not None
        async with self.terms.absent.slots(self.terms.home, self.terms.concurrency):
            return await self._at_once(name, body)

    async def _post_now(self, body: Mapping[str, Json]) -> EndpointReply:
        await self.terms.confirm()
        try:
            async with asyncio.timeout(self.terms.timeout):
                return await self.endpoint.post(body)
        except TimeoutError:
            raise JudgeUnavailable(f"no answer within {self.terms.timeout:g} s", type="judge_timeout") from None

    def _gather(self, name: str, body: Mapping[str, Json]) -> None:
        loop, pace = asyncio.get_running_loop(), self.terms.pace
        if not self._gathered:
            self._gather_until = loop.time() + pace.longest_linger
        self._gathered[name] = body
        if self._timer is not None:
            self._timer.cancel()
        if len(self._gathered) >= self._most_items:
            self._submit_gathered()
            return
        self._timer = loop.call_at(min(loop.time() + pace.linger, self._gather_until), self._submit_gathered)

    @property
    def _most_items(self) -> int:
        return MOST_ITEMS if self.terms.most_items is None else min(MOST_ITEMS, self.terms.most_items)

    def _submit_gathered(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gathered, self._gathered, self._timer = self._gathered, {}, None
        items = [BatchItem(name, body) for name, body in gathered.items()]
        for part in in_requests(items, lambda item: len(orjson.dumps(item.body)) + 200, self._most_items, MOST_BYTES):
            self._batches.submit(part)


def _raise_if_spent(entry: JournalEntry) -> None:
    """Fail if there will be no answer: after two batches, or after a batch that was cancelled or deleted."""
    if entry.missing == "cancelled":
        raise JudgeUnavailable("its batch was cancelled or deleted at the provider")
    if entry.attempts < MOST_ATTEMPTS:
        return
    if entry.missing == "expired":
        raise JudgeUnavailable(f"expired in {MOST_ATTEMPTS} batches", type="judge_timeout")
    raise JudgeUnavailable(f"failed in {MOST_ATTEMPTS} batches")
