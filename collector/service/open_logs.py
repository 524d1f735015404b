"""The logs of a configuration, opened, and the key with which the deployment signs what it exports.

The key is drawn once, and kept in a log that all processes read.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from collector.backoff import Backoff
from collector.config.settings import KafkaLogSettings, LogSettings, Settings
from collector.errors import ConfigError
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.logs.log import Log, LogError, LogUnavailable
from collector.otlp.own_items import OwnItems
from collector.page.score_series import RETENTION
from collector.service.kafka_settings import SERVICE_RIGHTS, settings_of_log
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECORDS_LOST

if TYPE_CHECKING:
    from collector.logs.kafka import LostRecords
    from collector.logs.sqlite_shares import PartitionShare

NAMES = ("spans", "turns", "evaluations", "definitions", "dead_letters", "labels")
UNLINKED, HISTORY, JUDGED_SPANS = "unlinked", "history", "judged_spans"

OPENING = Backoff(cap=2.0)
"""How a service tries again to open its file."""


def names_of(*, linking: bool, page: bool = False, judged_spans: bool = False) -> Sequence[str]:
    """The names of the logs that are opened.

    The log of unlinked turns exists only with `linking`, the history with `page`, the judged spans with `judged_spans`.
    """
    return (*NAMES, *[UNLINKED] * linking, *[HISTORY] * page, *[JUDGED_SPANS] * judged_spans)


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of the service.

    `definitions` keeps judges' answers to constant questions, like evaluation steps; `dead_letters` what could not be
    processed; `labels` people's labels from the page. `unlinked` holds turns without a conversation until they are
    linked; None where linking is not configured. `history` holds the sums of scores by minute; it exists only with a
    page. `judged_spans` holds the spans of turns and their evaluations, by trace, where spans are exported.
    """

    spans: Log
    turns: Log
    evaluations: Log
    definitions: Log
    dead_letters: Log
    labels: Log
    unlinked: Log | None = None
    history: Log | None = None
    judged_spans: Log | None = None

    async def generated_steps(self) -> GeneratedStepsStore:
        """The answers of judges to constant questions. Waits while the log is unavailable."""
        return await GeneratedStepsStore.open(self.definitions)

    def __iter__(self) -> Iterator[Log]:
        always = (self.spans, self.turns, self.evaluations, self.definitions, self.dead_letters, self.labels)
        return (log for log in (*always, self.unlinked, self.history, self.judged_spans) if log is not None)


@asynccontextmanager
async def open_logs(
    settings: LogSettings,
    *,
    linking: bool = False,
    page: bool = False,
    judged_spans: bool = False,
    telemetry: Telemetry | None = None,
    share: "PartitionShare | None" = None,
) -> AsyncGenerator[Logs]:
    """Open all logs, with `linking` that of unlinked turns, with `page` the history; they are closed on leaving.

    With `judged_spans` that of spans and their evaluations, too. A file or topic that is missing is made.

    With `telemetry` they are a service's: losses are counted there, and a file that cannot be written now, because the
    disk is full or another process holds it, is waited for. `share` is what this process has of a SQLite file's
    partitions.

    Raises:
        ConfigError: what exists does not fit the configuration, for instance a topic with another number of partitions.
    """
    names = names_of(linking=linking, page=page, judged_spans=judged_spans)
    try:
        if telemetry is not None and settings.kind == "sqlite":
            logs = await OPENING.repeat(
                lambda: _open(settings, names, telemetry, share), LogUnavailable, action="opening the log"
            )
        else:
            logs = await _open(settings, names, telemetry, share)
    except LogError as error:
        raise ConfigError(f"log: {error}") from error
    try:
        yield logs
    finally:
        for log in logs:
            await log.close()


AGAIN = "correct that, then run this again"
"""The remedy where a log is unavailable while a command uses it."""


@asynccontextmanager
async def open_stored_logs(
    settings: LogSettings, *, needed: bool = True, linking: bool = False, judged_spans: bool = False
) -> AsyncGenerator[Logs]:
    """Open the logs that a service has written, for a command; with `linking` and `judged_spans` those logs, too.

    No file or topic is made: if one is missing and the logs are not `needed`, they are empty and in memory.

    Raises:
        ConfigError: a log that is needed is missing, or ends with its process; or one does not fit the configuration,
            or becomes unavailable while the command uses it.
    """
    names = names_of(linking=linking, judged_spans=judged_spans)
    if (missing := await asyncio.to_thread(_missing, settings, names)) is not None:
        if needed:
            raise ConfigError(missing)
        settings = LogSettings(kind="memory")
    async with open_logs(settings, linking=linking, judged_spans=judged_spans) as logs:
        try:
            yield logs
        except LogUnavailable as error:
            raise ConfigError(f"log: {error}; {AGAIN}") from error


