"""Three brokers, three copies, two in sync: what one broker alone cannot show."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest
from broker import Broker, BrokerUnavailable, running_cluster
from kafka import KafkaAdminClient
from kafka_logs import fresh, settings_for

from collector.backoff import Backoff
from collector.evaluate.recovery.ledger import append_with_retry
from collector.logs.kafka import KafkaLog
from collector.logs.log import LogUnavailable, Record

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[Broker]]:
    try:
        with running_cluster(3) as cluster:
            yield cluster
    except BrokerUnavailable as error:
        pytest.skip(str(error))


def leader_of(brokers: list[Broker], topic: str) -> int:
    """The index of the broker that leads the topic's only partition."""
    admin = KafkaAdminClient(bootstrap_servers=[broker.bootstrap for broker in brokers])
    try:
        [described] = admin.describe_topics([topic])
    finally:
        admin.close()
    return described["partitions"][0]["leader_id"] - 1


async def test_an_evaluation_that_a_leader_held_alone_is_not_written_twice(brokers: list[Broker]) -> None:
    """Both replicas are away for longer than the delivery timeout: nobody can read what the leader has taken."""
    topic = fresh("evaluations")
    every = [broker.bootstrap for broker in brokers]
    settings = settings_for(brokers[0], bootstrap_servers=every, delivery_timeout=3.0, request_timeout=2.0)
    opening = Backoff(deadline=120.0)  # the controllers find each other first

    async def opened() -> Mapping[str, KafkaLog]:
        return await KafkaLog.open(settings, {"evaluations": topic}, 1, replication_factor=3)

    log = (await opening.repeat(opened, LogUnavailable, action="opening the log"))["evaluations"]
    try:
        await log.append([Record(b"before", b"{}", partition=0)])
        leader = await asyncio.to_thread(leader_of, brokers, topic)
        replicas = [broker for index, broker in enumerate(brokers) if index != leader]
        since = await log.end_offset(0)
        for broker in replicas:
            broker.kill()
        records = [Record(b"evaluation %d" % number, b"{}", partition=0) for number in range(3)]
        writing = asyncio.create_task(append_with_retry(log, *records, backoff=Backoff(cap=0.5), since=since))
        await asyncio.sleep(25.0)  # several delivery timeouts; the replicas stay in sync for 30 s
        assert not writing.done()
        for broker, seen in [(broker, broker.begin()) for broker in replicas]:
            broker.wait_ready(seen)
        async with asyncio.timeout(120):
            await writing
        stored = [record.key async for batch in log.read(0, 0) for record in batch if not record.is_tick]
        assert stored == [b"before", b"evaluation 0", b"evaluation 1", b"evaluation 2"]
    finally:
        await log.close()
