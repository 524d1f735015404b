"""`evalstream log copy`: take the logs along, from a file to topics, back, or to another number of partitions.

Until a copy is whole, its topics have a setting with which no service uses them.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from collector.backoff import Backoff
from collector.commands.audit.audit import audit_logs
from collector.commands.log_copy.copying import COPY_NOTE, CopiedLog, LogCopy, groups_by_log, oldest_retained
from collector.config.configured import Config
from collector.config.settings import KafkaLogSettings
from collector.errors import DONE, FAILED, ConfigError
from collector.logs.kafka import KafkaLog, KafkaSettings, topics as kafka_topics
from collector.logs.log import GroupInUse, Log, LogError, LogUnavailable, RecordTooLarge
from collector.service.assembly_builder import trace_limits
from collector.service.kafka_settings import SERVICE_RIGHTS, group_of, settings_of_log, settings_of_source
from collector.service.live.history import ConfigurationHistory
from collector.service.open_logs import COPIED, Logs, names_of, open_logs, open_stored_logs, topic_configs
from collector.service.plan_builder import build_unasked_plan
from collector.wording import listed, plural


class WholeAlready(ConfigError):
    """The topics of the target hold a whole copy."""


_RIGHTS = (*SERVICE_RIGHTS, "ALTER_CONFIGS", "DELETE")
"""Operations that a copy needs of the topics that it writes."""


async def _require_rights(settings: KafkaSettings, log: KafkaLogSettings, to: Config, there: Sequence[str]) -> None:
    """See that this user may do all that a copy does, of which commits are the last step.

    Raises:
        NotPermitted: it may not. The sentence names all permissions that are missing.
    """
    missing = [topic for name in names_of(**to.optional_logs) if (topic := f"{log.prefix}.{name}") not in there]
    copies = {"replication_factor": log.replication_factor, "validate_only": True, "rights": _RIGHTS}
    await asyncio.to_thread(
        kafka_topics.require_all,
        partial(kafka_topics.inspect, settings, [], _groups(log, to)),
        partial(kafka_topics.ensure_topics, settings, missing, log.partitions, **copies),
        partial(kafka_topics.require_rights, settings, there, *_RIGHTS),
    )


@asynccontextmanager
async def kafka_target(log: KafkaLogSettings, to: Config) -> AsyncGenerator[Logs]:
    """The logs of empty topics. Left without an error, a service may use them: that is the last step.

    Raises:
        ConfigError: the topics hold something that is not of an interrupted copy, or have other partitions.
    """
    names, where = names_of(**to.optional_logs), to.source
    topics = {name: f"{log.prefix}.{name}" for name in names}
    settings = settings_of_log(log)
    try:
        every = [f"{log.prefix}.{name}" for name in names_of(linking=True, page=True, judged_spans=True)]
        before = await asyncio.to_thread(kafka_topics.states, settings, every)
        await _require_rights(settings, log, to, [topic for topic in topics.values() if topic in before])
        if any(state.records for state in before.values()):
            await _require_unfinished(settings, topics, before, where)
            # The note that a copy began them goes last: this may be interrupted, too.
            noted = {topics["definitions"]: before.pop(topics["definitions"])}
            await asyncio.to_thread(kafka_topics.empty, settings, before)
            await asyncio.to_thread(kafka_topics.empty, settings, noted)
            before |= noted
        copied = [topic for topic in topics.values() if topic in before]
        await asyncio.to_thread(kafka_topics.set_timestamps, settings, copied, kafka_topics.CREATE_TIME)
        opened = await KafkaLog.open(
            settings,
            topics,
            log.partitions,
            replication_factor=log.replication_factor,
            configs=topic_configs(log, names),
            copying=True,
            rights=_RIGHTS,
        )
    except LogError as error:
        raise ConfigError(f"{where}: log.kafka: {error}") from error
    try:
        yield Logs(**{name: opened[name] for name in names})
    finally:
        for kafka_log in opened.values():
            await kafka_log.close()
    await asyncio.to_thread(kafka_topics.set_timestamps, settings, list(topics.values()), kafka_topics.APPEND_TIME)


@asynccontextmanager
async def opened_as_they_are(
    settings: KafkaSettings, topics: Mapping[str, str], there: Mapping[str, kafka_topics.TopicState]
) -> AsyncGenerator[Mapping[str, KafkaLog]]:
    """The logs of the topics that exist, by name, even if an interrupted copy made them."""
    named = {name: topic for name, topic in topics.items() if topic in there}
    first = there[topics["definitions"]]
    is_copy = first.timestamps == kafka_topics.CREATE_TIME
    opened = await KafkaLog.open(settings, named, first.partitions, copying=is_copy)
    try:
        yield opened
    finally:
        for log in opened.values():
            await log.close()


async def _require_unfinished(
    settings: KafkaSettings, topics: Mapping[str, str], before: Mapping[str, kafka_topics.TopicState], where: str
) -> None:
    """Check that the topics' records come from an interrupted copy."""
    key = f"{where}: log.kafka.prefix"
    problem = ConfigError(f"{key}: topics of this name hold records already; use another prefix for the copy")
    definitions = topics["definitions"]
    if definitions not in before:
        raise problem
    async with opened_as_they_are(settings, {"definitions": definitions}, before) as opened:
        if not await _was_begun_by_copy(opened["definitions"]):
            raise problem
    if all(state.timestamps == kafka_topics.APPEND_TIME for state in before.values()):
        raise WholeAlready(f"{key}: topics of this name hold a whole copy already; use them, or another prefix")


