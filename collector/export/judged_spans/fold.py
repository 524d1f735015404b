"""The fold over the log of judged spans: an evaluation brings its span out again, with all scores known by then.

Spans that evaluations may still come for are remembered, with the evaluations that have come. Scores are attributes of
the span itself, so that a store can group by them. No clock, no I/O.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from collector.errors import BadInput
from collector.export.attributes import Value
from collector.export.judged_spans.destinations import SpanDestination
from collector.export.otlp_messages import any_value
from collector.logs.log import Committed, StoredRecord, UntimedFold
from collector.otlp.decode import request_from_protobuf
from collector.otlp.own_items import OwnItems
from collector.records.json import evaluation_from_json
from collector.records.judged_spans import EVALUATION, SPAN
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from evaluators.results import Evaluation

GROUP = "judged_spans"
"""The group under which the cursor of this fold is stored."""
STAGE = "export_spans"
"""Its name in the counters of losses."""


@dataclass(eq=False, repr=False)
class JudgedSpansStage:
    """Opens the folds of the log of judged spans. `explanation` says whether the judge's words go along."""

    destination: SpanDestination
    telemetry: Telemetry
    _: KW_ONLY
    remember: float
    max_bytes: int
    explanation: bool
    own: OwnItems | None = None

    @asynccontextmanager
    async def open_fold(self, _partition: int, _committed: Committed | None) -> "AsyncGenerator[JudgedSpansFold]":
        """Open the fold of a partition; its state comes by replay."""
        yield JudgedSpansFold(self, RememberedSpans(remember=self.remember, max_bytes=self.max_bytes))


class JudgedSpansFold(UntimedFold):
    """The remembered spans of one partition, written again when evaluations of them come."""

    def __init__(self, stage: JudgedSpansStage, spans: "RememberedSpans") -> None:
        self._stage = stage
        self._spans = spans

    @property
    def low_watermark(self) -> int | None:
        """The record of the oldest remembered span."""
        return self._spans.low_watermark

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Remember spans and evaluations again; they are out."""
        for record in records:
            self._apply(record)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Write the spans of new evaluations, each once with all of this delivery; returns when they are out."""
        judged: dict[SpanKey, ExportTraceServiceRequest] = {}
        for record in records:
            key, known = self._apply(record)
            if key is None:
                continue
            if known:
                judged.pop(key, None)  # it goes out once, where its last evaluation came
                judged[key] = self._written(key)
            else:
                self._stage.telemetry.drop(STAGE, DropReason.SPAN_UNKNOWN)
        if judged:
            await self._stage.destination.send(list(judged.values()))

    def _apply(self, record: StoredRecord) -> "tuple[SpanKey | None, bool]":
        """The span that an evaluation is about, and whether it is remembered; None for other records."""
        self._spans.expire(record.timestamp)
        try:
            if record.headers == SPAN:
                self._spans.add_span(
                    (record.key or b"", _span_id(record.value)), record.value, record.offset, record.timestamp
                )
            elif record.headers == EVALUATION:
                evaluation = evaluation_from_json(record.value)
                key = record.key or b"", evaluation.subject.span_id or ""
                scores = score_attributes(evaluation, explanation=self._stage.explanation)
                return key, self._spans.add_scores(key, evaluation.evaluator, scores)
        except BadInput:
            self._stage.telemetry.drop(STAGE, DropReason.UNREADABLE)
        return None, False

    def _written(self, key: "SpanKey") -> ExportTraceServiceRequest:
        """The span as it came, with the scores."""
        known = self._spans.span(key)
        assert known is not None
        request = _request(known[0])
        span = request.resource_spans[0].scope_spans[0].spans[0]
        put_attributes(span, known[1])
        if self._stage.own is not None:
            self._stage.own.sign(span)
        return request


def _request(value: bytes) -> ExportTraceServiceRequest:
    request = request_from_protobuf(value, "traces")
    assert isinstance(request, ExportTraceServiceRequest)
    return request


def _span_id(value: bytes) -> str:
    try:
        return _request(value).resource_spans[0].scope_spans[0].spans[0].span_id.hex()
    except IndexError:
        raise BadInput("the record holds no span") from None


PREFIX = "gen_ai.evaluation"


def score_attributes(evaluation: Evaluation, *, explanation: bool) -> dict[str, Value]:
    """The attributes of one evaluation, each below `gen_ai.evaluation.<evaluator>`."""
    pairs = _parts(evaluation, explanation=explanation)
    return {f"{PREFIX}.{evaluation.evaluator}.{name}": value for name, value in pairs if value is not None}


