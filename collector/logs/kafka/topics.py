"""The topics themselves: looked at as a user would, made, checked, and cut off at the front. Everything here blocks."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from kafka import errors
from kafka.admin import ConfigResource
from kafka.admin.client import KafkaAdminClient
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.logs.kafka.connections import connect, is_reachable
from collector.logs.kafka.owned_partitions import from_kafka
from collector.logs.kafka.settings import KafkaSettings, absent, milliseconds, translated
from collector.logs.log import Committed, LogError, LogUnavailable, NotPermitted
from collector.wording import listed, plural

T = TypeVar("T")
_Resource: Any = ConfigResource  # wrongly typed
TIMESTAMPS = "message.timestamp.type"
APPEND_TIME = "LogAppendTime"
"""The broker's clock stamps the records, so that the times of a partition do not fall."""
CREATE_TIME = "CreateTime"
"""The writers stamp the records: while another log is copied into a topic, and no service may use it."""

_GRANTED = "authorized_operations"
"""The key of the operations that this user has of a topic; brokers may leave it out."""
LARGEST = "max.message.bytes"
RETENTION = "retention.ms"
_CLEANUP = "cleanup.policy"
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
    rights: Sequence[str] = (),
) -> None:
    """Make the topics that are not there; check that the others are as wanted, and that this user has the rights of
    all.

    `configs` are further topic configs by topic, like `retention.ms`. Of an existing topic, a finite retention
    is not checked. With `validate_only` brokers say whether they would make topics, and nothing changes.

    Raises:
        LogError: a topic has another number of partitions, or its configs do not fit.
        LogUnavailable: no broker answers.
    """
    with administrating(settings) as admin:
        there, problems = _partitions(admin, topics), list[LogError]()
        missing, hidden = [topic for topic in topics if topic not in there], list[str]()
        copies = _copies_mistake(admin, replication_factor) if missing else ""
        # a batch holds at least one record; compressed or not, it may be as large as the largest
        common = {TIMESTAMPS: timestamps, LARGEST: str(settings.max_record_bytes + (1 << 20)), _CLEANUP: "delete"}
        own = {topic: {**common, **(configs or {}).get(topic, {})} for topic in topics}
        for topic in missing:
            config = {**own[topic], **_copies(replication_factor)}
            new = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": config}
            try:
                admin.create_topics({topic: new}, wait_for_metadata=not validate_only, validate_only=validate_only)
            except errors.TopicAlreadyExistsError:  # another process has just made it, or this user may not see it
                hidden.append(topic)
            except errors.TopicAuthorizationFailedError:
                more = f", and {', '.join(rights)} (not checked before the topics exist)" if rights else ""
                has = f"{plural(_usual(there, partitions), 'partition')} and the settings in deploy/docs/kafka.md"
                more += f"; or create each by hand with {has}{copies and '; '}{copies}"
                problems.append(_refused({key: ["CREATE"] for key in missing}, more))
                break
            except errors.InvalidReplicationFactorError as error:
                problems.append(LogError(copies or str(error)))
                break
        if not problems and (made := hidden if validate_only else missing):
            problems += _await_topics(admin, made)
        if known := list(there) if validate_only or problems else topics:
            lacking = _lacking(described(admin, known), *rights)
            problems += [_refused(lacking)] if lacking else []
            readable = [topic for topic in known if "DESCRIBE_CONFIGS" not in lacking.get(topic, ())]
            problems += _mistakes(admin, settings, {topic: own[topic] for topic in known}, readable, partitions)
        _raise_all(problems)


def _usual(there: Mapping[str, int], wanted: int) -> int:
    """The partitions that most topics have; the wanted number if as many have that, or there is no topic."""
    numbers = [*there.values()] or [wanted]
    return max(numbers, key=lambda number: (numbers.count(number), number == wanted))


def _copies_mistake(admin: Any, replication_factor: int) -> str:
    brokers = len(admin.describe_cluster()["brokers"])
    if replication_factor <= brokers:
        return ""
    return (
        f"the cluster has {plural(brokers, 'broker')}, too few for log.kafka.replication_factor: {replication_factor}; "
        f"write {brokers}, or add brokers"
    )


