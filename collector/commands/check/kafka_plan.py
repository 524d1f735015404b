"""Lines of `check` about Kafka: topics with their settings, groups, permissions, and who is in the groups; how near
retention is to what the service still needs, and what it has deleted already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from collector.calibration.feedback_stage import GROUP as FEEDBACK_GROUP
from collector.commands.check.traffic import running_metrics
from collector.config.configured import Config
from collector.config.settings import KafkaLogSettings, KafkaSourceSettings, LogSettings
from collector.errors import ConfigError, EvalstreamError
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.export.judged_spans.destinations import JudgedSpansSettings, topic_of
from collector.export.judged_spans.fold import GROUP as JUDGED_SPANS_GROUP
from collector.export.stage import feedback_group_of
from collector.logs.log import LogError, LogUnavailable, NotPermitted
from collector.page.stage import EVALUATIONS_GROUP, LABELS_GROUP, TURNS_GROUP
from collector.service.app import STAGES, require_startable
from collector.service.kafka_settings import SERVICE_RIGHTS, group_of, settings_of_log, settings_of_source
from collector.service.open_logs import names_of, topic_configs
from collector.telemetry.series import RECORDS_LOST
from collector.wording import listed, plural

if TYPE_CHECKING:
    from collector.logs.kafka import KafkaSettings

    Look = Callable[[str, KafkaSettings, Sequence[str], Sequence[str], Callable[[], None]], Iterator[str]]
    """The state of topics and groups: place, cluster, topics, groups, and what raises where a start would."""
    from collector.logs.kafka.retention_room import RetentionRoom
    from collector.logs.kafka.topics import TopicState


def require_kafka(config: Config, stages: Collection[str]) -> None:
    """Refuse a start of these stages before it makes a topic: for all that brokers do not permit, or for a note.

    A broker that does not answer is left to the start.

    Raises:
        ConfigError: see `kafka_lines`.
    """
    try:
        list(kafka_lines(config, stages=stages))
    except ConfigError as error:
        if not isinstance(error.__cause__, LogUnavailable):
            raise


def kafka_lines(config: Config, *, offline: bool = False, stages: Collection[str] = STAGES) -> Iterator[str]:
    """The plan for the clusters, and their state, as these stages need it; `offline` without a question to brokers.

    Raises:
        ConfigError: no broker answers, or a login, a permission or a topic is not as the service needs it to start.
    """
    refused: list[str] = []
    look: Look = _unasked if offline else partial(_state, refused, _needed(config))
    log = config.settings.log.kafka if config.settings.log.kind == "kafka" else None
    if log is not None:
        yield from _log_lines(config, log, look, stages)
    for number, source in enumerate(config.settings.receive.kafka if "receive" in stages else ()):
        yield from _source_lines(config, number, source, look)
    if refused:
        raise ConfigError("\n".join(refused))
    spans = config.exporters.get("spans")
    if isinstance(spans, JudgedSpansSettings) and spans.kafka is not None and "export" in stages:
        yield "kafka      export.spans"
        yield f"           permissions: topics {spans.kafka.topic}: WRITE, DESCRIBE_CONFIGS"
        if not offline:
            topic_of(spans.kafka)


def groups_of(config: Config) -> list[str]:
    """The groups that read the logs, without the prefix, if all stages run."""
    settings = config.settings
    compares = any(monitor.compare for monitor in settings.monitors.values())
    page = [TURNS_GROUP, EVALUATIONS_GROUP, LABELS_GROUP, "page.watch"] if settings.page is not None else []
    watch = ["watch"] if settings.alerts.watcher is not None else []
    releases = [f"{each}.releases" for each, there in (("watch", watch), ("page", page)) if there and compares]
    return [
        "assemble", "evaluate", *(["link"] if settings.assemble.link is not None else []),
        *(f"export.{name}" for name in settings.export), *([JUDGED_SPANS_GROUP] if "spans" in settings.export else []),
        FEEDBACK_GROUP, *(feedback_group_of(name) for name in settings.export if name in ("otlp", "prometheus")),
        *watch, *page, *releases,
    ]  # fmt: skip


def _log_lines(config: Config, log: KafkaLogSettings, look: Look, stages: Collection[str]) -> Iterator[str]:
    names = names_of(page=config.settings.page is not None, **config.optional_logs)
    topics = [f"{log.prefix}.{name}" for name in names]
    stage_of = {"link": "assemble", JUDGED_SPANS_GROUP: "export", FEEDBACK_GROUP: "watch"}
    parts = [(name, name.partition(".")[0]) for name in groups_of(config)]
    groups = [f"{log.prefix}.{name}" for name, part in parts if stage_of.get(part, part) in stages]
    own = topic_configs(log, names)
    forever = [topic for topic, configs in own.items() if configs.get("retention.ms") == "-1"]
    copies = plural(log.replication_factor, "copy", "copies")
    partitions = plural(log.partitions, "partition")
    yield f"kafka      new topics: {partitions}, {copies}; records of {listed(forever)} are never deleted"
    yield f"           groups: {', '.join(groups)}"
    yield from _permissions(f"{log.prefix}.*", f"{', '.join(SERVICE_RIGHTS)}, and CREATE unless they exist", log.prefix)
    settings = settings_of_log(log)

    def see() -> None:
        from collector.logs.kafka.topics import ensure_topics, states

        ensure_topics(
            settings, topics, log.partitions, replication_factor=log.replication_factor, configs=own,
            validate_only=True, rights=SERVICE_RIGHTS,
        )  # fmt: skip
        definitions = f"{log.prefix}.definitions"
        if there := states(settings, [definitions]):
            asyncio.run(_see_notes(config.settings.log, settings, definitions, there))

    yield from look(f"{config.source}: log", settings, topics, groups, see)


async def _see_notes(log: LogSettings, settings: KafkaSettings, topic: str, there: Mapping[str, TopicState]) -> None:
    """Refuse what a start refuses because of the notes in the logs."""
    from collector.commands.log_copy.log_copy import opened_as_they_are

    async with opened_as_they_are(settings, {"definitions": topic}, there) as logs:
        await require_startable(await GeneratedStepsStore.open(logs["definitions"]), log, noted=False)


def _source_lines(config: Config, number: int, source: KafkaSourceSettings, look: Look) -> Iterator[str]:
    log = config.settings.log
    topics = [topic for names in source.topics.values() for topic in names]
    groups = [f"{group_of(source, log)}.{kind}" for kind, names in source.topics.items() if names]
    yield f"kafka      source {', '.join(topics)}: groups {', '.join(groups)}"
    read = "READ, and DESCRIBE_CONFIGS for the alert EvalstreamRetentionNear"
    yield from _permissions(listed(topics), read, group_of(source, log))
    settings = settings_of_source(source, log)
    from collector.logs.kafka.topics import require_topics

    see = partial(require_topics, settings, topics)
    yield from look(f"{config.source}: receive.kafka[{number}]", settings, topics, groups, see)


def _permissions(topics: str, operations: str, group: str) -> Iterator[str]:
    yield f"           permissions: topics {topics}: {operations};"
    yield f"           groups {group}.*: READ"


def _unasked(*_: object) -> Iterator[str]:
    yield "           now unknown (--offline)"


def _state(
    refused: list[str],
    needed: Mapping[str, tuple[float, str]],
    where: str,
    settings: KafkaSettings,
    topics: Sequence[str],
    groups: Sequence[str],
    see: Callable[[], None],
) -> Iterator[str]:
    """Their state in the cluster now. `refused` takes the refusals, which `kafka_lines` raises all at once."""
    from collector.logs.kafka.topics import ClusterState, inspect

    state = ClusterState({}, {})
    asks: Sequence[Callable[[], ClusterState | None]] = (partial(inspect, settings, topics, groups), see)
    for ask in asks:
        try:
            state = ask() or state
        except LogError as error:
            remedy = "start it, correct bootstrap_servers, or check the file alone with --offline"
            refused.append(f"{where}: {error.with_remedy(remedy)}")
            if isinstance(error, LogUnavailable) and not isinstance(error, NotPermitted):
                raise ConfigError("\n".join(refused)) from error
    for topic in topics:
        configs = ", ".join(f"{name} {value}" for name, value in state.topics.get(topic, {}).items())
        yield f"           {topic}: {configs or 'does not exist yet; the right to CREATE it is checked'}"
    for group in groups:
        if members := state.members.get(group):
            yield f"           in {group} now: {', '.join(members)}"
    yield from _retention_notes(settings.group_prefix, state.topics, needed)


def _needed(config: Config) -> Mapping[str, tuple[float, str]]:
    """The seconds that each topic must at least keep its records, and what needs them."""
    from collector.page.score_series import RETENTION

    of_conversations = {name for name, each in config.evaluators.items() if each.evaluator.scope == "conversation"}
    monitors = (
        each for each in config.settings.monitors.values() if of_conversations & {use.name for use in each.uses}
    )
    oldest, linked = max((monitor.max_age for monitor in monitors), default=0.0), config.settings.assemble.link
    link = {"unlinked": (linked.max_age, "assemble.link.max_age")} if linked else {}
    return {"turns": (oldest, "a conversation's max_age"), **link, "history": (RETENTION, "the page shows")}


def _retention_notes(
    prefix: str, topics: Mapping[str, Mapping[str, str]], needed: Mapping[str, tuple[float, str]]
) -> Iterator[str]:
    from collector.logs.kafka.topics import RETENTION

    if hidden := [name for name, configs in topics.items() if RETENTION not in configs]:
        yield f"note       DESCRIBE_CONFIGS of {listed(hidden)} is not granted, so its retention is not watched"
    turns, evaluations = (int(topics.get(prefix + name, {}).get(RETENTION, 0)) for name in ("turns", "evaluations"))
    if evaluations > 0 and not 0 <= turns <= evaluations:  # 0: unknown
        yield (
            f"note       {prefix}evaluations: its retention.ms {evaluations} is shorter than that of {prefix}turns, so "
            f"after an outage turns may be judged and paid again; raise it to {turns} (-1: no limit)"
        )
    for name, (seconds, what) in needed.items():
        if 0 < (age := int(topics.get(prefix + name, {}).get(RETENTION, 0))) < (least := round(seconds * 1000)):
            yield f"note       {prefix}{name}: its retention.ms {age} is less than {what}; raise it to {least}"


NEAR = 0.5
"""The share of a retention from which it is too near, as in the alert EvalstreamRetentionNear."""
PATIENCE = 3.0
"""Seconds that a broker has to answer."""


def retention_lines(config: Config) -> Iterator[str]:
    """Lines of the plan: how near retention is to what each topic's consumer needs, what was lost, and the remedy."""
    from collector.logs.kafka.retention_room import retention_rooms

    for settings, groups in _clusters(config):
        try:
            rooms = retention_rooms(replace(settings, request_timeout=PATIENCE), groups)
        except EvalstreamError as error:
            yield f"retention  unknown at {', '.join(settings.bootstrap_servers)}: {error}"
            continue
        for room in rooms:
            yield from room_lines(room)
    yield from lost_lines(running_metrics(config)[0])


