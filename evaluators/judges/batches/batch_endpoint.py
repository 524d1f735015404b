"""An endpoint whose requests are gathered and submitted in batches: half the price, an answer within a day."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import orjson

from evaluators.cases import Json
from evaluators.errors import JudgeDenied, JudgeError, JudgeUnavailable, Remedy
from evaluators.judges.batches.absent_batches import LOOK_AGAIN, AbsentBatches
from evaluators.judges.batches.journal import BatchJournal, JournalEntry, OpenBatch
from evaluators.judges.batches.owned_requests import OwnedRequests, current_requests
from evaluators.judges.batches.provider import (
    ABSENT,
    PASSING,
    BatchItem,
    BatchProvider,
    BatchResult,
    BatchState,
    Missing,
    NoBatches,
    Undecided,
    certain,
)
from evaluators.judges.endpoint import COMPLAINTS, Endpoint, EndpointReply, RequestOutdated
from evaluators.judges.error_mapping import HttpStatusError, retry_after, to_judge_error
from evaluators.results import Usage

T = TypeVar("T")

MOST_ATTEMPTS = 2
"""Batches that a request may be in: what expired or failed goes into one more."""
_NAME_DIGITS = 48
_RECORDED_AT_ONCE = 200
_FOR_NOW = frozenset({"token_limit_exceeded"})
"""Codes of batches that are refused as a whole, as too much waits at the provider now."""
_GONE: Collection[Remedy] = ("model or address", "address")
"""What has to be corrected where a batch is not where it was."""
GONE = "gone"
"""The status of a batch that was submitted, and that the provider does not know any more."""
_NOT_AGAIN = frozenset({"cancelled", GONE})
"""How batches end whose requests somebody does not want, or has been billed for: they are not submitted again."""
_HTTP_404 = 404
_MENDABLE = frozenset({401, 402, 403})
"""Statuses that end when somebody mends a key or pays a bill."""


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
    """Whose requests they are, what a batch costs less than the list price, and who is told.

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


