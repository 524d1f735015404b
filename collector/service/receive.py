"""The start of the receive stage: OTLP over HTTP and gRPC, topics, files.

The ids of the topics of others that this deployment has begun to read are noted in the definitions log. Brokers delete
what a group has committed for a topic together with the topic, so one that is deleted and made again while no process
runs is known by these notes alone.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import orjson

from collector.admission.relay import DESCRIPTORS as RELAYED
from collector.backoff import Backoff
from collector.config.settings import KafkaSourceSettings
from collector.errors import ConfigError
from collector.evaluate.recovery.ledger import RETRY, append_with_retry
from collector.logs.log import Log, LogError, LogUnavailable, OpenFold, Record
from collector.logs.whole_log import notes_in
from collector.receive.feedback_ingest import FeedbackRules
from collector.receive.files import read_files
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.receive.otlp_http import OtlpHttpReceiver
from collector.receive.otlp_ingest import IngestRules, SenderLimits
from collector.receive.parsed_request import TurnNoting
from collector.records.ready_made import Incoming
from collector.service.assembly_builder import WantedConversations, build_turn_notes
from collector.service.kafka_settings import group_of, settings_of_source
from collector.service.open_logs import loss_counter
from collector.service.process import FoldNeeds, Process, layered
from collector.service.process_resources import raise_descriptor_limit, with_descriptors
from collector.service.tasks import Tasks

if TYPE_CHECKING:
    from kafka.structs import TopicPartition

    from collector.logs.kafka import KafkaSource

    Sources = Mapping[str, KafkaSource]

logger = logging.getLogger(__name__)


async def start_receive(process: Process, wanted: WantedConversations | None) -> tuple[int | None, int | None]:
    """Start all ways in; gives the ports of OTLP over HTTP and gRPC, None where it is not configured.

    Receivers note the turns of conversations that are not wanted.

    Raises:
        ConfigError: a topic does not exist, or an address cannot be bound.
    """
    notes = None if wanted is None else build_turn_notes(process.config, wanted)
    receive, rules = process.config.settings.receive, _rules(process, notes)
    for settings in receive.kafka:
        await _start_source(process, settings, rules)
    if receive.files:
        process.tasks.start("files", partial(_read_files, process, [Path(file) for file in receive.files], rules))
    return await _start_otlp(process, rules)


async def _start_otlp(process: Process, rules: IngestRules) -> tuple[int | None, int | None]:
    """Listen for OTLP over HTTP and gRPC until the process ends. Both share one account of what they hold for
    senders.
    """
    http, grpc = process.config.settings.receive.otlp_http, process.config.settings.receive.otlp_grpc
    receivers = [receiver for receiver in (http, grpc) if receiver is not None]
    if not receivers:
        return None, None
    logs, telemetry, begin = process.logs, process.telemetry, process.stack.enter_async_context
    limits, files = SenderLimits(receivers, telemetry), raise_descriptor_limit()
    http_port = grpc_port = None
    if http is not None:
        settings = with_descriptors(http, len(receivers), files)
        receiver = OtlpHttpReceiver(
            settings, logs.spans, telemetry, turns=logs.turns, labels=logs.labels, limits=limits, rules=rules
        )
        http_port = await begin(receiver.serve(shared=process.shared_port("otlp_http")))
    if grpc is not None:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else senders can make it write to stderr, in lines of its own
        from collector.receive.otlp_grpc import OtlpGrpcReceiver  # an extra, which need not be installed

        limited = with_descriptors(grpc, len(receivers), files, each=RELAYED)
        server = OtlpGrpcReceiver(limited, logs.spans, telemetry, limits=limits, rules=rules)
        grpc_port = await begin(server.serve(shared=process.shared_port("otlp_grpc")))
    return http_port, grpc_port


IN_STEP: Mapping[Incoming, Incoming] = {"traces": "logs", "logs": "traces"}
"""Log records may have the messages of a trace. If one topic came by itself, the trace would be assembled without the
other, and once more when that came: two turns, as the id of a turn depends on its texts."""


async def _start_source(process: Process, settings: KafkaSourceSettings, rules: IngestRules) -> None:
    from collector.logs.kafka import KafkaSource

    to_kafka, lost = settings_of_source(settings, process.config.settings.log), loss_counter(process.telemetry)
    sources = dict[str, KafkaSource]()
    for kind, topics in settings.topics.items():
        try:
            if topics:
                sources[kind] = await KafkaSource.open(to_kafka, topics, start=settings.start, on_lost=lost)
        except LogError as error:
            raise ConfigError(f"receive.kafka: {error}") from error
    for kind in sources:
        await _start_topics(process, settings, rules, cast("Incoming", kind), sources)


async def _start_topics(
    process: Process, settings: KafkaSourceSettings, rules: IngestRules, kind: Incoming, sources: "Sources"
) -> None:
    logs, source, topics = process.logs, sources[kind], settings.topics[kind]
    names = ", ".join(topics)
    other = sources.get(IN_STEP.get(kind, ""))
    waiting = "" if other is None else f"; records of {', '.join(settings.topics[IN_STEP[kind]])} wait for it"
    process.resources.health.add(
        f"receive {names}", lambda: (problem := source.problem()) and problem + waiting, vital=False
    )
    dead_letters = process.resources.dead_letters("receive", source.where, logs, signal=kind)
    beside = None if other is None else other.await_older
    topic = SourceTopic(names, kind, encoding=settings.encoding, locate=source.where, await_older=beside)
    log = {"turns": logs.turns, "references": logs.turns, "feedback": logs.labels}.get(kind, logs.spans)
    receiver = KafkaReceiver(
        topic, log, process.telemetry, labels=logs.labels, rules=rules, on_unreadable=dead_letters.take
    )
    group = f"{group_of(settings, process.config.settings.log)}.{kind}"
    place, guard = f"{group} {' '.join(sorted(topics))}", process.guard
    needs = FoldNeeds(place=place, log="source", letters=dead_letters, guard=guard)
    begun = await TopicNotes.open(logs.definitions, group)
    process.tasks.start("topic notes", begun.write_forever, f"topic notes of {group}")
    open_fold = _measured(process.tasks, source, group, layered(receiver.open_fold, needs))
    process.tasks.start("receive", partial(source.follow, group, open_fold, begun=begun), group)


def _measured(tasks: Tasks, source: "KafkaSource", group: str, open_fold: OpenFold) -> OpenFold:
    """The same folds, with their lag measured, each in its topic."""
    measured = {topic.name: tasks.lag.measured(group, topic, open_fold) for topic in source.each_topic()}
    return lambda partition, committed: measured[source.where(partition)[0]](partition, committed)


async def _read_files(process: Process, paths: Sequence[Path], rules: IngestRules) -> None:
    logs, paths = process.logs, [*map(Path.absolute, paths)]
    count = await read_files(paths, logs.spans, logs.turns, process.telemetry, labels=logs.labels, rules=rules)
    logger.info("files: %d requests read, %d could not be read", count.requests, count.unreadable)


def _rules(process: Process, notes: TurnNoting | None) -> IngestRules:
    """How received content becomes records."""
    settings = process.config.settings
    experts = settings.feedback.experts
    known = None if experts == "always" else frozenset[str]() if experts == "never" else frozenset(experts)
    return IngestRules(
        redactors=process.resources.redactors,
        own=process.own,
        stored_media=settings.assemble.attachments.stored_bytes,
        feedback=FeedbackRules(comments=settings.store_text, experts=known, scales=settings.feedback.scales),
        notes=notes,
    )


BEGUN_KEY = b"source topics"
"""The key of the notes. The last one of a partition counts."""


class TopicNotes:
    """The topics that one group has begun to read. Open it with `TopicNotes.open`, and keep `write_forever` running.

    A partition without a note is known by any other of its topic.
    """

    def __init__(self, log: Log, group: str, noted: dict[tuple[str, int], str], backoff: Backoff = RETRY) -> None:
        self._log = log
        self._group = group
        self._topic_ids = noted
        self._backoff = backoff
        self._unwritten: asyncio.Queue[tuple[str, int, str]] = asyncio.Queue()

    @classmethod
    async def open(cls, log: Log, group: str, *, backoff: Backoff = RETRY) -> "TopicNotes":
        """Read the notes of a group; retries while the log is unavailable."""
        noted = await backoff.repeat(lambda: _read(log, group), LogUnavailable, action="reading the definitions log")
        return cls(log, group, noted, backoff)

    def noted_id(self, where: "TopicPartition") -> str | None:
        """The id under which the topic was read before; None if it was not."""
        noted = dict(self._topic_ids)  # another thread writes
        others = [topic_id for (topic, _), topic_id in noted.items() if topic == where.topic]
        return noted.get((where.topic, where.partition)) or next(iter(others), None)

    def begun(self, where: "TopicPartition", topic_id: str) -> None:
        """Have it noted, some time."""
        self._topic_ids[where.topic, where.partition] = topic_id
        self._unwritten.put_nowait((where.topic, where.partition, topic_id))

    async def write_forever(self) -> None:
        """Write what was begun, as it comes; waits while the log is unavailable."""
        while True:
            topic, partition, topic_id = await self._unwritten.get()
            note = {"group": self._group, "topic": topic, "partition": partition, "id": topic_id}
            record = Record(BEGUN_KEY, orjson.dumps(note), partition=0)
            await append_with_retry(self._log, record, backoff=self._backoff)


async def _read(log: Log, group: str) -> dict[tuple[str, int], str]:
    noted: dict[tuple[str, int], str] = {}
    async for note in notes_in(log, BEGUN_KEY):
        if note["group"] == group:
            noted[note["topic"], note["partition"]] = note["id"]
    return noted