def require_topics(settings: KafkaSettings, topics: Sequence[str]) -> None:
    """See that the topics of a source are there, and may be read.

    Raises:
        LogError: one is not.
        LogUnavailable: no broker answers.
    """
    with administrating(settings) as admin:
        there = described(admin, topics)
    problems = list[LogError]([_refused(lacking)] if (lacking := _lacking(there, "READ")) else [])
    if missing := [topic for topic in topics if topic not in there]:
        problems.append(LogError(f"{absent(missing)} at {', '.join(settings.bootstrap_servers)}"))
    _raise_all(problems)


def require_rights(settings: KafkaSettings, topics: Sequence[str], *rights: str) -> None:
    """Check that this user has the rights of the existing topics, as far as brokers tell them.

    Raises:
        LogRefused: it lacks one.
    """
    with administrating(settings) as admin:
        _require(described(admin, topics), *rights)


def _require(there: Mapping[str, Any], *rights: str) -> None:
    if lacking := _lacking(there, *rights):
        raise _refused(lacking)


def _lacking(there: Mapping[str, Any], *rights: str) -> dict[str, list[str]]:
    """The rights that this user lacks, by topic, as far as brokers tell them."""
    lacking = {
        name: [right for right in rights if right not in (topic.get(_GRANTED) or rights)]
        for name, topic in there.items()
    }
    return {name: each for name, each in lacking.items() if each}


def require_all(*asks: Callable[[], object]) -> None:
    """Ask brokers for several permissions, and raise those that are missing as one.

    Raises:
        NotPermitted: one is missing.
        LogError: see what is asked.
    """
    refused: list[LogError] = []
    for ask in asks:
        try:
            ask()
        except NotPermitted as error:
            refused.append(error)
    _raise_all(refused)


def _raise_all(problems: Sequence[LogError]) -> None:
    """Raise problems as one, so that one look names all."""
    if problems:
        raise type(problems[0])("; ".join(map(str, problems)))


def _refused(lacking: Mapping[str, Sequence[str]], more: str = "") -> NotPermitted:
    """The refusal of operations, by topic: all in one sentence, so that one grant is enough."""
    topics: dict[str, list[str]] = {}
    for name, rights in sorted(lacking.items()):
        topics.setdefault(", ".join(rights), []).append(name)
    what = "; ".join(f"{rights} of the topic {', '.join(names)}" for rights, names in topics.items())
    return NotPermitted(f"Kafka does not permit this user {what}: grant it{more}")


def retention(settings: KafkaSettings, topic: str) -> float | None:
    """Seconds after which a topic deletes a record by its age; None if it never does.

    Raises:
        LogUnavailable: no broker answers.
        LogRefused: there is no such topic at present, or its configuration may not be read.
    """
    with administrating(settings) as admin:
        value = int(_values(admin, [topic], RETENTION)[topic][RETENTION])
    return None if value < 0 else value / 1000


def truncate(settings: KafkaSettings, topic: str, partitions: int, before: float) -> int:
    """Delete records older than `before` (seconds since the epoch) that no group needs; returns how many.

    A group needs what lies from its committed offset on; one that has committed for the topic, but not for a partition,
    needs all of that partition.
    """
    with administrating(settings) as admin:
        every = [TopicPartition(topic, number) for number in range(partitions)]
        starts = offsets_at(admin, every, OffsetSpec.EARLIEST)
        ends = offsets_at(admin, every, OffsetSpec.LATEST)
        young = offsets_at(admin, every, max(0, milliseconds(before)))
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
        except (errors.CoordinatorNotAvailableError, errors.CoordinatorLoadInProgressError, errors.NotCoordinatorError):
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
    refused = sorted({error.__name__ for error in answers.values() if error is not errors.NoError})
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
        result: dict[str, TopicState] = {}
        for topic, partitions in _partitions(admin, topics).items():
            every = [TopicPartition(topic, number) for number in range(partitions)]
            starts, ends = offsets_at(admin, every, OffsetSpec.EARLIEST), offsets_at(admin, every, OffsetSpec.LATEST)
            timestamps = _values(admin, [topic], TIMESTAMPS)[topic][TIMESTAMPS]
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
        there = described(admin, [topic])
        if topic not in there:
            return None
        _require(there, "WRITE")
        largest = _values(admin, [topic], LARGEST)[topic][LARGEST]
        return TopicRoom(len(there[topic]["partitions"]), int(largest) - _BATCH_OVERHEAD)


def prefixes(settings: KafkaSettings, ending: str) -> list[str]:
    """The names, without an ending, of the topics that end so and that this user may see."""
    with administrating(settings) as admin:
        return [name.removesuffix(ending) for name in described(admin, None) if name.endswith(ending)]


