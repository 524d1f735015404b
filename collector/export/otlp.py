"""Exporter over OTLP/HTTP: scores go back into the trace they belong to.

For every evaluation with a score or a failure one log event `gen_ai.evaluation.result` with the trace and span id of
the judged span, and one span `evaluate {name}` as its child, for backends that only show traces. Its span id is made
from the evaluation's id: exported again, it is the same span. A failure has `error.type` and no score. Skipped
evaluations say nothing about an answer and stay at home (Prometheus counts them by reason) unless `skipped` is set;
they then go out without a score, with `evalstream.outcome` = `skipped` and the reason.

Spans of the requests to judges (`judge_spans`) are made where judges are asked: see `judging/judge_spans.py`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from collector.backoff import Backoff
from collector.export.exporter import ExportContext
from collector.export.otlp_client import OtlpClient, OtlpEndpointSettings, open_otlp_client
from collector.export.otlp_messages import events, spans
from collector.export.stage import feedback_events
from collector.logs.log import Confirm, certain
from collector.otlp.own_items import OwnItems
from collector.records.feedback import JoinedFeedback
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from evaluators.results import Evaluation
from evaluators.wire.http_client import in_requests

_REQUEST_BYTES = 1 << 20


class OtlpExportSettings(OtlpEndpointSettings):
    """The endpoint, and the signals to send."""

    endpoint: str = Field(default="http://127.0.0.1:4318", pattern=r"^https?://")
    """The OTLP/HTTP endpoint, like http://collector:4318; /v1/logs and /v1/traces are added."""
    batch_size: int = Field(default=200, ge=1, le=10_000)
    """Most evaluations in one request."""
    events: bool = True
    """Send the event gen_ai.evaluation.result to /v1/logs. If the endpoint has no logs, spans go alone; this
    is logged once."""
    spans: bool = True
    """Send the span `evaluate {name}` to /v1/traces."""
    openinference: bool = False
    """Give the spans OpenInference's kind EVALUATOR and attributes evaluations.*, for Phoenix and AX."""
    skipped: bool = False
    """Send skipped evaluations too, without a score."""
    explanation: bool = True
    """Send the judge's explanation and feedback's comment, which may quote judged text."""
    judge_spans: bool = False
    """Send a span of each request to a judge, child of the span `evaluate {name}`: model, tokens, cost, status."""
    judge_texts: bool = False
    """Put the messages to judges, and their answers, into those spans: they quote judged text."""
    feedback: bool = True
    """Send the event evalstream.feedback to /v1/logs."""
    service_name: str = Field(default="evalstream", min_length=1)
    """The resource's service.name."""


@dataclass(frozen=True, slots=True)
class OtlpExporter:
    """Sends evaluations to an OTLP endpoint: events, then spans; each is tried again by itself until it is taken."""

    Settings: ClassVar[type[OtlpExportSettings]] = OtlpExportSettings

    settings: OtlpExportSettings
    client: OtlpClient
    telemetry: Telemetry
    own: OwnItems | None = None
    confirm_feedback: Confirm = certain

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: OtlpExportSettings, context: ExportContext, *, backoff: Backoff | None = None
    ) -> "AsyncGenerator[OtlpExporter]":
        """Open the exporter; the endpoint need not be there yet."""
        async with open_otlp_client(settings, context, backoff, confirm=context.confirm) as client:
            yield cls(settings, client, context.telemetry, context.own, context.confirm_feedback)

    @property
    def problem(self) -> str | None:
        """Why the endpoint does not accept the batch in hand; None if it does."""
        return self.client.problem

    async def export(self, batch: Sequence[Evaluation]) -> int:
        """Send the batch; returns how many the endpoint refused for good, as events or as spans."""
        wanted = [evaluation for evaluation in batch if self.settings.skipped or evaluation.outcome != "skipped"]
        requests = in_requests(wanted, _text_bytes, self.settings.batch_size, _REQUEST_BYTES)
        return sum([await self._send(request) for request in requests])

    async def export_feedback(self, batch: Sequence[JoinedFeedback]) -> int:
        """Send feedback as events; returns how many the endpoint refused for good."""
        if not self.settings.feedback:
            return 0
        service, comment = self.settings.service_name, self.settings.explanation
        rejected, size = 0, self.settings.batch_size
        for first in range(0, len(batch), size):
            some = batch[first : first + size]
            events_ = feedback_events(some, service=service, comment=comment, own=self.own)
            rejected += await self.client.send_logs(events_, confirm=self.confirm_feedback)
        return rejected

    async def _send(self, batch: Sequence[Evaluation]) -> int:
        """How many of the batch were refused: as events, or as spans, whichever are more."""
        events_refused = spans_refused = 0
        service, explanation = self.settings.service_name, self.settings.explanation
        if self.settings.events:
            logs = events(batch, service=service, explanation=explanation, own=self.own)
            events_refused = await self.client.send_logs(logs, spans_follow=self.settings.spans)
            # Ready-made turns are in no trace: their scores go as events alone.
            lost = sum(evaluation.subject.trace_id is None for evaluation in batch)
            if lost and not self.client.has_logs:
                self.telemetry.drop("export_otlp", DropReason.NO_LOGS_ENDPOINT, lost)
        if self.settings.spans:
            openinference = self.settings.openinference
            traces = spans(batch, service=service, explanation=explanation, own=self.own, openinference=openinference)
            spans_refused = await self.client.send_traces(traces)
        return max(events_refused, spans_refused)


def _text_bytes(evaluation: Evaluation) -> int:
    """Roughly the length of what others wrote into an evaluation; its own names and numbers do not count."""
    error = evaluation.error.message if evaluation.error else ""
    subject = evaluation.subject
    texts = (evaluation.explanation, evaluation.reason, error, subject.conversation_id, subject.response_id)
    return sum(len(text) for text in texts if text) + 48 * len(subject.links)