async def _was_begun_by_copy(log: Log) -> bool:
    async for batch in log.read(0, await log.start_offset(0)):
        return batch[0].key == COPY_NOTE
    return False


def copy_positions(settings: KafkaSettings, group: str, former: str, topics: Collection[str]) -> int:
    """Give `group` the positions of `former`, whatever it has itself; returns for how many partitions. Blocks.

    Raises:
        LogUnavailable: no broker answers, or the former group has members.
    """
    with kafka_topics.administrating(settings) as admin:
        offsets = kafka_topics.committed_by(admin, [former])[former]
        positions = {where: offset for where, offset in offsets.items() if where.topic in topics and offset.offset >= 0}
        members = admin.describe_groups([former])[former]["members"]
        if readers := [member["client_id"] for member in members if _may_read(member["member_metadata"], topics)]:
            raise LogUnavailable(f"{', '.join(readers)} still reads as the group {former}")
        if positions:
            kafka_topics.commit_with(admin, group, positions)
        return len(positions)


def _may_read(subscription: Any, topics: Collection[str]) -> bool:
    """Whether a member's subscription has one of the topics, or cannot be read."""
    return not isinstance(subscription, dict) or any(topic in subscription["topics"] for topic in topics)


UNFINISHED = ".copy"
"""The ending of the file's name until the copy is complete."""


@asynccontextmanager
async def sqlite_target(to: Config) -> AsyncGenerator[Logs]:
    """The logs of a new file. Left without an error, it has its name: that is one step, and on the disk.

    Raises:
        ConfigError: there is such a file already.
    """
    settings, where = to.settings.log, to.source
    path = Path(settings.path)
    unfinished = path.with_name(path.name + UNFINISHED)
    _begin(path, unfinished, where)
    async with open_logs(settings.model_copy(update={"path": str(unfinished)}), **to.optional_logs) as logs:
        yield logs
    _finish(path, unfinished, where)


def _begin(path: Path, unfinished: Path, where: str) -> None:
    if path.exists():
        raise ConfigError(
            f"{where}: log.path: there is a file {path} already; name one that does not exist, "
            "or use it if log copy made it: a copy gets its name once it is whole"
        )
    for end in ("", "-wal", "-shm"):  # of a copy that was interrupted
        unfinished.with_name(unfinished.name + end).unlink(missing_ok=True)


def _finish(path: Path, unfinished: Path, where: str) -> None:
    if path.exists():
        raise ConfigError(f"{where}: log.path: meanwhile there is a file {path}; name one that does not exist")
    unfinished.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


_COMMITTING = Backoff(cap=2.0, deadline=60.0)
"""A new cluster makes its topic of commits when the first group commits, which takes a while."""


async def copy_logs(
    config: Config,
    to: Config,
    say: Callable[[str], None],
    seen: Callable[[Log], Log] = lambda log: log,
    erased: str = "",
) -> int:
    """Copy all logs of a configuration into the logs of another; the exit status: 1 if the copy does not add up.

    The target is usable when all is done, and not before: what is interrupted can be run again. `seen` is what the copy
    sees of a log, and `erased` the key of a note in the source, if that is not all.

    Raises:
        ConfigError: the source is in use, the target is not empty, or one of them cannot be read or written.
    """
    _require_other(config, to)
    async with open_stored_logs(config.settings.log, **config.optional_logs) as logs:
        await require_unused(config, logs)
        source = Logs(**{log.name: seen(log) for log in logs})
        try:
            async with _target(to) as target:
                status = await _copy(config, to, source, target, say)
                notes = await logs.generated_steps()
                await notes.save(COPIED, to.source)  # before the copy can be used: no service starts on the source now
                if erased and not status:
                    await notes.save(erased, to.source)
        except RecordTooLarge as error:
            raise ConfigError(f"{to.source}: log: {error}; it cannot take what {config.source} has") from error
    if not erased:
        say(f"The copy is whole{'' if status else ', and its audit adds up'}. Next: evalstream run -c {to.source}")
        say(f"When that runs, delete the logs of {config.source}: they hold everything still, also what you erase.")
    return status


