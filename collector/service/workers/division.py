"""The stages that each of several workers runs."""

from collections.abc import Collection, Sequence
from pathlib import Path

from collector.config.settings import LogSettings, Settings
from collector.errors import ConfigError
from collector.logs.sqlite_shares import PARTITIONS
from collector.logs.sqlite_transaction import partitions_of
from collector.wording import plural

_OF_THE_FIRST = ("export", "watch", "page")
"""In the first worker alone: files that are appended to and ports can have one owner only."""


def divide(stages: Collection[str], workers: int, settings: Settings) -> Sequence[frozenset[str]]:
    """The stages of each worker, at least one for each. Of the stages that all run, each has partitions.

    Raises:
        ConfigError: the log cannot be shared by so many, or the workers cannot tell each other apart.
    """
    match settings.log.kind:
        case "memory":
            raise ConfigError("--workers: log.kind is memory, which is of one process; use sqlite or kafka")
        case "sqlite":
            _require_partitions(settings.log, workers)
        case "kafka":
            _require_shareable(settings, workers)
    _require_one_port(settings)
    others = frozenset(stages).difference(_OF_THE_FIRST)
    if not others:
        raise ConfigError(f"--workers: {', '.join(sorted(stages))} run in one process; leave --workers out")
    return [frozenset(stages), *[others] * (workers - 1)]


def _require_partitions(log: LogSettings, workers: int) -> None:
    there = partitions_of(Path(log.path))
    partitions = there or log.partitions or PARTITIONS
    if workers <= partitions:
        return
    problem = f"--workers: {workers} cannot share {plural(partitions, 'partition')}"
    if there is None:
        raise ConfigError(f"{problem} of a SQLite file; use {partitions} at most, or set log.partitions")
    raise ConfigError(
        f"{problem}, which {log.path} has; use {partitions} at most, or copy it into a file with more "
        "(log.partitions): evalstream log copy"
    )


def _require_shareable(settings: Settings, workers: int) -> None:
    kafka = settings.log.kafka
    assert kafka is not None  # the configuration is checked
    if workers > kafka.partitions:
        raise ConfigError(
            f"--workers: {workers} cannot share {kafka.partitions} partitions; use {kafka.partitions} at most, or more "
            "log.kafka.partitions"
        )
    named = {"log.kafka": kafka.group_instance_id} | {
        f"receive.kafka.{number}": source.group_instance_id for number, source in enumerate(settings.receive.kafka)
    }
    for where, name in named.items():
        if name is not None:
            raise ConfigError(
                f"{where}.group_instance_id: names one process, and --workers starts {workers}; leave it out"
            )


def _require_one_port(settings: Settings) -> None:
    for name, receiver in (("otlp_http", settings.receive.otlp_http), ("otlp_grpc", settings.receive.otlp_grpc)):
        if receiver is not None and receiver.port == 0:
            raise ConfigError(f"receive.{name}.port: 0 would give each worker another port; name one")
