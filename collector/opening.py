"""Opens the logs that the configuration asks for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from collector.config.settings import KafkaLogSettings, LogSettings
from collector.errors import ConfigError
from collector.logs.log import Log, LogError

NAMES = ("spans", "turns", "evaluations", "definitions", "dead_letters", "labels")
UNLINKED = "unlinked"


def names_of(*, linking: bool) -> Sequence[str]:
    """The names of the logs that are opened: all, but that of unlinked turns only with `linking`."""
    return (*NAMES, UNLINKED) if linking else NAMES


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of the service. `definitions` keeps judges' answers to constant questions, like evaluation steps,
    `dead_letters` what could not be processed, `labels` what people said on the page. `unlinked` holds turns that name
    no conversation until they are given one; None if that is not asked for.
    """

    spans: Log
    turns: Log
    evaluations: Log
    definitions: Log
    dead_letters: Log
    labels: Log
    unlinked: Log | None = None

    def __iter__(self) -> Iterator[Log]:
        always = (self.spans, self.turns, self.evaluations, self.definitions, self.dead_letters, self.labels)
        return (each for each in (*always, self.unlinked) if each is not None)


@asynccontextmanager
async def open_logs(settings: LogSettings, *, linking: bool = False) -> AsyncGenerator[Logs]:
    """Open all logs, with `linking` that of unlinked turns, too; they are closed on leaving.

    Raises:
        ConfigError: what is there does not fit the configuration.
    """
    try:
        logs = await _open(settings, names_of(linking=linking))
    except LogError as error:
        raise ConfigError(f"log: {error}") from error
    try:
        yield logs
    finally:
        for log in logs:
            await log.close()


async def _open(settings: LogSettings, names: Sequence[str]) -> Logs:
    match settings.kind:
        case "memory":
            from collector.logs.memory import MemoryLog

            return Logs(*(MemoryLog(name, partitions=1) for name in names))
        case "sqlite":
            from collector.logs.sqlite import SqliteLog

            opened = await SqliteLog.open(settings.path, names, partitions=1)
            return Logs(*(opened[name] for name in names))
        case "kafka":
            assert settings.kafka is not None  # the configuration is checked
            return await _open_topics(settings.kafka, names)


async def _open_topics(settings: KafkaLogSettings, names: Sequence[str]) -> Logs:
    from collector.logs.kafka import KafkaLog, KafkaSettings

    to_kafka = KafkaSettings(
        bootstrap_servers=settings.bootstrap_servers,
        group_instance_id=settings.group_instance_id,
        session_timeout=settings.session_timeout,
    )
    topics = {name: f"{settings.prefix}.{name}" for name in names}
    opened = await KafkaLog.open(
        to_kafka,
        topics,
        settings.partitions,
        replication_factor=settings.replication_factor,
        configs={topics[name]: {"retention.ms": "-1"} for name in ("definitions", "labels")},  # few, wanted for ever
    )
    return Logs(*(opened[name] for name in names))
