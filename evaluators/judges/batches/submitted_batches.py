"""The batches of an endpoint: submitted once, followed until they end, and their results written down."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TypeVar

from evaluators.errors import JudgeDenied, JudgeError, Remedy
from evaluators.judges.batches.batch_terms import BatchProgress, BatchTerms
from evaluators.judges.batches.journal import BatchJournal, OpenBatch
from evaluators.judges.batches.owned_requests import RequestWaits
from evaluators.judges.batches.patient_calls import PatientCalls
from evaluators.judges.batches.provider import ABSENT, BatchItem, BatchProvider, NoBatches, Undecided, unless_absent
from evaluators.judges.batches.results import BatchResult, BatchState, Missing
from evaluators.judges.error_mapping import HttpStatusError

T = TypeVar("T")

_RECORDED_AT_ONCE = 200
_FOR_NOW = frozenset({"token_limit_exceeded"})
"""Codes of batches that are refused as a whole, as the queue at the provider is full."""
_GONE: Collection[Remedy] = ("model or address", "address")
"""The remedy for a batch that has disappeared."""
GONE = "gone"
"""The status of a submitted batch that the provider no longer knows."""
_NOT_AGAIN = frozenset({"cancelled", GONE})
"""Endings of batches whose requests are not submitted again: they are no longer wanted, or were billed already."""
_A_BATCH = "a batch"
_HTTP_404, _SERVER_FAULT = 404, 500


@dataclass(eq=False, repr=False)
class SubmittedBatches:
    """Submits and follows the batches of one endpoint in the background, and wakes the requests that they answer."""

    provider: BatchProvider
    journal: BatchJournal
    terms: BatchTerms
    waits: RequestWaits
    _: KW_ONLY
    calls: PatientCalls
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._followed: set[str] = set()

    async def aclose(self) -> None:
        """Stop following. Batches go on at the provider, and a later run finds them."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.provider.aclose()

    def follow_open(self) -> None:
        """Follow the batches that an earlier run, or a former owner, has left."""
        for batch in self.journal.open_batches(self.terms.home):
            self.follow_again(batch)

    def follow(self, batch: str) -> None:
        """Follow a batch, by its key, unless it is followed already."""
        if batch not in self._followed:
            self.follow_again(self.journal.batch(batch))

    def submit(self, items: Sequence[BatchItem]) -> None:
        """Submit these requests as a batch, in the background."""
        names = [item.name for item in items]
        key = self._key(names)
        self._begin(key, self._submit(key, items), names)

    async def _call(self, request: Callable[[], Awaitable[T]]) -> T:
        """The response to a request, however long the provider is unavailable: the batch exists meanwhile."""
        return await self.calls.call(request, None)

    def learn_absence(self, error: NoBatches) -> None:
        """Remember that the endpoint takes no batches."""
        assert self.terms.absent is not None
        if not self.is_absent:
            self.terms.absent.add(self.terms.home)
            self.terms.on_absent(error)

    @property
    def is_absent(self) -> bool:
        """Whether the endpoint is known to take no batches."""
        return self.terms.absent is not None and self.terms.home in self.terms.absent

    def _begin(self, key: str, work: Awaitable[None], names: Sequence[str] | frozenset[str]) -> None:
        """Do this work for a batch in the background; if it fails, these requests fail."""
        self._followed.add(key)

        async def done() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - raised to the tasks that wait for the answers
                self.waits.wake(names, error)
            self._followed.discard(key)

        task = asyncio.get_running_loop().create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _submit(self, key: str, items: Sequence[BatchItem]) -> None:
        if self.is_absent:
            self.waits.wake([item.name for item in items])
            return
        planned = self.clock()
        await self.journal.plan(self.terms.home, key, [item.name for item in items], planned)
        try:
            batch = await self._submitted(key, items)
        except NoBatches as error:
            await self.journal.drop_plan(key)
            if self.terms.absent is None:
                raise
            self.learn_absence(error)
            self.waits.wake([item.name for item in items])
            return
        except JudgeError:
            await self.journal.drop_plan(key)
            raise
        await self.journal.record_submission(key, batch)
        self.waits.let_rest([item.name for item in items])
        del items  # they hold all texts, and a batch may take a day
        await self._follow(key, batch, planned)

    async def _submitted(self, key: str, items: Sequence[BatchItem]) -> str:
        """The id of the batch, submitted once: if it is unknown whether it was submitted, it is searched first."""
        names = [item.name for item in items]
        began: float | None = None

        async def submit() -> str:
            nonlocal began
            if began is not None and (batch := await self._search(key, names, began)) is not None:
                return batch
            began = self.clock()
            await self.terms.confirm()
            try:
                return await self.provider.submit(key, items)
            except HttpStatusError as error:
                began = began if error.status >= _SERVER_FAULT else None  # any other refusal: certainly not submitted
                await self._raise_if_absent(error)
                raise

        return await self.calls.call(submit, None, is_work=True)

    async def _raise_if_absent(self, error: HttpStatusError) -> None:
        """Raise `NoBatches` if a refused submission means that there are no batches. A 404 may have another cause."""
        if error.status not in ABSENT:
            return
        if error.status == _HTTP_404:
            await self._call(self.provider.check)
            return
        raise NoBatches(error.status, "a submission") from None

    async def _continue(self, batch: OpenBatch) -> None:
        """Go on with a batch of an earlier run; first find out whether it was submitted, if that is unknown."""
        names = self.journal.unanswered(batch.key)
        batch_id = batch.id or await self._search(batch.key, names, batch.planned)
        if batch_id is None:
            await self.journal.drop_plan(batch.key)
            self.waits.wake(names)
            return
        await self.journal.record_submission(batch.key, batch_id)
        await self._follow(batch.key, batch_id, batch.planned)

    async def _search(self, key: str, names: Sequence[str] | frozenset[str], since: float) -> str | None:
        """The id of a batch that may have been submitted; None if it certainly was not."""
        wait = self.terms.pace.first_retry
        while True:
            began = self.clock()
            try:
                look = partial(self.provider.find_batch, key, names, since, self.journal.ids())
                batch = await self._call(partial(unless_absent, look, _A_BATCH))
            except Undecided:
                began = since
            except NoBatches:
                return None
            else:
                if batch is not None or began - since >= self.terms.pace.settled:
                    return batch
            await self.sleep(wait)
            wait = min(2 * wait, self.terms.pace.longest_look)

    async def _follow(self, key: str, batch: str, planned: float) -> None:
        """Check a batch until it has ended, and collect its results."""
        total = len(self.journal.unanswered(key))
        wait = self.terms.pace.first_look
        while True:
            state = await self._state(batch)
            if state.ended:
                break
            self._report(batch, state, planned, total)
            await self.sleep(wait)
            wait = min(1.5 * wait, self.terms.pace.longest_look)
        await self._collect(key, batch, state, planned, total)

    async def _state(self, batch: str) -> BatchState:
        try:
            return await self._call(partial(unless_absent, lambda: self.provider.state(batch), _A_BATCH))
        except JudgeDenied as error:
            if error.remedy not in _GONE:
                raise
            # The batch was deleted, the key belongs to another account, or the server at the address takes no batches
            # any more.
            return BatchState(status=GONE if await self._takes_batches() else "failed", ended=True)

    async def _takes_batches(self) -> bool:
        try:
            await self._call(self.provider.check)
        except NoBatches:
            return False
        return True

    async def _collect(self, key: str, batch: str, state: BatchState, planned: float, total: int) -> None:
        members = self.journal.unanswered(key)
        missing: dict[str, Missing] = {}
        unknown = await self._call(lambda: self._read_results(members, state, missing))
        left = self.journal.unanswered(key)
        if self.terms.endures and state.problem in _FOR_NOW:
            await self.journal.drop_plan(key)  # no request of it was done
        else:
            await self.journal.end(key, missing, "cancelled" if state.status in _NOT_AGAIN else "failed")
        self._report(batch, state, planned, total, without_answer=len(left), unknown=unknown)
        self.waits.wake(members)

    async def _read_results(self, members: frozenset[str], state: BatchState, missing: dict[str, Missing]) -> int:
        """Record the results as they arrive; returns the number of results that fit no request."""
        unknown = 0
        answered: list[BatchResult] = []
        async with aclosing(self.provider.results(state)) as results:
            async for result in results:
                if result.name not in members:
                    unknown += 1
                elif result.missing is not None:
                    missing[result.name] = result.missing
                else:
                    answered.append(result)
                if len(answered) >= _RECORDED_AT_ONCE:
                    await self.journal.record(self.terms.home, answered)
                    answered.clear()
        await self.journal.record(self.terms.home, answered)
        return unknown

    def _report(
        self, batch: str, state: BatchState, planned: float, total: int, *, without_answer: int = 0, unknown: int = 0
    ) -> None:
        self.terms.on_progress(
            BatchProgress(
                batch=batch,
                status=state.status + (f" ({state.problem})" if state.problem else ""),
                done=state.done,
                total=total,
                seconds=self.clock() - planned,
                ended=state.ended,
                without_answer=without_answer,
                unknown=unknown,
            )
        )

    def follow_again(self, batch: OpenBatch) -> None:
        """Follow a batch that an earlier run, or a former owner, has submitted or planned."""
        self._begin(batch.key, self._continue(batch), self.journal.unanswered(batch.key))

    def _key(self, names: Sequence[str]) -> str:
        """The name of the batch of these requests; their second batch gets another name."""
        entries = ((name, self.journal.entry(self.terms.home, name)) for name in names)
        tries = [f"{self.terms.home} {name} {0 if entry is None else entry.attempts}" for name, entry in entries]
        return hashlib.sha256("\n".join(sorted(tries)).encode()).hexdigest()[:32]
