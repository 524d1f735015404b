"""Requests to judges as GenAI client spans, children of the evaluations' own spans.

Spans are made by OpenTelemetry's SDK, and go out through the client of the OTLP exporter: within its limits, with its
headers, and signed, so that they are not judged when they come back. Spans that cannot be sent in time are counted
and left out: no evaluation waits for them. Evaluations without a trace, and those of the past, have no such spans.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, cast
from urllib.parse import urlsplit

import orjson
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from collector.config.settings import JudgeSettings
from collector.export.exporter import ExportContext
from collector.export.otlp import OtlpExportSettings
from collector.export.otlp_client import OtlpClient, open_otlp_client
from collector.otlp.evaluation_spans import JudgedNow, judged_now, span_id
from collector.otlp.own_items import EVALUATION_ID, OWN_SCOPE, OwnItems
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from evaluators.errors import JudgeError
from evaluators.judges.answer_places import answer_text, mapping
from evaluators.judges.apis.payload import objects
from evaluators.judges.completions import estimated_tokens, usage_of, with_estimates
from evaluators.judges.connection import Connecting
from evaluators.judges.endpoint import Prices
from evaluators.wire.http_client import HttpResponse
from evaluators.wire.outside_json import read_outside

_MOST_WAITING = 5000
_MOST_SENT = 200
_PAUSE = 1.0
"""Seconds for which spans are collected before they are sent."""
_LAST = 5.0
"""Seconds for sending the last spans at the end."""
_MOST_TEXT = 20_000
JudgeSpans = Callable[[str, JudgeSettings], Callable[[Connecting], Connecting]]
"""By a judge's name and settings: the wrapper of its connections that makes spans of their requests."""


class _SpanQueue(SpanProcessor):
    """Spans that are to be sent; beyond the most that may wait, the latest are dropped."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.spans: deque[ReadableSpan] = deque()
        self._telemetry = telemetry

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it for the next request."""
        if len(self.spans) < _MOST_WAITING:
            self.spans.append(span)
        else:
            self._telemetry.drop("judge_spans", DropReason.NOT_SENT_IN_TIME)

    async def send(self, client: OtlpClient, own: OwnItems) -> None:
        """Send all that wait, oldest first."""
        while self.spans:
            request = encode_spans([self.spans.popleft() for _ in range(min(_MOST_SENT, len(self.spans)))])
            for scope in (scope for resource in request.resource_spans for scope in resource.scope_spans):
                for span in scope.spans:
                    own.sign(span)
            await client.send_traces(request)


@asynccontextmanager
async def open_judge_spans(settings: OtlpExportSettings, context: ExportContext) -> AsyncGenerator[JudgeSpans]:
    """Until the context ends, send the spans of requests to judges to the destination of scores."""
    assert context.own is not None
    waiting = _SpanQueue(context.telemetry)
    provider = TracerProvider(
        sampler=ALWAYS_ON, resource=Resource({"service.name": settings.service_name}), shutdown_on_exit=False
    )
    provider.add_span_processor(waiting)
    async with open_otlp_client(settings, context, confirm=context.confirm) as client:
        sending = asyncio.create_task(_send_always(waiting, client, context.own))
        try:
            tracer = provider.get_tracer(OWN_SCOPE, version("evalstream"))
            yield lambda name, judge: partial(_TracedConnection, tracer, name, judge, settings.judge_texts)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST):
                    await waiting.send(client, context.own)


async def _send_always(waiting: _SpanQueue, client: OtlpClient, own: OwnItems) -> None:
    while True:
        await asyncio.sleep(_PAUSE)
        await waiting.send(client, own)


