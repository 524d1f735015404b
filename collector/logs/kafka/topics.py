"""The topics themselves: looked at as a user would, made, checked, and cut off at the front. Everything here blocks."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka.admin import ConfigResource
from kafka.admin.client import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NoError,
    NotCoordinatorError,
    TopicAlreadyExistsError,
)
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.logs.kafka.connections import connect, is_reachable
from collector.logs.kafka.owned_partitions import from_kafka
from collector.logs.kafka.settings import KafkaSettings, absent, milliseconds, translated
from collector.logs.log import Committed, LogError, LogRefused, LogUnavailable

T = TypeVar("T")
_Resource: Any = ConfigResource  # wrongly typed
TIMESTAMPS = "message.timestamp.type"
APPEND_TIME = "LogAppendTime"
"""The broker's clock stamps the records, so that the times of a partition do not fall."""
CREATE_TIME = "CreateTime"
"""The writers stamp the records: while another log is copied into a topic, and no service may use it."""

LARGEST = "max.message.bytes"
RETENTION = "retention.ms"
_BATCH_OVERHEAD = 512
"""Bytes of a batch beside its one record, and some more."""
KNOWN_WITHIN = 15.0
"""Seconds within which every broker knows a new topic, and a new cluster its topic of commits."""


def ensure_topics(
    settings: KafkaSettings,
    topics: Sequence[str],
    partitions: int,
    *,
    replication_factor: int = 1,
    configs: Mapping[str, Mapping[str, str]] | None = None,
    timestamps: str = APPEND_TIME,
    validate_only: bool = False,
) -> None:
    """Make the topics that are not there; see that the others are as wanted.

    `configs` are further topic configs by topic, like `retention.ms`; they are given to new topics only. With
    `validate_only` brokers say whether they would make them, and nothing changes.

    Raises:
        LogError: a topic has another number of partitions, or its configs do not fit.
        LogUnavailable: no broker answers.
    """
    with administrating(settings) as admin:
        there = _partitions(admin, topics)
        missing = [topic for topic in topics if topic not in there]
        for topic in missing:
            config = {**_config(settings), **_copies(replication_factor), **(configs or {}).get(topic, {})}
            config[TIMESTAMPS] = timestamps
            with suppress(TopicAlreadyExistsError):  # another process has just made it
                new = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": config}
                admin.create_topics({topic: new}, wait_for_metadata=not validate_only, validate_only=validate_only)
        if missing and not validate_only:
            _await_topics(admin, missing)
        if known := list(there) if validate_only else topics:
            _check(admin, settings, known, partitions, timestamps)


def require_topics(settings: KafkaSettings, topics: Sequence[str]) -> None:
    """See that the topics of a source are there.

    Raises:
        LogError: one is not.
        LogUnavailable: no broker answers.
    """
    with administrating(settings) as admin:
        there = _partitions(admin, topics)
    missing = [topic for topic in topics if topic not in there]
    if missing:
        where = ", ".join(settings.bootstrap_servers)
        raise LogError(f"{absent(missing)} at {where}")


def retention(settings: KafkaSettings, topic: str) -> float | None:
    """Seconds after which a topic deletes a record by its age; None if it never does.

    Raises:
        LogUnavailable: no broker says so: there is no such topic at present, or its configuration may not be read.
    """
    try:
        with administrating(settings) as admin:
            value = int(_described(admin, [topic], RETENTION)[topic][RETENTION]["value"])
    except (KeyError, TypeError, ValueError):
        raise LogUnavailable(f"brokers do not say for how long the topic {topic} keeps records") from None
    return None if value < 0 else value / 1000


def truncate(settings: KafkaSettings, topic: str, partitions: int, before: float) -> int:
    """Delete records older than `before` (seconds since the epoch) that no group needs; returns how many.

    A group needs what lies from its committed offset on; one that has committed for the topic, but not for a partition,
    needs all of that partition.
    """
    with administrating(settings) as admin:
        every = [TopicPartition(topic, number) for number in range(partitions)]
        starts = _offsets(admin, every, OffsetSpec.EARLIEST)
        ends = _offsets(admin, every, OffsetSpec.LATEST)
        young = _offsets(admin, every, max(0, milliseconds(before)))
        needs = _needs(admin, topic)
        bounds: dict[TopicPartition, int] = {}
        for where in every:
            first_young = young[where] if young[where] >= 0 else ends[where]
            bound = min([first_young, *(lows.get(where, starts[where]) for lows in needs)])
            if bound > starts[where]:
                bounds[where] = bound
        if bounds:
            admin.delete_records(bounds)
        return sum(bound - starts[where] for where, bound in bounds.items())


def commits(settings: KafkaSettings, topic: str, group: str) -> dict[int, Committed]:
    """A group's committed positions for the partitions of a topic."""
    with administrating(settings) as admin:
        offsets = committed_by(admin, [group]).get(group, {})
    return {
        where.partition: from_kafka(state)
        for where, state in offsets.items()
        if where.topic == topic and state.offset >= 0
    }


