"""The section `export.spans`, and the destinations that it names for judged spans.

They are an OTLP endpoint, or a Kafka topic as the Collector's Kafka exporter writes it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import orjson
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import Field

from collector.backoff import Backoff
from collector.durations import Seconds
from collector.errors import ConfigError
from collector.export.exporter import ExporterSettings
from collector.export.otlp_client import OtlpClient, OtlpEndpointSettings
from collector.logs.addresses import BrokerAddresses
from collector.logs.kafka_security import KafkaSecuritySettings
from collector.logs.log import Confirm, LogError, LogUnavailable, Partitioner, Record, RecordTooLarge, size_of
from collector.section import Section
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import EXPORT_FAILURES

if TYPE_CHECKING:
    from collector.logs.kafka import KafkaSettings
    from collector.logs.kafka.topics import TopicRoom


class JudgedSpansOtlpSettings(OtlpEndpointSettings):
    """An OTLP/HTTP endpoint for judged spans."""

    batch_size: int = Field(default=200, ge=1, le=10_000)
    """Most spans in one request."""


class JudgedSpansKafkaSettings(Section):
    """A topic for judged spans, which others read."""

    bootstrap_servers: BrokerAddresses
    """Brokers, as host:port."""
    topic: str = Field(min_length=1)
    """The topic; it must exist."""
    encoding: Literal["otlp_proto", "otlp_json"] = "otlp_proto"
    """How each record has its span, as the Collector's Kafka exporter calls it."""
    security: KafkaSecuritySettings | None = None
    """TLS and login, apart from those of log.kafka; without it connections are neither encrypted nor authenticated."""


class JudgedSpansSettings(ExporterSettings):
    """The destination of judged spans, and how long a span waits for evaluations."""

    otlp: JudgedSpansOtlpSettings | None = None
    """To an OTLP/HTTP endpoint."""
    kafka: JudgedSpansKafkaSettings | None = None
    """To a Kafka topic."""
    remember: Seconds = Field(default=21_600.0, gt=0)
    """How long after a span its evaluations may come; later ones are dropped and counted."""
    max_bytes: int = Field(default=128 << 20, ge=1 << 20)
    """Most bytes of remembered spans, packed, per partition; the oldest are forgotten first."""
    explanation: bool = True
    """Write the judge's explanation, which may quote judged text."""
    skipped: bool = False
    """Write skipped evaluations too, without a score."""

    def _mistakes(self) -> Iterator[str]:
        if (self.otlp is None) == (self.kafka is None):
            yield "needs either otlp: {endpoint: ...} or kafka: {bootstrap_servers: [...], topic: ...}"


EXPORTER = "spans"
_REQUEST_BYTES = 1 << 20
_KAFKA_BATCH = 200


class SpanDestination(Protocol):
    """Takes requests of one span each."""

    @property
    def problem(self) -> str | None:
        """Why it cannot take spans now; None if it can, as far as is known."""
        ...

    async def send(self, spans: Sequence[ExportTraceServiceRequest]) -> None:
        """Write spans in order; on return they are written, or lost for a counted reason."""


class OtlpSpans:
    """Writes spans to `/v1/traces` of an OTLP endpoint, each request until it is taken or refused for good."""

    def __init__(self, client: OtlpClient, batch_size: int) -> None:
        self._client = client
        self._batch_size = batch_size

    @property
    def problem(self) -> str | None:
        """Why the endpoint does not accept the request in hand; None if it does."""
        return self._client.problem

    async def send(self, spans: Sequence[ExportTraceServiceRequest]) -> None:
        """Send spans in order; the client counts the records that are refused for good."""
        for request in _joined(spans, self._batch_size):
            await self._client.send_traces(request)


def _joined(spans: Sequence[ExportTraceServiceRequest], most: int) -> Iterator[ExportTraceServiceRequest]:
    """Requests of at most so many spans, and of about a megabyte: receivers refuse large ones."""
    joined, count, size = ExportTraceServiceRequest(), 0, 0
    for request in spans:
        if count and (count >= most or size + request.ByteSize() > _REQUEST_BYTES):
            yield joined
            joined, count, size = ExportTraceServiceRequest(), 0, 0
        joined.MergeFrom(request)
        count, size = count + 1, size + request.ByteSize()
    if count:
        yield joined