async def _copy(config: Config, to: Config, source: Logs, target: Logs, say: Callable[[str], None]) -> int:
    now = time.time()
    oldest = {log.name: oldest_retained(await log.retention(), now) for log in target}
    limits = trace_limits(config.settings.assemble)
    history = ConfigurationHistory(await source.generated_steps(), config)
    await history.find_newest()
    # The file may have been changed since; unfinished evaluations became due by the configuration in the log.
    plan = await history.plan_of(history.number) or build_unasked_plan(config, history.key)
    copy = LogCopy(plan, limits, config.exporters, source, target, now, history, oldest)
    for line in _lines(await copy.run()):
        say(line)
    if to.settings.page is not None:
        say(f"{'history':<14}not copied: the page makes it again from the evaluations, by the present thresholds")
    await _COMMITTING.repeat(copy.commit, LogUnavailable, action="committing for the groups")
    await _copy_source_positions(config, to)
    problems, text = await audit_logs(config, target)
    if problems:
        say(
            f"The audit of the copy says what does not add up; evalstream audit -c {config.source} says whether it did:"
        )
        say(text)
    return FAILED if problems else DONE


def _lines(copied: Sequence[CopiedLog]) -> Iterator[str]:
    for log in copied:
        left_out = [f"{number} {reason}" for reason, number in sorted(log.left_out.items()) if number]
        others = f"; left out: {listed(left_out)}" if left_out else ""
        yield f"{log.name:<14}{plural(log.copied, 'record')} copied{others}"


def _require_other(config: Config, to: Config) -> None:
    before, after = config.settings.log, to.settings.log
    if after.kind == "memory":
        raise ConfigError(f"{to.source}: log.kind is memory, which ends with the process; use sqlite or kafka")
    if before.kind == after.kind == "sqlite" and Path(before.path).resolve() == Path(after.path).resolve():
        raise ConfigError(f"{to.source}: log.path is the file that is to be copied; name another one")
    if before.kind == after.kind == "kafka" and before.kafka is not None and after.kafka is not None:
        same = set(before.kafka.bootstrap_servers) & set(after.kafka.bootstrap_servers)
        if same and before.kafka.prefix == after.kafka.prefix:
            raise ConfigError(f"{to.source}: log.kafka.prefix is that of the topics to be copied; use another one")


def _target(to: Config) -> AbstractAsyncContextManager[Logs]:
    kafka = to.settings.log.kafka
    return sqlite_target(to) if kafka is None else kafka_target(kafka, to)


async def require_unused(config: Config, logs: Logs) -> None:
    """See that no process consumes the logs; a SQLite file is reserved until it is closed.

    Raises:
        ConfigError: one does.
    """
    log = config.settings.log
    by_log = groups_by_log(config.exporters)
    if log.kind == "kafka" and log.kafka is not None:
        groups = _groups(log.kafka, config)
        try:
            state = await asyncio.to_thread(kafka_topics.inspect, settings_of_log(log.kafka), [], groups)
        except LogError as error:
            raise ConfigError(f"log.kafka: {error}") from error
        if members := sorted({name for group in groups for name in state.members.get(group, ())}):
            raise ConfigError(
                f"log.kafka: these logs have consumers, {listed(members)}: stop all processes of the service; those "
                f"with a group_instance_id stay members for {log.kafka.session_timeout:g} s (session_timeout) after "
                "their end"
            )
        return
    for each in logs:
        for group in by_log.get(each.name, ()):
            try:
                await each.claim(group)
            except GroupInUse as error:
                raise ConfigError(f"{log.path} is in use: stop all processes of the service") from error


def _groups(log: KafkaLogSettings, config: Config) -> list[str]:
    return [f"{log.prefix}.{group}" for groups in groups_by_log(config.exporters).values() for group in groups]


async def _copy_source_positions(config: Config, to: Config) -> None:
    """Have the topics of sources be read on, where their groups have another name now."""
    for former in config.settings.receive.kafka:
        for source in to.settings.receive.kafka:
            old, new = group_of(former, config.settings.log), group_of(source, to.settings.log)
            if old == new or not set(former.bootstrap_servers) & set(source.bootstrap_servers):
                continue
            settings = settings_of_source(source, to.settings.log)
            for kind, names in source.topics.items():
                if topics := set(names) & set(former.topics[kind]):
                    await asyncio.to_thread(copy_positions, settings, f"{new}.{kind}", f"{old}.{kind}", topics)
