"""A right, or a topic, that is lost while it is read or written: it is said, with the name, for as long as it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from broker import Broker
from broker_security import grant, revoke
from kafka import KafkaAdminClient
from kafka_logs import fresh, produce
from log_stores import TIMING
from test_kafka_security import TOPIC_RIGHTS, scram, user_of

from collector.logs.kafka import KafkaLog, KafkaSettings
from collector.logs.kafka.source import KafkaSource
from collector.logs.log import Committed, LogError, LogRefused, Record, StoredRecord

pytestmark = pytest.mark.kafka
LASTS = 5.0
"""Seconds, ten times the age of metadata here: what follows from a refusal, and from metadata, has been seen."""


class Counting:
    due_at, metadata, low_watermark = None, "", None

    def __init__(self, values: list[bytes]) -> None:
        self._values = values

    async def replay(self, records: Sequence[StoredRecord]) -> None: ...

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        self._values.extend(record.value for record in records)


class Owner(NamedTuple):
    """A user of a broker, with topics that begin with a name and a group of that name."""

    broker: Broker
    user: str
    name: str

    @property
    def server(self) -> str:
        return self.broker.bootstrap

    def administrate(self, ask: Callable[[KafkaAdminClient], object]) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.server)
        try:
            ask(admin)
        finally:
            admin.close()

    def make(self) -> None:
        self.administrate(
            lambda admin: admin.create_topics({self.name: {"num_partitions": 2, "replication_factor": 1}})
        )

    def change(self, how: Callable[..., None], kind: str, *rights: str) -> None:
        how(self.server, self.user, kind, self.name, *rights)


@pytest.fixture(autouse=True)
def _metadata_is_young(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    options = KafkaSettings.client_options
    monkeypatch.setattr(KafkaSettings, "client_options", lambda self: {**options(self), "metadata_max_age_ms": 500})


@pytest.fixture
def owner(secured_broker: Broker) -> Owner:
    made = Owner(secured_broker, user_of(secured_broker, "x"), fresh("lost"))
    made.change(grant, "TOPIC", *TOPIC_RIGHTS)
    made.change(grant, "GROUP", "READ")
    return made


def settings_of(owner: Owner) -> KafkaSettings:
    return replace(scram(owner.broker, owner.user, "x"), group_prefix=f"{owner.name}.")


async def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(40):
            while not condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(what()) from None


async def problems_of(problem: Callable[[], Any], seconds: float) -> list[object]:
    """What is said, from the first complaint on."""
    await until(lambda: problem() is not None, lambda: "nothing is said")
    seen: list[object] = []
    for _ in range(round(seconds / 0.05)):
        seen.append(problem())
        await asyncio.sleep(0.05)
    return seen


LOSSES: dict[str, tuple[Callable[[Owner], object], Callable[[Owner], object]]] = {
    "READ": (lambda of: of.change(revoke, "TOPIC", *TOPIC_RIGHTS), lambda of: of.change(grant, "TOPIC", "READ")),
    "READ, not DESCRIBE": (
        lambda of: (of.change(grant, "TOPIC", "DESCRIBE"), of.change(revoke, "TOPIC", *TOPIC_RIGHTS)),
        lambda of: of.change(grant, "TOPIC", "READ"),
    ),
    "the group": (lambda of: of.change(revoke, "GROUP", "READ"), lambda of: of.change(grant, "GROUP", "READ")),
    "the topic": (lambda of: of.administrate(lambda admin: admin.delete_topics([of.name])), Owner.make),
}


@pytest.mark.long
@pytest.mark.parametrize("loss", LOSSES)
async def test_what_a_source_has_lost_is_said_for_as_long_as_it_is_lost(owner: Owner, loss: str) -> None:
    """READ was said for half a minute, and the topic never: then the source was ready, and read nothing."""
    values: list[bytes] = []

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Counting]:
        yield Counting(values)

    async def send() -> None:
        await produce(owner.broker, owner.name, [{"value": b"%d" % number} for number in range(10)])

    await asyncio.to_thread(owner.make)
    source = await KafkaSource.open(settings_of(owner), [owner.name], start="earliest", timing=TIMING)
    following = asyncio.create_task(source.follow(owner.name, open_fold))
    try:
        await send()
        await until(lambda: len(values) == 10, lambda: values)
        assert source.problem() is None
        lose, return_it = LOSSES[loss]
        await asyncio.to_thread(lose, owner)
        said = await problems_of(source.problem, LASTS)
        assert None not in said
        assert owner.name in str(said[-1]) or loss == "the group"
        await asyncio.to_thread(return_it, owner)
        await send()
        await until(lambda: len(values) >= 20 and source.problem() is None, lambda: (len(values), source.problem()))
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


@pytest.mark.long
@pytest.mark.parametrize("loss", ["READ", "WRITE", "DELETE"])
async def test_what_a_log_has_lost_is_said_for_as_long_as_it_is_lost(
    owner: Owner, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without WRITE anywhere a new producer is refused, in words that the client does not tell from an outage."""
    monkeypatch.setattr("collector.logs.kafka.producer.REFUSED_FOR", 1.5)
    logs = await KafkaLog.open(settings_of(owner), {"spans": f"{owner.name}.spans"}, 2, timing=TIMING)
    log, values, problem = logs["spans"], list[bytes](), list[LogError | None]([None])

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Counting]:
        yield Counting(values)

    async def write() -> None:
        while True:
            with suppress(LogError):
                await log.append([Record(b"k", b"1")])
            await asyncio.sleep(0.2)

    async def look() -> None:
        while True:
            try:
                await log.probe()
                problem[0] = None
            except LogError as error:
                problem[0] = error
            await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(task) for task in (log.follow("assemble", open_fold), write(), look())]
    try:
        await until(lambda: bool(values), lambda: problem)
        if loss == "DELETE":
            await asyncio.to_thread(owner.administrate, lambda admin: admin.delete_topics([f"{owner.name}.spans"]))
        else:
            await asyncio.to_thread(owner.change, revoke, "TOPIC", loss)
        said = await problems_of(lambda: problem[0], LASTS + 10.0 * (loss == "DELETE"))
        assert None not in said
        assert isinstance(said[-1], LogRefused)
        assert f"{owner.name}.spans" in str(said[-1])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await log.close()