def _clusters(config: Config) -> Iterator[tuple[KafkaSettings, Mapping[str, Sequence[str]]]]:
    """How to reach each cluster, and the groups that consume its topics."""
    log = config.settings.log
    if log.kind == "kafka" and log.kafka is not None:
        prefix = log.kafka.prefix
        groups: dict[str, Sequence[str]] = {
            f"{prefix}.spans": [f"{prefix}.assemble"],
            f"{prefix}.turns": [f"{prefix}.evaluate"],
        }
        if config.settings.assemble.link is not None:
            groups[f"{prefix}.unlinked"] = [f"{prefix}.link"]
        groups[f"{prefix}.evaluations"] = [f"{prefix}.export.{name}" for name in config.exporters]
        yield settings_of_log(log.kafka), groups
    for source in config.settings.receive.kafka:
        group = group_of(source, log)
        consumed = {topic: [f"{group}.{kind}"] for kind, names in source.topics.items() for topic in names}
        yield settings_of_source(source, log), consumed


def room_lines(room: RetentionRoom) -> Iterator[str]:
    """The rest of a topic's retention for a consumer, and the remedy if it is short."""
    nothing = "has all the time: nothing is deleted" if room.readable else "unknown: DescribeConfigs is not granted"
    yield f"retention  {room.topic}: {room.group} {' and '.join(_uses(room)) or nothing}"
    if room.lost:
        yield (
            f"           {plural(room.lost, 'record')} that {room.group} needs are deleted already. They are lost, and "
            f"counted once {room.group} reads on; senders that still have them can send them again"
        )
    near = [name for name, share in _limits(room) if share is not None and share >= NEAR]
    if near or room.lost:
        limits = " and ".join(near or [name for name, share in _limits(room) if share is not None])
        yield (
            f"           raise {limits} now: kafka-configs.sh --alter --entity-type topics --entity-name {room.topic} "
            f"--add-config {limits.partition(' ')[0]}=…; then see why {room.group} is behind"
        )


def _limits(room: RetentionRoom) -> Sequence[tuple[str, float | None]]:
    return ("retention.ms", room.age_share), ("retention.bytes", room.bytes_share)


def _uses(room: RetentionRoom) -> Iterator[str]:
    if room.age_share is not None and room.age is not None:
        needs = f"more than {room.age_share:.0%}" if room.age_share else "less than 25%"
        age = plural(round(room.age / 86400), "day") if room.age >= 2 * 86400 else f"{room.age / 3600:.4g} h"
        yield f"has used {needs} of retention.ms ({age})"
    if room.bytes_share is not None and room.bytes is not None:
        verb = "" if room.age is not None else "has used "
        yield f"{verb}about {room.bytes_share:.0%} of retention.bytes ({room.bytes:,})"


def lost_lines(metrics: str) -> Iterator[str]:
    """The records that the running service has counted as lost since its start, from the text of its /metrics."""
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == RECORDS_LOST.name and sample.value:
                labels: Mapping[str, str] = sample.labels
                yield (
                    f"lost       {plural(round(sample.value), 'record')} of {labels['log']} that {labels['consumer']} "
                    f"needed ({labels['reason']}) since the service started; see the runbook EvalstreamRecordsLost"
                )
