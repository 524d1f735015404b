"""Which stages each of several workers runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from collector.config.settings import Settings
from collector.errors import ConfigError
from collector.service.workers.stage_loads import stage_loads

_LATER = ("evaluate", "export", "watch", "page")
_BY_STAGE: Mapping[int, tuple[tuple[tuple[str, ...], ...], ...]] = {
    2: (
        (("receive", "assemble"), _LATER),
        (("receive",), ("assemble", *_LATER)),
        (("assemble",), ("receive", *_LATER)),
    ),
    3: ((("receive",), ("assemble",), _LATER),),
    4: ((("receive",), ("assemble",), ("evaluate",), _LATER[1:]),),
}
"""By the number of workers, the ways to divide: each stage of a SQLite file can be in one process only."""
_OF_THE_FIRST = ("export", "watch", "page")
"""Over Kafka in the first worker alone: files that are appended to and ports can have one owner only."""


def divide(stages: Collection[str], workers: int, settings: Settings) -> Sequence[frozenset[str]]:
    """The stages of each worker, at least one for each.

    Raises:
        ConfigError: the log cannot be shared by so many, or the workers cannot tell each other apart.
    """
    match settings.log.kind:
        case "memory":
            raise ConfigError("--workers: log.kind is memory, which is of one process; use sqlite or kafka")
        case "sqlite":
            return _by_stage(stages, workers, stage_loads(settings))
        case "kafka":
            _require_shareable(settings, workers)
            return _by_partition(stages, workers)


def _by_stage(stages: Collection[str], workers: int, loads: Mapping[str, float]) -> Sequence[frozenset[str]]:
    """The way in which the busiest worker has least to do: it is the one that all wait for."""
    most = max(_BY_STAGE)
    if workers > most:
        raise ConfigError(f"--workers: over a SQLite file there can be {most} at most; use log.kind: kafka for more")
    ways = [[frozenset(part) & frozenset(stages) for part in way] for way in _BY_STAGE[workers]]
    possible = [way for way in ways if all(way)]
    if not possible:
        raise ConfigError(
            f"--workers: over a SQLite file workers divide the stages, and {', '.join(sorted(stages))} "
            f"cannot be divided among {workers}; use fewer workers"
        )
    return min(possible, key=lambda way: max(sum(loads.get(stage, 0.0) for stage in part) for part in way))


def _by_partition(stages: Collection[str], workers: int) -> Sequence[frozenset[str]]:
    others = frozenset(stages).difference(_OF_THE_FIRST)
    if not others:
        raise ConfigError(f"--workers: {', '.join(sorted(stages))} run in one process; leave --workers out")
    return [frozenset(stages), *[others] * (workers - 1)]


def _require_shareable(settings: Settings, workers: int) -> None:
    kafka = settings.log.kafka
    assert kafka is not None  # the configuration is checked
    if workers > kafka.partitions:
        raise ConfigError(
            f"--workers: {workers} cannot share {kafka.partitions} partitions; use {kafka.partitions} at most, or more "
            "log.kafka.partitions"
        )
    for name, receiver in (("otlp_http", settings.receive.otlp_http), ("otlp_grpc", settings.receive.otlp_grpc)):
        if receiver is not None and receiver.port == 0:
            raise ConfigError(f"receive.{name}.port: 0 would give each worker another port; name one")
    named = {"log.kafka": kafka.group_instance_id} | {
        f"receive.kafka.{number}": source.group_instance_id for number, source in enumerate(settings.receive.kafka)
    }
    for where, name in named.items():
        if name is not None:
            raise ConfigError(
                f"{where}.group_instance_id: names one process, and --workers starts {workers}; leave it out"
            )