def empty(settings: KafkaSettings, topics: Mapping[str, TopicState]) -> None:
    """Delete all records of topics."""
    with administrating(settings) as admin:
        _require(described(admin, list(topics)), "DELETE")
        every = [TopicPartition(topic, number) for topic, state in topics.items() for number in range(state.partitions)]
        admin.delete_records(offsets_at(admin, every, OffsetSpec.LATEST))


def delete(settings: KafkaSettings, topics: Sequence[str]) -> None:
    """Delete the existing ones of these topics, with all records."""
    with administrating(settings) as admin:
        if there := described(admin, topics):
            _require(there, "DELETE")
            admin.delete_topics(list(there))


def set_timestamps(settings: KafkaSettings, topics: Sequence[str], timestamps: str) -> None:
    """Say by whose clock the records of topics are stamped from now on; waits until the brokers do so."""
    if not topics:
        return
    with administrating(settings) as admin:
        _require(described(admin, topics), "ALTER_CONFIGS")
        admin.alter_configs([_Resource("topic", topic, {TIMESTAMPS: timestamps}) for topic in topics])
        give_up_at = time.monotonic() + KNOWN_WITHIN
        while time.monotonic() < give_up_at:
            if all(now[TIMESTAMPS] == timestamps for now in _values(admin, topics, TIMESTAMPS).values()):
                return
            time.sleep(0.1)
    raise LogUnavailable(f"the topics {', '.join(topics)} cannot be given {TIMESTAMPS}={timestamps}")


def described(admin: Any, topics: Sequence[str] | None) -> dict[str, Any]:
    """The descriptions of the existing ones of these topics, by name; None for all that this user may see."""
    answer = admin.describe_topics(None if topics is None else list(topics))
    return {topic["name"]: topic for topic in answer if topic["error_code"] == 0}


def _partitions(admin: Any, topics: Sequence[str]) -> dict[str, int]:
    """How many partitions the topics have that are there."""
    return {name: len(topic["partitions"]) for name, topic in described(admin, topics).items()}


def readable_configs(admin: Any, topics: Sequence[str], *names: str) -> dict[str, dict[str, str]]:
    """The configs by topic and name, in the order of the names; those that this user may not see are left out."""
    resources = [_Resource("topic", topic, dict.fromkeys(names)) for topic in topics]
    answer = admin.describe_configs(resources, config_filter="all").get("topic", {})
    return {
        topic: {name: str(known[name]["value"]) for name in names if name in known}
        for topic, known in ((topic, answer.get(topic, {})) for topic in topics)
    }


def _values(admin: Any, topics: Sequence[str], *names: str) -> dict[str, dict[str, str]]:
    """The same, with all of the names.

    Raises:
        LogRefused: a broker leaves one out.
    """
    values = readable_configs(admin, topics, *names)
    if hidden := [topic for topic in topics if not values[topic].keys() >= set(names)]:
        raise _refused({key: ["DESCRIBE_CONFIGS"] for key in hidden})
    return values


def _await_topics(admin: Any, topics: Sequence[str]) -> Iterator[LogError]:
    """Wait until a broker knows topics that were just made, perhaps by another process, unless this user may not.

    Raises:
        LogUnavailable: the broker does not know one in time.
    """
    give_up_at = time.monotonic() + KNOWN_WITHIN
    while codes := {topic["name"]: topic["error_code"] for topic in admin.describe_topics(list(topics))}:
        if refused := [name for name, code in codes.items() if code == errors.TopicAuthorizationFailedError.errno]:
            yield _refused({topic: ["READ", "WRITE"] for topic in refused})
        if refused or not (unknown := [name for name, code in codes.items() if code]):
            return
        if time.monotonic() >= give_up_at:
            raise LogUnavailable(f"the broker does not know {', '.join(unknown)} yet, made just now")
        time.sleep(0.1)