def open_logs_for_steps(settings: Settings, *, needed: bool = False) -> AbstractAsyncContextManager[Logs]:
    """Open the logs where a command keeps the steps that judges write: those of a service if they are `needed`. If not,
    those that the configuration names are made, if need be.
    """
    is_made = "log" in settings.model_fields_set and not needed
    return open_logs(settings.log) if is_made else open_stored_logs(settings.log, needed=needed)


def _missing(settings: LogSettings, names: Sequence[str]) -> str | None:
    """Why no service can have written these logs, or not where this command looks; None if all are there."""
    if settings.kafka is not None and settings.kind == "kafka":
        from collector.logs.kafka.topics import require_topics

        try:
            require_topics(settings_of_log(settings.kafka), [f"{settings.kafka.prefix}.{name}" for name in names])
        except LogUnavailable as error:
            raise ConfigError(f"log.kafka: {error}") from error
        except LogError as error:
            return f"log.kafka: {error}"
    if settings.kind == "memory":
        return "log.kind is memory, so the logs end with the process; set log.kind to sqlite or kafka"
    if settings.kind == "sqlite" and not Path(settings.path).exists():
        return f"{settings.path}: no such file; run the command where the service's log.path leads to its file"
    return None


async def _open(
    settings: LogSettings, names: Sequence[str], telemetry: Telemetry | None, share: "PartitionShare | None"
) -> Logs:
    if settings.kafka is not None:
        return await _open_topics(settings.kafka, names, telemetry)
    if settings.kind == "memory":
        from collector.logs.memory import MemoryLog

        return Logs(**{name: MemoryLog(name, partitions=1) for name in names})
    from collector.logs.sqlite import SqliteLog

    opened = await SqliteLog.open(settings.path, names, settings.partitions, share=share)
    return Logs(**{name: opened[name] for name in names})


async def _open_topics(settings: KafkaLogSettings, names: Sequence[str], telemetry: Telemetry | None) -> Logs:
    from collector.logs.kafka import KafkaLog

    opened = await KafkaLog.open(
        settings_of_log(settings),
        {name: f"{settings.prefix}.{name}" for name in names},
        settings.partitions,
        replication_factor=settings.replication_factor,
        configs=topic_configs(settings, names),
        on_lost=loss_counter(telemetry),
        rights=() if telemetry is None else SERVICE_RIGHTS,  # commands may have fewer
    )
    return Logs(**{name: opened[name] for name in names})


def topic_configs(settings: KafkaLogSettings, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The options of topics besides the defaults: few records that are needed indefinitely are never deleted."""
    forever = {"retention.ms": "-1", "retention.bytes": "-1"}
    own = {"definitions": forever, "labels": forever, HISTORY: {"retention.ms": f"{RETENTION * 1000:.0f}"}}
    return {f"{settings.prefix}.{name}": own[name] for name in own if name in names}


def loss_counter(telemetry: Telemetry | None) -> "Callable[[LostRecords], None]":
    """Logs what retention has deleted although a consumer needed it, and counts it."""
    from collector.logs.kafka.subscription import log_lost

    def count(lost: "LostRecords") -> None:
        log_lost(lost)
        if telemetry is not None:
            telemetry.counter(RECORDS_LOST, lost.consumer, lost.log, lost.reason).inc(lost.count)
            telemetry.drop(lost.consumer, lost.reason, lost.count)

    return count


OWN_KEY = "own items/key"
"""Copies of the logs have the same."""


COPIED = "log copied"
"""The key of the note that these logs were copied, for the configuration that it names."""


async def own_items(definitions: GeneratedStepsStore) -> OwnItems:
    """Recognises what this deployment has exported; waits while the log is unavailable."""
    key = await definitions.load(OWN_KEY) or await definitions.save(OWN_KEY, secrets.token_hex(32))
    return OwnItems(key.encode())
