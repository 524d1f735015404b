"""Groups got the prefix of their logs: what they had read under their names of before is not read again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from broker_security import grant, set_password
from folds import Recorder, Recorders, following
from kafka_logs import commits, fresh, numbered, open_log

from collector.logs.kafka import Credentials
from collector.logs.kafka_security import KafkaSecuritySettings
from collector.logs.log import Committed

pytestmark = pytest.mark.kafka


def note(fold: Recorder) -> None:
    fold.metadata = "a note"


async def test_positions_and_notes_are_taken_over(kafka_broker: Any) -> None:
    topic, group = fresh("turns"), fresh("evaluate")
    async with open_log(kafka_broker, topic=topic, partitions=2) as log:
        await log.append([*numbered(0, 9), *numbered(0, 5, partition=1)])
        before = Recorders(note)
        async with following(log, group, before.open_fold):
            await before.until(lambda: len(before.delivered) == 14)
            before.folds[0].low_watermark = 4
        await log.append(numbered(9, 12))
    async with open_log(kafka_broker, topic=topic, partitions=2, group_prefix="mine.") as log:
        after = Recorders()
        async with following(log, group, after.open_fold):
            await after.until(lambda: len(after.delivered) == 3 and len(after.folds) == 2)
        assert after.values == [b"9", b"10", b"11"]
        assert [each.value for each in after.replayed] == [b"%d" % number for number in range(4, 9)]
        assert after.folds[0].committed == Committed(4, 9, "a note")
        assert after.folds[1].committed == Committed(5, 5, "a note")
        assert (await commits(kafka_broker, f"mine.{group}"))[0].offset == 12
        again = Recorders()  # from its own position, not from the former one
        async with following(log, group, again.open_fold):
            await log.append(numbered(12, 13))
            await again.until(lambda: again.delivered)
        assert again.values == [b"12"]


@pytest.mark.long
async def test_former_members_that_still_read_the_topic_are_waited_for(kafka_broker: Any) -> None:
    topic, other, group = fresh("turns"), fresh("turns"), fresh("evaluate")
    async with (
        open_log(kafka_broker, topic=topic) as old,
        open_log(kafka_broker, topic=topic, group_prefix="mine.") as new,
        open_log(kafka_broker, topic=other) as unrelated,
    ):
        before, after, elsewhere = Recorders(), Recorders(), Recorders()
        async with following(unrelated, group, elsewhere.open_fold):  # another deployment of the earlier version
            await unrelated.append(numbered(0, 1))
            await elsewhere.until(lambda: elsewhere.delivered)
            async with following(old, group, before.open_fold):
                await old.append(numbered(0, 3))
                await before.until(lambda: len(before.delivered) == 3)
                await asyncio.sleep(1.5)  # it commits
                waiting = asyncio.create_task(new.follow(group, after.open_fold))
                await asyncio.sleep(2.5)
                await old.append(numbered(3, 5))
                await before.until(lambda: len(before.delivered) == 5)
                assert not after.folds, "both read the same"
            await new.append(numbered(5, 6))
            await after.until(lambda: after.delivered)
            waiting.cancel()
            await asyncio.wait([waiting])
    assert after.values == [b"5"]


async def test_without_a_former_group_it_begins_at_the_start(kafka_broker: Any) -> None:
    async with open_log(kafka_broker, group_prefix="mine.") as log:
        await log.append(numbered(0, 3))
        got = Recorders()
        async with following(log, fresh("evaluate"), got.open_fold):
            await got.until(lambda: len(got.delivered) == 3)


async def test_who_may_not_see_the_former_group_begins_at_the_start(secured_broker: Any) -> None:
    """As a new deployment does, whose ACLs are for its prefix alone."""
    user, topic = fresh("user"), fresh("mine.turns")
    set_password(secured_broker.bootstrap, user, "secret")
    grant(secured_broker.bootstrap, user, "TOPIC", topic, "READ", "WRITE", "CREATE", "DESCRIBE_CONFIGS")
    grant(secured_broker.bootstrap, user, "GROUP", "mine.", "READ")
    security = KafkaSecuritySettings.model_validate(
        {
            "protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": user, "password": "secret",
            "ca": secured_broker.certificates.ca,
        }
    )  # fmt: skip
    changes = {"bootstrap_servers": [secured_broker.secure], "credentials": Credentials(security)}
    async with open_log(secured_broker, topic=topic, group_prefix="mine.", **changes) as log:
        await log.append(numbered(0, 3))
        got = Recorders()
        async with following(log, fresh("evaluate"), got.open_fold):
            await got.until(lambda: len(got.delivered) == 3)
