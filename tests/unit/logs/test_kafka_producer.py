"""What the producer hands over to kafka-python, and when. What brokers say to it: tests/integration/test_kafka_log.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from kafka.errors import IllegalStateError, TopicAuthorizationFailedError

from collector.logs.kafka import producer as producing
from collector.logs.kafka.producer import SharedProducer
from collector.logs.kafka.settings import KafkaSettings
from collector.logs.log import LogUnavailable, NotPermitted, Record

SETTINGS = KafkaSettings(bootstrap_servers=["nowhere:1"])
Step = tuple[str, object]


class Sent:
    """A record that is acknowledged as soon as somebody wants to know."""

    def add_callback(self, acknowledged: Callable[[object], None]) -> None:
        acknowledged(None)

    def add_errback(self, failed: Callable[[Exception], None]) -> None:
        pass


class Sender:
    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    def wakeup(self) -> None:
        self._steps.append(("wake", None))


class Client:
    """A producer that wakes its thread for each record."""

    _transaction_manager = None

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._sender = Sender(steps)

    def send(self, topic: str, value: bytes, *_more: object) -> Sent:
        self._steps.append((topic, value))
        self._sender.wakeup()
        return Sent()

    def close(self, timeout: float) -> None:
        pass


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    made: list[Step] = []

    def connect(*_arguments: object) -> Client:
        return Client(made)

    monkeypatch.setattr(producing, "connect", connect)
    return made


def records(*values: bytes) -> dict[int, list[Record]]:
    return {partition: [Record(b"k", value)] for partition, value in enumerate(values)}


async def test_what_comes_at_the_same_time_is_handed_over_together_and_wakes_the_thread_once(steps: list[Step]) -> None:
    producer = SharedProducer(SETTINGS)
    await producer.append("spans", records(b"first"), 100)  # connects
    steps.clear()
    await asyncio.gather(
        producer.append("spans", records(b"a", b"b"), 100), producer.append("turns", records(b"c"), 100)
    )
    await producer.close()
    assert steps == [("spans", b"a"), ("spans", b"b"), ("turns", b"c"), ("wake", None)]


async def test_much_does_not_wait_for_more(steps: list[Step]) -> None:
    producer = SharedProducer(replace(SETTINGS, linger=3600.0))
    async with asyncio.timeout(10):
        await asyncio.gather(
            producer.append("spans", records(b"a"), 100),
            producer.append("spans", records(b"b"), producing.GATHERED_BYTES),
        )
    await producer.close()


async def test_of_what_is_given_up_before_it_is_handed_over_nothing_is_sent(steps: list[Step]) -> None:
    producer = SharedProducer(SETTINGS)
    given_up = asyncio.create_task(producer.append("spans", records(b"a"), 100))
    other = asyncio.create_task(producer.append("spans", records(b"b"), 100))
    await asyncio.sleep(0)
    given_up.cancel()
    await other
    assert [each for each in steps if each[0] == "spans"] == [("spans", b"b")]
    assert producer.in_flight.items == 0
    await producer.close()


async def test_what_waits_when_it_is_closed_ends(steps: list[Step]) -> None:
    producer = SharedProducer(replace(SETTINGS, linger=3600.0, max_in_flight=(1, 1000)))
    gathered, waiting = (
        asyncio.create_task(producer.append("spans", records(value), 100)) for value in (b"gathered", b"waits its turn")
    )
    await asyncio.sleep(0.01)
    await producer.close()
    async with asyncio.timeout(10):
        _, found = await asyncio.gather(gathered, waiting, return_exceptions=True)  # the first may have been in time
    assert isinstance(found, LogUnavailable)


class Unanswered:
    """A record that is on its way."""

    def __init__(self, client: BreakingClient) -> None:
        self._client = client

    def add_callback(self, _acknowledged: Callable[[object], None]) -> None: ...

    def add_errback(self, failed: Callable[[Exception], None]) -> None:
        self._client.on_their_way.append(failed)


class BreakingClient(Client):
    """An idempotent producer: after a refusal it fails all else, and what is on its way ends when it is closed."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__(steps)
        self.on_their_way: list[Callable[[Exception], None]] = []
        self.broken = self.closed = False

    def send(self, topic: str, value: bytes, *_more: object) -> Unanswered:
        if self.closed:
            raise IllegalStateError("KafkaProducer already closed!")
        super().send(topic, value)
        return Unanswered(self)

    def refuse(self) -> None:
        self.broken = True
        self.on_their_way.pop()(TopicAuthorizationFailedError("no"))


async def test_no_append_is_given_to_a_closed_producer_and_what_was_on_its_way_ends(
    steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal ended the appends of others with `IllegalStateError: Producer is closed forcefully.`"""
    clients: list[BreakingClient] = []

    def connect(*_arguments: object) -> Client:
        clients.append(BreakingClient(steps) if not clients else Client(steps))  # type: ignore[arg-type]
        return clients[-1]

    def abandon(client: BreakingClient) -> None:
        client.closed = True
        for failed in client.on_their_way:
            failed(IllegalStateError("Producer is closed forcefully."))

    monkeypatch.setattr(producing, "connect", connect)
    monkeypatch.setattr(producing, "abandon", abandon)
    monkeypatch.setattr(producing, "is_broken", lambda client: getattr(client, "broken", False))
    producer = SharedProducer(SETTINGS)

    async def appending(topic: str) -> asyncio.Task[None]:
        before = len(steps)
        task = asyncio.create_task(producer.append(topic, records(b"x"), 100))
        while len(steps) == before and not task.done():
            await asyncio.sleep(0.001)
        return task

    on_its_way, refused = await appending("spans"), await appending("turns")
    clients[0].refuse()
    async with asyncio.timeout(10):
        with pytest.raises(NotPermitted, match=r"turns.*WRITE of it"):
            await refused
        await (await appending("spans"))
        with pytest.raises(
            LogUnavailable, match=r"its producer was closed before brokers acknowledged the .*turns.*WRITE"
        ):
            await on_its_way
    assert clients[0].closed
    assert len(clients) == 2
    assert producer.in_flight.items == 0
    await producer.close()