@pytest.mark.long
async def test_one_of_two_topics_that_is_refused_is_said_until_that_one_is_read(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    """Four seconds after the failure the group succeeded, as the other topic was read on."""
    caplog.set_level("INFO", logger="collector.backoff")
    lost, kept = owner._replace(name=f"{owner.name}.a"), owner._replace(name=f"{owner.name}.b")
    values: list[bytes] = []

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Counting]:
        yield Counting(values)

    async def send(topic: Owner) -> None:
        await produce(owner.broker, topic.name, [{"value": topic.name.encode()} for _ in range(10)])

    owner.change(revoke, "TOPIC", *TOPIC_RIGHTS)
    for topic in (lost, kept):
        topic.make()
        topic.change(grant, "TOPIC", "READ")
    source = await KafkaSource.open(settings_of(owner), [lost.name, kept.name], start="earliest", timing=TIMING)
    following = asyncio.create_task(source.follow(owner.name, open_fold))
    try:
        await send(lost)
        await send(kept)
        await until(lambda: len(values) == 20, lambda: values)
        await asyncio.to_thread(lost.change, revoke, "TOPIC", "READ")
        seen = asyncio.create_task(problems_of(source.problem, 2 * LASTS))
        while not seen.done():
            await send(kept)
            await asyncio.sleep(0.2)
        assert all(lost.name in str(problem) for problem in seen.result())
        assert len(values) > 20, "the other topic does not wait"
        await asyncio.to_thread(lost.change, grant, "TOPIC", "READ")
        await send(lost)
        await until(lambda: values.count(lost.name.encode()) >= 20, lambda: (values, source.problem()))
        await until(lambda: source.problem() is None, source.problem)
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
    lines = [record.getMessage() for record in caplog.records if "reading" in record.getMessage()]
    assert [line.partition(" (")[0].partition(" after")[0] for line in lines] == [
        f"reading {lost.name} for group {owner.name} failed",
        f"reading {lost.name} for group {owner.name} succeeded",
    ]
