"""Topics as the target of a copy: until it is whole they have a setting with which no service uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from collector.commands.log_copy.copying import COPY_NOTE
from collector.config.settings import KafkaLogSettings
from collector.errors import ConfigError
from collector.logs.kafka import KafkaLog, KafkaSettings
from collector.logs.kafka.topics import (
    APPEND_TIME,
    CREATE_TIME,
    TopicState,
    administrating,
    commit_with,
    committed_by,
    empty,
    set_timestamps,
    states,
)
from collector.logs.log import Log, LogError, LogUnavailable
from collector.service.kafka_settings import settings_of_log
from collector.service.open_logs import Logs, names_of, topic_configs


@asynccontextmanager
async def kafka_target(log: KafkaLogSettings, where: str, *, linking: bool, judged_spans: bool) -> AsyncGenerator[Logs]:
    """The logs of empty topics. Left without an error, a service may use them: that is the last step.

    Raises:
        ConfigError: the topics hold something that is not of an interrupted copy, or have other partitions.
    """
    names = names_of(linking=linking, judged_spans=judged_spans)
    topics = {name: f"{log.prefix}.{name}" for name in names}
    settings = settings_of_log(log)
    try:
        every = [f"{log.prefix}.{name}" for name in names_of(linking=True, page=True, judged_spans=True)]
        before = await asyncio.to_thread(states, settings, every)
        if any(state.records for state in before.values()):
            await _require_unfinished(settings, topics, before, where)
            # The note that a copy began them goes last: this may be interrupted, too.
            noted = {topics["definitions"]: before.pop(topics["definitions"])}
            await asyncio.to_thread(empty, settings, before)
            await asyncio.to_thread(empty, settings, noted)
            before |= noted
        copied = [topic for topic in topics.values() if topic in before]
        await asyncio.to_thread(set_timestamps, settings, copied, CREATE_TIME)
        opened = await KafkaLog.open(
            settings,
            topics,
            log.partitions,
            replication_factor=log.replication_factor,
            configs=topic_configs(log, names),
            copying=True,
        )
    except LogError as error:
        raise ConfigError(f"{where}: log.kafka: {error}") from error
    try:
        yield Logs(**{name: opened[name] for name in names})
    finally:
        for kafka_log in opened.values():
            await kafka_log.close()
    await asyncio.to_thread(set_timestamps, settings, list(topics.values()), APPEND_TIME)


async def _require_unfinished(
    settings: KafkaSettings, topics: Mapping[str, str], before: Mapping[str, TopicState], where: str
) -> None:
    """See that what the topics hold is of a copy that was interrupted."""
    key = f"{where}: log.kafka.prefix"
    problem = ConfigError(f"{key}: topics of this name hold records already; use another prefix for the copy")
    definitions = topics["definitions"]
    if definitions not in before:
        raise problem
    opened = await KafkaLog.open(
        settings, {"definitions": definitions}, before[definitions].partitions,
        copying=before[definitions].timestamps == CREATE_TIME,
    )  # fmt: skip
    log = opened["definitions"]
    try:
        if not await _was_begun_by_copy(log):
            raise problem
    finally:
        await log.close()
    if all(state.timestamps == APPEND_TIME for state in before.values()):
        raise ConfigError(f"{key}: topics of this name hold a whole copy already; use them, or another prefix")


async def _was_begun_by_copy(log: Log) -> bool:
    async for batch in log.read(0, await log.start_offset(0)):
        return batch[0].key == COPY_NOTE
    return False


def copy_positions(settings: KafkaSettings, group: str, former: str, topics: Collection[str]) -> int:
    """Give `group` the positions of `former`, whatever it has itself; returns for how many partitions. Blocks.

    Raises:
        LogUnavailable: no broker answers, or the former group has members.
    """
    with administrating(settings) as admin:
        offsets = committed_by(admin, [former])[former]
        positions = {where: offset for where, offset in offsets.items() if where.topic in topics and offset.offset >= 0}
        members = admin.describe_groups([former])[former]["members"]
        if readers := [member["client_id"] for member in members if _may_read(member["member_metadata"], topics)]:
            raise LogUnavailable(f"{', '.join(readers)} still reads as the group {former}")
        if positions:
            commit_with(admin, group, positions)
        return len(positions)


def _may_read(subscription: Any, topics: Collection[str]) -> bool:
    """Whether a member's subscription has one of the topics, or cannot be read."""
    return not isinstance(subscription, dict) or any(topic in subscription["topics"] for topic in topics)