@dataclass(eq=False, repr=False)
class KafkaSpans:
    """Writes each span as a record of a topic. Its key is trace and span, so compaction leaves the last of each."""

    topic: str
    encode: Callable[[ExportTraceServiceRequest], bytes]
    append: Any
    partitioner: Partitioner
    telemetry: Telemetry
    _: KW_ONLY
    backoff: Backoff
    confirm: Confirm

    def __post_init__(self) -> None:
        self.problem: str | None = None
        """Why the topic cannot be written now; None if it can, as far as is known."""

    async def send(self, spans: Sequence[ExportTraceServiceRequest]) -> None:
        """Append spans in order. One that is too large for the topic is counted as lost."""
        records = [Record(span_key(request), self.encode(request)) for request in spans]
        for start in range(0, len(records), _KAFKA_BATCH):
            await self._deliver(records[start : start + _KAFKA_BATCH])

    async def _deliver(self, records: Sequence[Record]) -> None:
        fitting: list[Record] = []
        for record in records:
            try:
                self.partitioner.split([record])
            except RecordTooLarge:
                self.telemetry.drop("export_spans", DropReason.TOO_LARGE)
            else:
                fitting.append(record)
        if not fitting:
            return
        by_partition, _ = self.partitioner.split(fitting)

        async def attempt() -> None:
            await self.confirm()
            await self.append(self.topic, by_partition, sum(map(size_of, fitting)))

        await self.backoff.repeat(
            attempt, LogUnavailable, action=f"exporting to {EXPORTER} (topic {self.topic})", on_failure=self._failed
        )
        self.problem = None

    def _failed(self, error: LogUnavailable) -> None:
        self.problem = f"topic {self.topic}: {error}"
        self.telemetry.counter(EXPORT_FAILURES, EXPORTER, "kafka").inc()


def span_key(request: ExportTraceServiceRequest) -> bytes:
    """The key of a span's record: `trace id-span id`, in hex."""
    span = request.resource_spans[0].scope_spans[0].spans[0]
    return f"{span.trace_id.hex()}-{span.span_id.hex()}".encode()


def to_protobuf(request: ExportTraceServiceRequest) -> bytes:
    """The request as protobuf, the Collector's `otlp_proto`."""
    return request.SerializeToString()


def to_otlp_json(request: ExportTraceServiceRequest) -> bytes:
    """The request as OTLP/JSON: ids in hex and enumerations as numbers, unlike protobuf's own JSON."""
    document = MessageToDict(request, use_integers_for_enums=True)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    plain = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    plain["traceId"], plain["spanId"] = span.trace_id.hex(), span.span_id.hex()
    if span.parent_span_id:
        plain["parentSpanId"] = span.parent_span_id.hex()
    for link, written in zip(span.links, plain.get("links", ()), strict=True):
        written["traceId"], written["spanId"] = link.trace_id.hex(), link.span_id.hex()
    return orjson.dumps(document)


ENCODINGS = {"otlp_proto": to_protobuf, "otlp_json": to_otlp_json}


def topic_of(settings: JudgedSpansKafkaSettings) -> "tuple[KafkaSettings, TopicRoom]":
    """How to reach a topic that others read, and what fits into it. Blocks.

    Raises:
        ConfigError: it does not exist, or no broker answers.
    """
    from collector.logs.kafka import Credentials, KafkaSettings
    from collector.logs.kafka.topics import room_of

    kafka = KafkaSettings(bootstrap_servers=settings.bootstrap_servers, credentials=Credentials(settings.security))
    where = "export.spans.kafka"
    try:
        room = room_of(kafka, settings.topic)
    except LogError as error:
        raise ConfigError(f"{where}: {error.with_remedy('start it, or correct bootstrap_servers')}") from error
    if room is None:
        raise ConfigError(
            f"{where}.topic: there is no topic {settings.topic}, or this user may not see it; create it, or allow "
            "DESCRIBE and WRITE"
        )
    return kafka, room


@asynccontextmanager
async def open_topic(
    settings: JudgedSpansKafkaSettings, telemetry: Telemetry, *, backoff: Backoff, confirm: Confirm
) -> AsyncGenerator[KafkaSpans]:
    """Open a topic that others read; it must exist.

    Raises:
        ConfigError: it does not, or no broker answers.
    """
    from collector.logs.kafka.producer import SharedProducer

    kafka, room = await asyncio.to_thread(topic_of, settings)
    producer = SharedProducer(kafka)
    partitioner = Partitioner(settings.topic, room.partitions, min(room.largest, kafka.max_record_bytes))
    try:
        yield KafkaSpans(
            settings.topic,
            ENCODINGS[settings.encoding],
            producer.append,
            partitioner,
            telemetry,
            backoff=backoff,
            confirm=confirm,
        )
    finally:
        await producer.close()
