"""A consumer of a group, the event loop's side: folds open and close with the partitions that its thread reports."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from collector.logs.consumer_runner import Append, Batch, ConsumerRunner, ConsumerTiming, PartitionFeed
from collector.logs.kafka.consumer_thread import ConsumerThread, Membership
from collector.logs.kafka.owned_partitions import PrefetchLimiter
from collector.logs.kafka.settings import KafkaSettings
from collector.logs.kafka.subscription import Assigned, Polled, Subscription
from collector.logs.log import Committed, LogError, LogUnavailable, OpenFold

COMMIT_WITHIN = 10.0
"""Seconds that a commit may take."""


class _GroupStream:
    """The records of one partition that were polled and not yet delivered."""

    def __init__(self, assigned: Assigned, flow: PrefetchLimiter, timing: ConsumerTiming) -> None:
        self.epoch = assigned.epoch
        self.waiting = False
        self._partition = assigned.partition
        self._flow = flow
        self._batch_records = timing.batch_records
        self._polled: deque[Polled] = deque()
        self._arrived = asyncio.Event()

    def put(self, polled: Polled) -> None:
        self._polled.append(polled)
        self._arrived.set()

    def close(self) -> None:
        """Deliver nothing any more."""
        self._polled.clear()

    async def next(self) -> Batch:
        """All that was polled, up to the size of a batch and at least one poll's."""
        while not self._polled:
            self.waiting = True
            self._arrived.clear()
            await self._arrived.wait()
        self.waiting = False
        first = self._polled.popleft()
        records, end, size = first.records, first.end_offset, first.size
        while self._polled and len(records) + len(self._polled[0].records) <= self._batch_records:
            more = self._polled.popleft()
            records, end, size = [*records, *more.records], more.end_offset, size + more.size
        self._flow.add(self._partition, -len(records), -size)
        return Batch(records, end)


class GroupConsumer:
    """Consumes topics with a group for as long as `run` runs."""

    def __init__(
        self, settings: KafkaSettings, subscription: Subscription, timing: ConsumerTiming, *, append: Append | None
    ) -> None:
        self._timing = timing
        self._append = append
        self._flow = PrefetchLimiter(*settings.max_queued)
        self._streams: dict[int, _GroupStream] = {}
        self.feeds: dict[int, PartitionFeed] = {}
        """By the number of the partition."""
        self.is_member = False
        """Whether a broker has confirmed the membership, and all partitions that it gave are in `feeds`."""
        self._changes: asyncio.Queue[PartitionFeed | Sequence[int] | LogError] = asyncio.Queue()
        self._thread = ConsumerThread(settings, subscription, self, flow=self._flow)
        self.membership = Membership(settings.session_timeout, self._thread.ask_membership)

    async def run(self, open_fold: OpenFold) -> None:
        """Consume until cancelled."""
        runner = ConsumerRunner(open_fold, self._commit, self._append, self._timing)

        async def body() -> None:
            while True:
                await self._change(runner, await self._changes.get())

        self._thread.start()
        try:
            await runner.run(body)
        finally:
            await asyncio.shield(self._thread.stop())

    async def _change(self, runner: ConsumerRunner, change: PartitionFeed | Sequence[int] | LogError) -> None:
        if isinstance(change, LogError):
            raise change
        if isinstance(change, PartitionFeed):
            if not change.is_revoked:
                runner.assign(change)
            return
        await asyncio.gather(*map(runner.revoke, change))
        self.membership.closed()

    def assigned(self, assigned: Assigned) -> None:
        """A partition was assigned: queue its records from now on; its fold opens when the one before is closed."""
        partition, committed, start = assigned.partition, assigned.committed, assigned.start
        stream = self._streams[partition] = _GroupStream(assigned, self._flow, self._timing)
        feed = PartitionFeed(partition, committed, start, stream, self._timing, self.membership.confirm)
        self.feeds[partition] = feed
        self._changes.put_nowait(feed)

    def revoked(self, partitions: Sequence[int]) -> None:
        """Partitions were revoked."""
        self.is_member = False
        self.membership.revoked()
        for partition in partitions:
            if partition in self.feeds:
                self.feeds.pop(partition).is_revoked = True
                self._streams.pop(partition).close()
        self._changes.put_nowait(partitions)

    def polled(self, polled: Sequence[Polled]) -> None:
        """Records were fetched."""
        for batch in polled:
            if batch.partition in self._streams:
                self._streams[batch.partition].put(batch)

    def confirmed(self, sent_at: float) -> None:
        """A broker has answered a heartbeat."""
        self.is_member = not self._thread.owned.unreported
        self.membership.confirmed(sent_at)

    def failed(self, error: LogError) -> None:
        """The thread has ended."""
        self._changes.put_nowait(error)

    def pending(self, partition: int) -> Committed | None:
        """The position to commit for a partition."""
        feed = self.feeds.get(partition)
        return feed.last_uncommitted if feed is not None else None

    async def _commit(self, states: Mapping[int, Committed]) -> None:
        answer: asyncio.Future[LogError | None] = asyncio.get_running_loop().create_future()

        def done(error: LogError | None) -> None:
            if not answer.done():
                answer.set_result(error)

        of_epochs = {number: (self._streams[number].epoch, state) for number, state in states.items()}
        self._thread.commit(of_epochs, done)
        try:
            async with asyncio.timeout(COMMIT_WITHIN):  # not wait_for: before Python 3.12 it can swallow a cancellation
                error = await answer
        except TimeoutError:
            raise LogUnavailable(f"the commit was not answered within {COMMIT_WITHIN:g} s") from None
        if error is not None:
            raise LogUnavailable(str(error)) from error