class BatchEndpoint:
    """Gathers requests, submits them in batches, and gives each its answer; all of it is in the journal.

    The first request of each shape goes out at once, at the full price, and the others of its shape wait for its
    answer: what an endpoint does not take would else be learnt batch by batch, at a day each. What has no shape goes
    out at once, too, such as evaluation steps that are written once. What has no answer when its batch ends is in the
    next one, once; what somebody cancelled is not. Equal requests are told apart by their number, in the order in
    which they come; those of an evaluation that is known (`OwnedRequests`) by the order of its own. One event loop at a
    time.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        provider: BatchProvider,
        journal: BatchJournal,
        terms: BatchTerms,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._endpoint = endpoint
        self._provider = provider
        self._journal = journal
        self._terms = terms
        self._sleep = sleep
        self._clock = clock
        self._numbers: dict[str, set[int]] = {}
        self._first: dict[str, asyncio.Future[Exception | None]] = {}
        self._gathered: dict[str, Mapping[str, Json]] = {}
        self._gather_until = math.inf
        self._owners: dict[str, OwnedRequests] = {}
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._followed: set[str] = set()

    async def start(self) -> None:
        """Look whether the endpoint takes batches, and follow those that an earlier run has left.

        Raises:
            NoBatches: it takes none.
            JudgeError: it cannot be asked.
        """
        try:
            await self._patiently(self._provider.check, self._terms.pace.patience_at_start)
        except HttpStatusError as error:
            raise to_judge_error(error) from None
        self.follow_open()

    def follow_open(self) -> None:
        """Follow the batches that an earlier run, or a former owner, has left."""
        for batch in self._journal.open_batches(self._terms.home):
            self._follow_again(batch)

    def look_for_batches(self) -> None:
        """Look in the background whether the endpoint takes batches, now and from time to time."""
        task = asyncio.get_running_loop().create_task(self._look_forever())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_forever(self) -> None:
        absent, home = self._terms.absent, self._terms.home
        assert absent is not None, "only what is remembered is looked for"
        while True:
            if absent.begin_look(home, self._clock()):
                try:
                    await self._patiently(self._provider.check, math.inf)
                except NoBatches as error:
                    self._learn_absence(error)
                    self._submit_gathered()
                except (HttpStatusError, JudgeError):
                    pass  # what else is wrong with it is seen when something is submitted
                else:
                    absent.discard(home)
            await self._sleep(LOOK_AGAIN)

    def _learn_absence(self, error: NoBatches) -> None:
        assert self._terms.absent is not None
        if not self._is_absent:
            self._terms.absent.add(self._terms.home)
            self._terms.on_absent(error)

    @property
    def _is_absent(self) -> bool:
        return self._terms.absent is not None and self._terms.home in self._terms.absent

    @property
    def gathered(self) -> int:
        """How many requests wait for their batch to be submitted."""
        return len(self._gathered)

    def _follow_again(self, batch: OpenBatch) -> None:
        self._begin(batch.key, self._continue(batch), self._journal.names(batch.key))

    async def aclose(self) -> None:
        """Close the connections. Batches go on at the provider, and a later run finds them."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._endpoint.aclose()
        await self._provider.aclose()

    async def connected(self) -> object:
        """See `Endpoint.connected`."""
        return await self._endpoint.connected()

    async def post(self, body: Mapping[str, Json], shape: Hashable = None) -> EndpointReply:
        """The response to a request, when there is one: see `PostsRequests.post`.

        Raises:
            HttpStatusError: it has a status of an error.
            JudgeUnavailable: there is none after two batches, or after one that was cancelled.
            RequestOutdated: it has to be made again.
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
            if not self._journal.has(self._terms.home, name):
                self._numbers[digest].discard(number)  # it was not sent

    def _take_number(self, digest: str) -> int:
        used = self._numbers.setdefault(digest, set())
        number = next(each for each in range(1, len(used) + 2) if each not in used)
        used.add(number)
        return number

    async def _answer(
        self, name: str, body: Mapping[str, Json], shape: str | None, requests: OwnedRequests | None = None
    ) -> EndpointReply:
        while True:
            entry = self._journal.entry(self._terms.home, name)
            if entry is not None and entry.status is not None:
                return self._reply(entry, shape)
            if entry is not None and entry.batch is None:
                _raise_if_spent(entry)
            if entry is None and shape is None:
                return await self._at_once(name, body)
            if entry is None and shape is not None and not self._journal.knows(self._terms.home, shape):
                if (reply := await self._first_of_shape(name, body, shape)) is not None:
                    return reply
                continue
            if (entry is None or entry.batch is None) and self._is_absent:
                return await self._without_batches(name, body)
            if entry is None or entry.batch is None:
                self._gather(name, body)
            elif entry.batch not in self._followed:
                self._follow_again(self._journal.batch(entry.batch))
            waiting = self._waiting.setdefault(name, asyncio.get_running_loop().create_future())
            if requests is None:
                await asyncio.shield(waiting)
            else:
                await self._wait_as(requests, name, waiting, submitted=entry is not None and entry.batch is not None)

    async def _wait_as(
        self, requests: OwnedRequests, name: str, waiting: asyncio.Future[None], *, submitted: bool
    ) -> None:
        """Wait for a request of an evaluation, which may rest as soon as its batch is submitted."""
        self._owners[name] = requests
        if submitted:
            requests.wait(name, waiting)
        try:
            await asyncio.shield(waiting)
        finally:
            if self._owners.get(name) is requests:
                del self._owners[name]
            requests.waiting.pop(name, None)

    def _reply(self, entry: JournalEntry, shape: str | None) -> EndpointReply:
        status = entry.status or 0
        if not 200 <= status < 300:
            raise HttpStatusError(status, {}, entry.content)
        if shape is not None and not self._journal.knows(self._terms.home, shape):
            self._journal.learn(self._terms.home, shape)
        return EndpointReply(entry.content, 1.0 if entry.at_once else 1.0 - self._terms.discount)

    async def _first_of_shape(self, name: str, body: Mapping[str, Json], shape: str) -> EndpointReply | None:
        """The reply to the first request of a shape; None to those that have waited for it.

        Raises:
            RequestOutdated: the first one was refused, for a reason that may be its shape.
        """
        pending = self._first.get(shape)
        if pending is not None:
            problem = await asyncio.shield(pending)
            if problem is None:
                return None
            if isinstance(problem, HttpStatusError) and problem.status in COMPLAINTS:
                raise RequestOutdated from None
            raise _own(problem) from None
        self._first[shape] = pending = asyncio.get_running_loop().create_future()
        problem: Exception | None = None
        try:
            reply = await self._at_once(name, body)
        except (HttpStatusError, JudgeError) as error:
            problem = error
            raise
        else:
            self._journal.learn(self._terms.home, shape)
            return reply
        finally:
            del self._first[shape]
            pending.set_result(problem)

    async def _at_once(self, name: str, body: Mapping[str, Json]) -> EndpointReply:
        reply = await self._patiently(lambda: self._post_now(body), self._terms.pace.patience)
        self._terms.on_at_once()
        await self._journal.record_at_once(self._terms.home, name, reply.content)
        return reply

    async def _without_batches(self, name: str, body: Mapping[str, Json]) -> EndpointReply:
        assert self._terms.absent is not None
        async with self._terms.absent.slots(self._terms.home, self._terms.concurrency):
            return await self._at_once(name, body)

    async def _post_now(self, body: Mapping[str, Json]) -> EndpointReply:
        await self._terms.confirm()
        try:
            async with asyncio.timeout(self._terms.timeout):
                return await self._endpoint.post(body)
        except TimeoutError:
            raise JudgeUnavailable(f"no answer within {self._terms.timeout:g} s", type="judge_timeout") from None

    def _gather(self, name: str, body: Mapping[str, Json]) -> None:
        loop, pace = asyncio.get_running_loop(), self._terms.pace
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
        most = self._provider.most_items
        return most if self._terms.most_items is None else min(most, self._terms.most_items)

    def _submit_gathered(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gathered, self._gathered, self._timer = self._gathered, {}, None
        items = [BatchItem(name, body) for name, body in gathered.items()]
        for part in _parts(items, self._most_items, self._provider.most_bytes):
            names = [item.name for item in part]
            key = self._key(names)
            self._begin(key, self._submit(key, part), names)

    def _key(self, names: Sequence[str]) -> str:
        """What the batch of these requests is called: it is another one when they are in their second."""
        entries = ((name, self._journal.entry(self._terms.home, name)) for name in names)
        tries = [f"{self._terms.home} {name} {0 if entry is None else entry.attempts}" for name, entry in entries]
        return hashlib.sha256("\n".join(sorted(tries)).encode()).hexdigest()[:32]

    def _begin(self, key: str, work: Awaitable[None], names: Sequence[str] | frozenset[str]) -> None:
        """Do this for a batch in the background; where it fails, it fails for these requests."""
        self._followed.add(key)

        async def done() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - raised where somebody waits for the answer
                self._followed.discard(key)
                self._wake(names, error)
            self._followed.discard(key)

        task = asyncio.get_running_loop().create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _submit(self, key: str, items: Sequence[BatchItem]) -> None:
        if self._is_absent:
            self._wake([item.name for item in items])
            return
        planned = self._clock()
        await self._journal.plan(self._terms.home, key, [item.name for item in items], planned)
        try:
            batch = await self._submitted(key, items)
        except NoBatches as error:
            await self._journal.drop_plan(key)
            if self._terms.absent is None:
                raise
            self._learn_absence(error)
            self._wake([item.name for item in items])
            return
        except JudgeError:
            await self._journal.drop_plan(key)
            raise
        await self._journal.submitted(key, batch)
        self._let_rest([item.name for item in items])
        del items  # not for as long as the batch takes: it has all texts
        await self._follow(key, batch, planned)

    def _let_rest(self, names: Iterable[str]) -> None:
        """These requests are in a submitted batch."""
        for name in names:
            requests, waiting = self._owners.get(name), self._waiting.get(name)
            if requests is not None and waiting is not None:
                requests.wait(name, waiting)

    async def _submitted(self, key: str, items: Sequence[BatchItem]) -> str:
        """The id of the batch, submitted once: where nobody knows whether it was, it is looked for first."""
        names, wait = [item.name for item in items], self._terms.pace.first_retry
        while True:
            began = self._clock()
            await self._terms.confirm()
            try:
                return await self._provider.submit(key, items)
            except (HttpStatusError, JudgeUnavailable) as error:
                if isinstance(error, HttpStatusError):
                    await self._raise_if_absent(error)
                problem = to_judge_error(error) if isinstance(error, HttpStatusError) else error
                refused = isinstance(error, HttpStatusError) and error.status < 500
                if not isinstance(problem, JudgeUnavailable) and not self._passes(error):
                    raise problem from None
                self._terms.on_problem(problem)
            await self._sleep(max(wait, getattr(problem, "retry_after", None) or 0.0))
            wait = min(2 * wait, self._terms.pace.longest_look)
            if not refused and (batch := await self._search(key, names, began)) is not None:
                return batch

    async def _raise_if_absent(self, error: HttpStatusError) -> None:
        """Raise `NoBatches` where a refused submission means that there are none. A 404 may be about something else."""
        if error.status not in ABSENT:
            return
        if error.status == _HTTP_404:
            await self._provider_call(self._provider.check)
            return
        raise NoBatches(error.status, "a submission") from None

    def _passes(self, error: Exception) -> bool:
        """Whether a request may succeed later."""
        if not isinstance(error, HttpStatusError):
            return isinstance(error, JudgeUnavailable)
        return error.status in PASSING or (self._terms.endures and error.status in _MENDABLE)

    async def _continue(self, batch: OpenBatch) -> None:
        """Go on with a batch of an earlier run: whether it was submitted may have to be found out."""
        names = self._journal.names(batch.key)
        batch_id = batch.id or await self._search(batch.key, names, batch.planned)
        if batch_id is None:
            await self._journal.drop_plan(batch.key)
            self._wake(names)
            return
        await self._journal.submitted(batch.key, batch_id)
        await self._follow(batch.key, batch_id, batch.planned)

    async def _search(self, key: str, names: Sequence[str] | frozenset[str], since: float) -> str | None:
        """The id of a batch that may have been submitted; None when it surely was not."""
        wait = self._terms.pace.first_retry
        while True:
            began = self._clock()
            try:
                look = partial(self._provider.submitted, key, names, since, self._journal.ids())
                batch = await self._provider_call(partial(_unless_absent, look))
            except Undecided:
                began = since
            except NoBatches:
                return None
            else:
                if batch is not None or began - since >= self._terms.pace.settled:
                    return batch
            await self._sleep(wait)
            wait = min(2 * wait, self._terms.pace.longest_look)

    async def _follow(self, key: str, batch: str, planned: float) -> None:
        """Look at a batch until it has ended, and collect its results."""
        total = len(self._journal.names(key))
        wait = self._terms.pace.first_look
        while True:
            state = await self._state(batch)
            if state.ended:
                break
            self._report(batch, state, planned, total)
            await self._sleep(wait)
            wait = min(1.5 * wait, self._terms.pace.longest_look)
        await self._collect(key, batch, state, planned, total)

    async def _state(self, batch: str) -> BatchState:
        try:
            return await self._provider_call(partial(_unless_absent, lambda: self._provider.state(batch)))
        except JudgeDenied as error:
            if error.remedy not in _GONE:
                raise
            # Somebody deleted it, the key is another account's, or what is at the address takes no batches any more.
            return BatchState(status=GONE if await self._takes_batches() else "failed", ended=True)

    async def _takes_batches(self) -> bool:
        try:
            await self._provider_call(self._provider.check)
        except NoBatches:
            return False
        return True

    async def _collect(self, key: str, batch: str, state: BatchState, planned: float, total: int) -> None:
        members = self._journal.names(key)
        missing: dict[str, Missing] = {}
        unknown = await self._provider_call(lambda: self._read_results(members, state, missing))
        left = self._journal.names(key)
        if self._terms.endures and state.problem in _FOR_NOW:
            self._report(batch, state, planned, total, without_answer=len(left), unknown=unknown)
            await self._journal.drop_plan(key)  # nothing of it was done
            self._wake(members)
            return
        await self._journal.end(key, missing, "cancelled" if state.status in _NOT_AGAIN else "failed")
        self._report(batch, state, planned, total, without_answer=len(left), unknown=unknown)
        self._wake(members)

    async def _read_results(self, members: frozenset[str], state: BatchState, missing: dict[str, Missing]) -> int:
        """Write the results down as they come; the number of those that nobody has asked for."""
        unknown = 0
        answered: list[BatchResult] = []
        async with aclosing(self._provider.results(state)) as results:
            async for result in results:
                if result.name not in members:
                    unknown += 1
                elif result.missing is not None:
                    missing[result.name] = result.missing
                else:
                    answered.append(result)
                if len(answered) >= _RECORDED_AT_ONCE:
                    await self._journal.record(self._terms.home, answered)
                    answered.clear()
        await self._journal.record(self._terms.home, answered)
        return unknown

    def _report(
        self, batch: str, state: BatchState, planned: float, total: int, *, without_answer: int = 0, unknown: int = 0
    ) -> None:
        self._terms.on_progress(
            BatchProgress(
                batch=batch,
                status=state.status + (f" ({state.problem})" if state.problem else ""),
                done=state.done,
                total=total,
                seconds=self._clock() - planned,
                ended=state.ended,
                without_answer=without_answer,
                unknown=unknown,
            )
        )

    def _wake(self, names: Sequence[str] | frozenset[str], error: Exception | None = None) -> None:
        for name in names:
            waiting = self._waiting.pop(name, None)
            if waiting is None or waiting.done():
                continue
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(_own(error))

    async def _provider_call(self, call: Callable[[], Awaitable[T]]) -> T:
        """What a call brings, however long the provider is unavailable: the batch is there all the same."""
        return await self._patiently(call, None)

    async def _patiently(self, call: Callable[[], Awaitable[T]], patience: float | None) -> T:
        """What a call brings, tried again while it fails for now, for so many seconds; None for as long as it takes.

        Raises:
            HttpStatusError, JudgeError: as of the last attempt.
        """
        began, wait = self._clock(), self._terms.pace.first_retry
        while True:
            try:
                return await call()
            except HttpStatusError as error:
                if not self._passes(error):
                    if patience is None:
                        raise to_judge_error(error) from None
                    raise
                problem, delay = to_judge_error(error), retry_after(error.headers)
                last: Exception = error
            except JudgeUnavailable as error:
                problem, delay, last = error, error.retry_after, error
            pause = max(wait, delay or 0.0)
            if patience is not None and self._clock() + pause - began > patience:
                raise last
            self._terms.on_problem(problem)
            await self._sleep(pause)
            wait = min(2 * wait, self._terms.pace.longest_look)


async def _unless_absent(call: Callable[[], Awaitable[T]]) -> T:
    """What a call about batches brings.

    Raises:
        NoBatches: there are none.
    """
    try:
        return await call()
    except HttpStatusError as error:
        if error.status in ABSENT:
            raise NoBatches(error.status, "a batch") from None
        raise


def _raise_if_spent(entry: JournalEntry) -> None:
    """Fail where there will be no answer: after two batches, or after one that somebody cancelled or deleted."""
    if entry.missing == "cancelled":
        raise JudgeUnavailable("its batch was cancelled or deleted at the provider")
    if entry.attempts < MOST_ATTEMPTS:
        return
    if entry.missing == "expired":
        raise JudgeUnavailable(f"expired in {MOST_ATTEMPTS} batches", type="judge_timeout")
    raise JudgeUnavailable(f"failed in {MOST_ATTEMPTS} batches")


def _own(error: Exception) -> Exception:
    """The error for another question."""
    return error.with_bill(Usage(), None) if isinstance(error, JudgeError) else error


def _parts(items: Sequence[BatchItem], most_items: int, most_bytes: int) -> Iterator[Sequence[BatchItem]]:
    """The items in batches that are not too large."""
    part: list[BatchItem] = []
    size = 0
    for item in items:
        length = len(orjson.dumps(item.body)) + 200
        if part and (len(part) >= most_items or size + length > most_bytes):
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    if part:
        yield part
