"""The event loop's side of following: folds come and go with the partitions that the polling thread tells of."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from collector.logs.following import Append, Chunk, Feed, Following, Pace
from collector.logs.kafka.flow import Flow
from collector.logs.kafka.polling import Polling
from collector.logs.kafka.records import OnPoison
from collector.logs.kafka.settings import KafkaSettings
from collector.logs.kafka.subscription import Assigned, Polled, Subscription
from collector.logs.log import Committed, LogError, LogUnavailable, OpenFold

COMMIT_WITHIN = 10.0
"""Seconds that a commit may take."""


class _Stream:
    """The records of one partition that were polled and not yet taken."""

    def __init__(self, partition: int, flow: Flow, pace: Pace) -> None:
        self.waiting = False
        self._partition = partition
        self._flow = flow
        self._most = pace.chunk_records
        self._polled: deque[Polled] = deque()
        self._came = asyncio.Event()

    def put(self, polled: Polled) -> None:
        self._polled.append(polled)
        self._came.set()

    def close(self) -> None:
        """Give nothing any more."""
        self._polled.clear()

    async def next(self) -> Chunk:
        """All that is there, up to the size of a chunk and at least one poll's."""
        while not self._polled:
            self.waiting = True
            self._came.clear()
            await self._came.wait()
        self.waiting = False
        first = self._polled.popleft()
        records, end, size = first.records, first.end, first.size
        while self._polled and len(records) + len(self._polled[0].records) <= self._most:
            more = self._polled.popleft()
            records, end, size = [*records, *more.records], more.end, size + more.size
        self._flow.add(self._partition, -len(records), -size)
        return Chunk(records, end)


class Owning:
    """Follows topics with a group for as long as `run` runs."""

    def __init__(
        self,
        settings: KafkaSettings,
        subscription: Subscription,
        pace: Pace,
        *,
        append: Append | None,
        on_poison: OnPoison,
        on_stall: Callable[[], None],
    ) -> None:
        self._pace = pace
        self._append = append
        self._flow = Flow(*settings.max_queued)
        self._streams: dict[int, _Stream] = {}
        self._feeds: dict[int, Feed] = {}
        self._epochs: dict[int, int] = {}
        self._changes: asyncio.Queue[Assigned | Sequence[int] | LogError] = asyncio.Queue()
        self._polling = Polling(settings, subscription, self, flow=self._flow, on_poison=on_poison, on_stall=on_stall)

    async def run(self, open_fold: OpenFold) -> None:
        """Follow until cancelled."""
        following = Following(open_fold, self._commit, self._append, self._pace)

        async def body() -> None:
            while True:
                await self._change(following, await self._changes.get())

        self._polling.start()
        try:
            await following.run(body)
        finally:
            await asyncio.shield(self._polling.stop())

    async def _change(self, following: Following, change: Assigned | Sequence[int] | LogError) -> None:
        if isinstance(change, LogError):
            raise change
        if isinstance(change, Assigned):
            if self._epochs.get(change.partition) == change.epoch:  # else it has gone again
                following.assign(self._feeds[change.partition])
            return
        await asyncio.gather(*map(following.revoke, change))

    def assigned(self, assigned: Assigned) -> None:
        """A partition has come: take its records from now on; its fold opens when the one before is closed."""
        stream = _Stream(assigned.partition, self._flow, self._pace)
        self._streams[assigned.partition] = stream
        self._epochs[assigned.partition] = assigned.epoch
        self._feeds[assigned.partition] = Feed(
            assigned.partition, assigned.committed, assigned.start, stream, self._pace
        )
        self._changes.put_nowait(assigned)

    def revoked(self, partitions: Sequence[int]) -> None:
        """Partitions have gone."""
        for partition in partitions:
            stream = self._streams.pop(partition, None)
            if stream is not None:
                stream.close()
            self._feeds.pop(partition, None)
            self._epochs.pop(partition, None)
        self._changes.put_nowait(partitions)

    def polled(self, polled: Sequence[Polled]) -> None:
        """Records have come."""
        for each in polled:
            stream = self._streams.get(each.partition)
            if stream is not None:
                stream.put(each)

    def failed(self, error: LogError) -> None:
        """The thread has ended."""
        self._changes.put_nowait(error)

    def pending(self, partition: int) -> Committed | None:
        """What there is to commit for a partition."""
        feed = self._feeds.get(partition)
        return feed.pending if feed is not None else None

    async def _commit(self, states: Mapping[int, Committed]) -> None:
        answer: asyncio.Future[LogError | None] = asyncio.get_running_loop().create_future()

        def done(error: LogError | None) -> None:
            if not answer.done():
                answer.set_result(error)

        self._polling.commit(
            {number: (self._epochs[number], state) for number, state in states.items() if number in self._epochs}, done
        )
        try:
            async with asyncio.timeout(COMMIT_WITHIN):  # wait_for can swallow a cancellation
                error = await answer
        except TimeoutError:
            raise LogUnavailable(f"the commit was not answered within {COMMIT_WITHIN:g} s") from None
        if error is not None:
            raise LogUnavailable(str(error)) from error