class _TracedConnection:
    """A judge's connection that makes a span of each request."""

    def __init__(
        self, tracer: trace.Tracer, name: str, settings: JudgeSettings, texts: bool, inner: Connecting
    ) -> None:
        self._inner = inner
        self._tracer = tracer
        self._name = name
        self._settings = settings
        self._texts = texts
        self._prices = Prices(
            settings.usd_per_million_input_tokens,
            settings.usd_per_million_output_tokens or (0.0 if settings.kind == "embeddings" else None),
            settings.usd_per_million_cached_input_tokens,
            settings.cache_write_price,
        )

    async def aclose(self) -> None:
        """See `Connecting.aclose`."""
        await self._inner.aclose()

    async def post(self, content: bytes) -> HttpResponse:
        """See `Connecting.post`."""
        judged = judged_now()
        if judged is None or (parent := _parent(judged)) is None:
            return await self._inner.post(content)
        body = mapping(orjson.loads(content))
        operation = "embeddings" if self._settings.kind == "embeddings" else "chat"
        span = self._tracer.start_span(
            f"{operation} {self._settings.model}",
            parent,
            trace.SpanKind.CLIENT,
            _some(self._of_request(operation, judged, body)),
        )
        try:
            response = await self._inner.post(content)
        except BaseException as error:
            judged.failed += 1
            kind = error.type if isinstance(error, JudgeError) else type(error).__name__
            span.set_attribute("error.type", kind)
            span.set_status(trace.StatusCode.ERROR, kind)
            raise
        else:
            judged.failed = 0 if response.is_success else judged.failed + 1
            span.set_attributes(_some(self._of_response(body, response)))
            if not response.is_success:
                span.set_attribute("error.type", str(response.status_code))
                span.set_status(trace.StatusCode.ERROR, f"HTTP {response.status_code}")
            return response
        finally:
            span.end()

    def _of_request(self, operation: str, judged: JudgedNow, body: Mapping[str, Any]) -> dict[str, Any]:
        address = urlsplit(self._settings.base_url or "")
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "anthropic" if self._settings.api == "anthropic" else "openai",
            "gen_ai.request.model": self._settings.model,
            "gen_ai.request.temperature": body.get("temperature"),
            "gen_ai.request.max_tokens": body.get("max_tokens") or body.get("max_completion_tokens"),
            "gen_ai.input.messages": self._texts_of(body.get("messages") or body.get("input")),
            "server.address": address.hostname, "server.port": address.port,
            "evalstream.judge": self._name, "evalstream.judge.attempt": judged.failed + 1,
            EVALUATION_ID: judged.evaluation_id,
        }  # fmt: skip

    def _of_response(self, body: Mapping[str, Any], response: HttpResponse) -> dict[str, Any]:
        status = {"http.response.status_code": response.status_code}
        if not response.is_success:
            return status
        try:
            answer = mapping(read_outside(response.content))
        except ValueError:
            return status
        choices = objects(answer.get("choices"))
        messages = [choice.get("message") for choice in choices] or answer.get("output")
        answers = messages or answer.get("content")
        question = estimated_tokens(body.get("system"), body.get("messages") or body.get("input"))
        usage = with_estimates(usage_of(answer.get("usage")), question, estimated_tokens(answers))
        ends = [choice.get("finish_reason") for choice in choices] or [answer.get("stop_reason")]
        reasons = [reason for reason in ends if isinstance(reason, str)]
        return status | {
            "gen_ai.response.id": answer.get("id"),
            "gen_ai.response.model": answer.get("model"),
            "gen_ai.response.finish_reasons": reasons or None,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.output.messages": self._texts_of(
                messages or [answer], finish_reason=reasons[0] if reasons else "stop"
            ),
            "evalstream.cost_usd": self._prices.cost(usage),
        }

    def _texts_of(self, messages: Any, **more: str) -> str | None:
        """The texts of messages in the form of the GenAI conventions, each cut off; None unless texts are wanted."""
        if not self._texts or not isinstance(messages, list):
            return None
        texts = [(mapping(each), answer_text(mapping(each))[:_MOST_TEXT]) for each in cast("list[Any]", messages)]
        parts = [
            {"role": message.get("role") or "assistant", "parts": [{"type": "text", "content": text}], **more}
            for message, text in texts
            if text
        ]
        return orjson.dumps(parts).decode()


def _some(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes whose values have a type that OpenTelemetry allows."""
    return {name: value for name, value in attributes.items() if isinstance(value, str | int | float | Sequence)}


def _parent(judged: JudgedNow) -> Any:
    """The context of an evaluation's span; None if the evaluation is in no trace."""
    try:
        trace_id = int(judged.trace_id or "", 16)
    except ValueError:
        return None
    own = int.from_bytes(span_id(judged.evaluation_id))
    parent = trace.SpanContext(trace_id, own, is_remote=True, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent)) if parent.is_valid else None