def _parts(evaluation: Evaluation, *, explanation: bool) -> Iterator[tuple[str, Value | None]]:
    yield "score.value", None if evaluation.score is None else float(evaluation.score)
    yield "score.label", evaluation.label
    yield "passed", evaluation.passed
    yield "explanation", evaluation.explanation if explanation else None
    yield "outcome", evaluation.outcome
    yield "error.type", evaluation.error.type if evaluation.error else None
    yield "id", evaluation.evaluation_id
    yield "evaluator.version", evaluation.evaluator_version
    yield "monitor", evaluation.monitor
    yield "scope", evaluation.scope
    yield "revision", evaluation.subject.revision if evaluation.scope == "conversation" else None
    yield "method", evaluation.method
    yield "judge.model", evaluation.judge.model if evaluation.judge else None
    yield "sampling.probability", float(evaluation.sampling.probability)
    yield "cost_usd", None if evaluation.cost_usd is None else float(evaluation.cost_usd)


def put_attributes(span: Any, attributes: Mapping[str, Value]) -> None:
    """Put attributes on a span; one that has such a name already is replaced. The rest of the span stays as it is."""
    for index in reversed(range(len(span.attributes))):
        if span.attributes[index].key in attributes:
            del span.attributes[index]
    span.attributes.extend(KeyValue(key=name, value=any_value(value)) for name, value in attributes.items())


OVERHEAD = 600
"""Bytes that a span costs beside its packed content, about."""
_PER_ATTRIBUTE = 150

SpanKey = tuple[bytes, str]
"""The key of a span's record, which is its trace, and the span's id."""


@dataclass(slots=True)
class _RememberedSpan:
    """A span, packed; where its first record lies; and the attributes of its evaluations, by evaluator."""

    packed: bytes
    offset: int
    time: float
    scores: dict[str, Mapping[str, Value]] = field(default_factory=dict[str, Mapping[str, Value]])

    @property
    def size(self) -> int:
        return OVERHEAD + len(self.packed) + _PER_ATTRIBUTE * sum(map(len, self.scores.values()))


class RememberedSpans:
    """Spans of one partition, the oldest first, for `remember` seconds and within `max_bytes`."""

    def __init__(self, *, remember: float, max_bytes: int) -> None:
        self._remember = remember
        self._max_bytes = max_bytes
        self._bytes = 0
        self._spans: OrderedDict[SpanKey, _RememberedSpan] = OrderedDict()
        self._packer = zstandard.ZstdCompressor(level=3)
        self._unpacker = zstandard.ZstdDecompressor()

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def low_watermark(self) -> int | None:
        """The offset of the oldest span's first record."""
        return next(iter(self._spans.values())).offset if self._spans else None

    def add_span(self, key: SpanKey, value: bytes, offset: int, time: float) -> None:
        """Remember a span. One that came before keeps its place and its scores."""
        packed = self._packer.compress(value)
        known = self._spans.get(key)
        if known is None:
            self._spans[key] = known = _RememberedSpan(packed, offset, time)
            self._bytes += known.size
        else:
            self._bytes += len(packed) - len(known.packed)
            known.packed = packed
        self._shrink()

    def add_scores(self, key: SpanKey, evaluator: str, scores: Mapping[str, Value]) -> bool:
        """Add the attributes of an evaluation, in place of an earlier one's; False if the span is not remembered."""
        known = self._spans.get(key)
        if known is None:
            return False
        self._bytes -= known.size
        known.scores[evaluator] = scores
        self._bytes += known.size
        self._shrink()
        return True

    def span(self, key: SpanKey) -> tuple[bytes, dict[str, Value]] | None:
        """A span as it came, and the attributes of all its evaluations; None if it is not remembered."""
        known = self._spans.get(key)
        if known is None:
            return None
        unpacked: Any = self._unpacker.decompress(known.packed)
        return unpacked, {name: value for score in known.scores.values() for name, value in score.items()}

    def expire(self, now: float) -> None:
        """Forget spans whose first record is older than `remember` seconds at `now` (s since the epoch)."""
        while self._spans and next(iter(self._spans.values())).time < now - self._remember:
            self._forget_oldest()

    def _shrink(self) -> None:
        """The newest stays, however large: evaluations of it come next."""
        while self._bytes > self._max_bytes and len(self._spans) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, oldest = self._spans.popitem(last=False)
        self._bytes -= oldest.size