def _mistakes(
    admin: Any, settings: KafkaSettings, wanted: Mapping[str, Mapping[str, str]], readable: Sequence[str],
    partitions: int,
) -> Iterator[LogError]:  # fmt: skip
    """The mistakes in topics: in the partitions of all, and in the configs of the `readable` ones."""
    there, mistakes = _partitions(admin, list(wanted)), list[str]()
    usual = _usual(there, partitions)
    if gone := [topic for topic in wanted if topic not in there]:
        yield LogError(f"{absent(gone)}; or was it made just now, and is being deleted?")
        return
    for number in sorted({there[topic] for topic in wanted} - ({partitions} if usual == partitions else set())):
        topics = sorted(topic for topic in wanted if there[topic] == number)
        remedy = (
            f"not {partitions}: set log.kafka.partitions: {usual}"
            if number == usual
            else f"not {usual} as the others: if empty, delete and create again with {usual}"
        )
        has = f"topic {topics[0]} has" if len(topics) == 1 else f"topics {listed(topics)} have"
        mistakes.append(f"the {has} {plural(number, 'partition')}, {remedy}, or use another log.kafka.prefix")
    configs: Mapping[str, Mapping[str, str]] = {}
    try:
        configs = _values(admin, readable, *set[str]().union(*wanted.values())) if readable else {}
    except NotPermitted as error:
        yield error
    for topic, values in configs.items():
        large = int(values[LARGEST]) >= settings.max_record_bytes
        fits = {LARGEST: large, RETENTION: wanted[topic].get(RETENTION) != "-1"}
        differing = {key: value for key, value in wanted[topic].items() if values[key] != value}
        if lacking := [f"{key}={value}" for key, value in differing.items() if not fits.get(key)]:
            mistakes.append(f"the topic {topic} needs the config {', '.join(lacking)}")
    if mistakes:
        # an interrupted copy leaves topics that lack this alone
        if all(each.endswith(f" config {TIMESTAMPS}={APPEND_TIME}") for each in mistakes):
            mistakes.append("if evalstream log copy was interrupted, run that again")
        yield LogError("; ".join(mistakes))


def offsets_at(admin: Any, partitions: Sequence[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
    """The offset of each partition at an end, or the first one from a time (ms) on."""
    offsets = admin.list_partition_offsets(dict.fromkeys(partitions, spec))
    return {where: offsets[where].offset for where in partitions}


def _needs(admin: Any, topic: str) -> list[dict[TopicPartition, int]]:
    """The committed offsets in the topic of each group that has any."""
    needs = [
        {where: state.offset for where, state in offsets.items() if where.topic == topic and state.offset >= 0}
        for offsets in committed_by(admin, [group["group_id"] for group in admin.list_groups()]).values()
    ]
    return [need for need in needs if need]


@contextmanager
def administrating(settings: KafkaSettings) -> Generator[Any]:
    """An admin client, whose errors are raised as ours."""
    admin = connect(KafkaAdminClient, settings, settings.client_options())
    try:
        with translated(settings):
            yield admin
    finally:
        with suppress(errors.KafkaError):
            admin.close()


def _copies(replication_factor: int) -> dict[str, str]:
    """An acknowledged record is on two brokers at least, wherever there are three that keep it."""
    return {"min.insync.replicas": "2"} if replication_factor > 2 else {}


# wrongly typed
_CONFIGS = (RETENTION, "retention.bytes", _CLEANUP, "min.insync.replicas")


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
        there = described(admin, topics)
        values = readable_configs(admin, list(there), *_CONFIGS) if there else {}  # sources need not permit it
        committed_by(admin, groups)  # refused without READ, while what describes groups only says less
        members = {name: member_names(group["members"]) for name, group in admin.describe_groups(groups).items()}
        return ClusterState({name: _sizes(topic) | values[name] for name, topic in there.items()}, members)


def _sizes(topic: Mapping[str, Any]) -> dict[str, str]:
    partitions = topic["partitions"]
    return {
        "partitions": str(len(partitions)),
        "copies": str(min((len(partition["replica_nodes"]) for partition in partitions), default=0)),
        **({} if topic.get(_GRANTED) else {"rights": "not said by the broker, so not checked"}),
    }


def member_names(members: Sequence[Mapping[str, Any]]) -> list[str]:
    """The members of a group by their processes' names: without the topic with which a group instance id ends, as a
    member may read others, too.
    """
    names: list[str] = []
    for member in members:
        name: str = member["group_instance_id"] or f"{member['client_id']} (no group_instance_id)"
        known = member["member_metadata"]
        topics: Sequence[str] = cast("dict[str, Any]", known)["topics"] if isinstance(known, dict) else ()
        endings = (f"-{ending}" for topic in topics for ending in (topic, topic.rpartition(".")[2]))
        process = name.removesuffix(next(filter(name.endswith, endings), ""))
        names.append(f"{process} on {member['client_host'].lstrip('/')}")
    return sorted(names)
