"""Lines of `check` about Kafka: topics with their settings, groups, permissions, and who is in the groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from collector.calibration.feedback_stage import GROUP as FEEDBACK_GROUP
from collector.config.configured import Config
from collector.config.settings import KafkaLogSettings, KafkaSourceSettings
from collector.errors import ConfigError
from collector.export.feedback import feedback_group_of
from collector.export.judged_spans.fold import GROUP as JUDGED_SPANS_GROUP
from collector.logs.log import LogError, LogRefused
from collector.page.stage import EVALUATIONS_GROUP, LABELS_GROUP, TURNS_GROUP
from collector.service.kafka_settings import group_of, settings_of_log, settings_of_source
from collector.service.open_logs import names_of, topic_configs
from collector.wording import listed, plural

if TYPE_CHECKING:
    from collector.logs.kafka import KafkaSettings

_ABSENT = "does not exist, or this user may not see it"


def kafka_lines(config: Config) -> Iterator[str]:
    """The plan for the clusters, and their state, if they answer.

    Raises:
        ConfigError: a broker refuses the login, the certificate or a permission: the service would not start.
    """
    log = config.settings.log.kafka if config.settings.log.kind == "kafka" else None
    if log is not None:
        yield from _log_lines(config, log)
    for number, source in enumerate(config.settings.receive.kafka):
        yield from _source_lines(config, number, source)


def groups_of(config: Config) -> list[str]:
    """The groups that read the logs, without the prefix, if all stages run."""
    settings = config.settings
    compares = any(monitor.compare for monitor in settings.monitors.values())
    page = [TURNS_GROUP, EVALUATIONS_GROUP, LABELS_GROUP, "page.watch"] if settings.page is not None else []
    watch = ["watch"] if settings.alerts.watcher is not None else []
    releases = [f"{each}.releases" for each, there in (("watch", watch), ("page", page)) if there and compares]
    return [
        "assemble",
        "evaluate",
        *(["link"] if settings.assemble.link is not None else []),
        *(f"export.{name}" for name in settings.export),
        *([JUDGED_SPANS_GROUP] if "spans" in settings.export else []),
        FEEDBACK_GROUP,
        *(feedback_group_of(name) for name in settings.export if name in ("otlp", "prometheus")),
        *watch,
        *page,
        *releases,
    ]


def _log_lines(config: Config, log: KafkaLogSettings) -> Iterator[str]:
    names = names_of(page=config.settings.page is not None, **config.optional_logs)
    topics = [f"{log.prefix}.{name}" for name in names]
    groups = [f"{log.prefix}.{name}" for name in groups_of(config)]
    forever = [topic for topic, configs in topic_configs(log, names).items() if configs.get("retention.ms") == "-1"]
    copies = plural(log.replication_factor, "copy", "copies")
    partitions = plural(log.partitions, "partition")
    yield f"kafka      new topics: {partitions}, {copies}; records of {listed(forever)} are never deleted"
    yield f"           groups: {', '.join(groups)}"
    yield f"           permissions: topics {log.prefix}.*: READ, WRITE, DESCRIBE_CONFIGS, and CREATE unless they exist;"
    yield f"           groups {log.prefix}.*: READ"
    yield from _state(f"{config.source}: log", settings_of_log(log), topics, groups, "does not exist yet")


def _source_lines(config: Config, number: int, source: KafkaSourceSettings) -> Iterator[str]:
    log = config.settings.log
    topics = [topic for names in source.topics.values() for topic in names]
    groups = [f"{group_of(source, log)}.{kind}" for kind, names in source.topics.items() if names]
    yield f"kafka      source {', '.join(topics)}: groups {', '.join(groups)}"
    yield "           permissions: READ of each"
    where = f"{config.source}: receive.kafka[{number}]"
    yield from _state(where, settings_of_source(source, log), topics, groups)


def _state(
    where: str, settings: KafkaSettings, topics: Sequence[str], groups: Sequence[str], absent: str = _ABSENT
) -> Iterator[str]:
    """Their state in the cluster now."""
    from collector.logs.kafka.inspection import inspect

    try:
        state = inspect(settings, topics, groups)
    except LogRefused as error:
        raise ConfigError(f"{where}: {error}") from error
    except LogError as error:
        yield f"           now unknown ({error})"
        return
    for topic in topics:
        configs = state.topics.get(topic)
        state_text = absent if configs is None else ", ".join(f"{name} {value}" for name, value in configs.items())
        yield f"           {topic}: {state_text}"
    for group in groups:
        if members := state.members.get(group):
            yield f"           in {group} now: {', '.join(members)}"