def committed_by(admin: Any, groups: Sequence[str]) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """The committed positions of each group."""
    return _of_coordinator(lambda: admin.list_group_offsets(list(groups))) if groups else {}


def _of_coordinator(ask: Callable[[], T]) -> T:
    """The answer of a group's broker. A cluster makes its topic of commits when first asked: that is waited for."""
    give_up_at = time.monotonic() + KNOWN_WITHIN
    while True:
        try:
            return ask()
        except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(0.1)


def set_commits(settings: KafkaSettings, group: str, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Commit for a group that has no members.

    Raises:
        LogUnavailable: it has members, or no broker answers.
    """
    with administrating(settings) as admin:
        commit_with(admin, group, positions)


def commit_with(admin: Any, group: str, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """The same with an admin client."""
    answers = _of_coordinator(lambda: admin.alter_group_offsets(group, dict(positions)))
    refused = sorted({error.__name__ for error in answers.values() if error is not NoError})
    if refused:  # another process was quicker, and is a member already; the next attempt finds its positions
        raise LogUnavailable(f"the positions of group {group} cannot be set now ({', '.join(refused)})")


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic: its partitions, how many records it has, and by whose clock they are stamped."""

    partitions: int
    records: int
    timestamps: str


def states(settings: KafkaSettings, topics: Sequence[str]) -> dict[str, TopicState]:
    """The state of the topics that are there."""
    with administrating(settings) as admin:
        there = _partitions(admin, topics)
        result: dict[str, TopicState] = {}
        for topic, partitions in there.items():
            every = [TopicPartition(topic, number) for number in range(partitions)]
            starts, ends = _offsets(admin, every, OffsetSpec.EARLIEST), _offsets(admin, every, OffsetSpec.LATEST)
            timestamps = _described(admin, [topic], TIMESTAMPS)[topic][TIMESTAMPS]["value"]
            result[topic] = TopicState(partitions, sum(ends[where] - starts[where] for where in every), timestamps)
    return result


@dataclass(frozen=True, slots=True)
class TopicRoom:
    """A topic of others: its partitions, and the bytes of the largest record that certainly fits, uncompressed."""

    partitions: int
    largest: int


def room_of(settings: KafkaSettings, topic: str) -> TopicRoom | None:
    """The partitions of a topic of others and what fits into it; None if it is not there."""
    with administrating(settings) as admin:
        there = _partitions(admin, [topic])
        if topic not in there:
            return None
        largest = _described(admin, [topic], LARGEST)[topic][LARGEST]["value"]
        return TopicRoom(there[topic], int(largest) - _BATCH_OVERHEAD)


@contextmanager
def _deleting() -> Generator[None]:
    try:
        yield
    except LogRefused as error:
        raise LogRefused(f"Kafka deletes nothing for this user: grant it DELETE of the topics ({error})") from error


def empty(settings: KafkaSettings, topics: Mapping[str, TopicState]) -> None:
    """Delete all records of topics."""
    with _deleting(), administrating(settings) as admin:
        every = [
            TopicPartition(topic, partition) for topic, state in topics.items() for partition in range(state.partitions)
        ]
        admin.delete_records(_offsets(admin, every, OffsetSpec.LATEST))


def delete(settings: KafkaSettings, topics: Sequence[str]) -> None:
    """Delete those of the topics that are there, with all records."""
    with _deleting(), administrating(settings) as admin:
        if there := list(_partitions(admin, topics)):
            admin.delete_topics(there)


def set_timestamps(settings: KafkaSettings, topics: Sequence[str], timestamps: str) -> None:
    """Say by whose clock the records of topics are stamped from now on; waits until the brokers do so."""
    if not topics:
        return
    with administrating(settings) as admin:
        answers = admin.alter_configs([_Resource("topic", topic, {TIMESTAMPS: timestamps}) for topic in topics])
        if refused := [topic for topic, answer in answers["topic"].items() if "AuthorizationFailed" in str(answer)]:
            raise LogRefused(f"{', '.join(refused)}: grant this user ALTER_CONFIGS of the new topics")
        give_up_at = time.monotonic() + KNOWN_WITHIN
        while time.monotonic() < give_up_at:
            described = _described(admin, topics, TIMESTAMPS)
            if all(described[topic][TIMESTAMPS]["value"] == timestamps for topic in topics):
                return
            time.sleep(0.1)
    raise LogUnavailable(f"the topics {', '.join(topics)} cannot be given {TIMESTAMPS}={timestamps}")


def _config(settings: KafkaSettings) -> dict[str, str]:
    """A batch holds at least one record; compressed or not, it may be as large as the largest."""
    return {TIMESTAMPS: APPEND_TIME, LARGEST: str(settings.max_record_bytes + (1 << 20))}


def _copies(replication_factor: int) -> dict[str, str]:
    """An acknowledged record is on two brokers at least, wherever there are three that keep it."""
    return {"min.insync.replicas": "2"} if replication_factor > 2 else {}


def _partitions(admin: Any, topics: Sequence[str]) -> dict[str, int]:
    """How many partitions the topics have that are there."""
    described = admin.describe_topics(list(topics))
    return {topic["name"]: len(topic["partitions"]) for topic in described if topic["error_code"] == 0}


def _described(admin: Any, topics: Sequence[str], *names: str) -> Any:
    """The configs of these names by topic and name, each with its `value`."""
    resources = [_Resource("topic", topic, dict.fromkeys(names)) for topic in topics]
    return admin.describe_configs(resources, config_filter="all")["topic"]


def _await_topics(admin: Any, topics: Sequence[str]) -> None:
    """Wait until a broker knows topics that were just made, perhaps by another process."""
    give_up_at = time.monotonic() + KNOWN_WITHIN
    while len(_partitions(admin, topics)) < len(topics) and time.monotonic() < give_up_at:
        time.sleep(0.1)


def _check(admin: Any, settings: KafkaSettings, topics: Sequence[str], partitions: int, timestamps: str) -> None:
    there = _partitions(admin, topics)
    described = _described(admin, topics, TIMESTAMPS, LARGEST)
    for topic in topics:
        if topic not in there:
            raise LogError(f"the topic {topic} was made and is not there; is it being deleted?")
        if there[topic] != partitions:
            raise LogError(
                f"the topic {topic} has {there[topic]} partitions, not {partitions}; the number cannot change"
            )
        if described[topic][TIMESTAMPS]["value"] != timestamps:
            raise LogError(
                f"the topic {topic} needs the config {TIMESTAMPS}={timestamps}; "
                "if evalstream log copy was interrupted, run that again"
            )
        if int(described[topic][LARGEST]["value"]) < settings.max_record_bytes:
            raise LogError(f"the topic {topic} needs the config {LARGEST}={_config(settings)[LARGEST]}")


def _offsets(admin: Any, partitions: Sequence[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
    offsets = admin.list_partition_offsets(dict.fromkeys(partitions, spec))
    return {where: offsets[where].offset for where in partitions}


def _needs(admin: Any, topic: str) -> list[dict[TopicPartition, int]]:
    """The committed offsets in the topic of each group that has any."""
    groups = [group["group_id"] for group in admin.list_groups()]
    committed = committed_by(admin, groups)
    needs = [
        {where: state.offset for where, state in offsets.items() if where.topic == topic and state.offset >= 0}
        for offsets in committed.values()
    ]
    return [need for need in needs if need]


@contextmanager
def administrating(settings: KafkaSettings) -> Generator[Any]:
    """An admin client, whose errors are raised as ours."""
    admin = connect(KafkaAdminClient, settings, settings.client_options())
    try:
        with translated():
            yield admin
    finally:
        with suppress(KafkaError):
            admin.close()


# wrongly typed
_CONFIGS = ("retention.ms", "retention.bytes", "cleanup.policy", "min.insync.replicas")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The settings of the topics that exist, by name, and the members of each group that has some."""

    topics: Mapping[str, Mapping[str, str]]
    members: Mapping[str, Sequence[str]]


def inspect(settings: KafkaSettings, topics: Sequence[str], groups: Sequence[str]) -> ClusterState:
    """Look at topics and groups.

    Raises:
        LogUnavailable: no broker answers.
        LogRefused: a broker refuses us.
    """
    if not any(map(is_reachable, settings.bootstrap_servers)):  # before files are looked for, which may be elsewhere
        raise LogUnavailable(f"no Kafka broker answers at {', '.join(settings.bootstrap_servers)}")
    with administrating(settings) as admin:
        described = {
            describe_topic["name"]: describe_topic
            for describe_topic in admin.describe_topics(list(topics))
            if describe_topic["error_code"] == 0
        }
        states = {name: _sizes(topic) | _configs(admin, name) for name, topic in described.items()}
        committed_by(admin, groups)  # refused without READ, while what describes groups only says less
        return ClusterState(
            states, {group: _members(describe_group) for group, describe_group in admin.describe_groups(groups).items()}
        )


def _sizes(topic: Mapping[str, Any]) -> dict[str, str]:
    partitions = topic["partitions"]
    return {
        "partitions": str(len(partitions)),
        "copies": str(min((len(partition["replica_nodes"]) for partition in partitions), default=0)),
    }


def _configs(admin: Any, topic: str) -> dict[str, str]:
    resource = _Resource("topic", topic, dict.fromkeys(_CONFIGS))
    try:
        described = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    except (AuthorizationError, KeyError):  # sources need not permit it
        return {}
    return {name: str(described[name]["value"]) for name in _CONFIGS if name in described}


def _members(group: Mapping[str, Any]) -> list[str]:
    names = [(member["group_instance_id"] or member["client_id"], member["client_host"]) for member in group["members"]]
    return sorted(f"{name} on {host.lstrip('/')}" for name, host in names)
