"""What drivers in Python share: the scenario, a tracer that sends to the stand-in server, and a span with the ids."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

scenario = SimpleNamespace(**json.loads(Path(os.environ["DRIFT_SCENARIO"]).read_text(encoding="utf-8")))


def tracing(*, batch: bool = False) -> TracerProvider:
    """The provider of this process, which exports each span as it ends, or many at once."""
    provider = TracerProvider(resource=Resource({"service.name": scenario.service}))
    processor = BatchSpanProcessor if batch else SimpleSpanProcessor
    provider.add_span_processor(processor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


@contextmanager
def request(step: str) -> Iterator[Any]:
    """The application's own span around a request, with the ids of conversation and user."""
    with trace.get_tracer("application").start_as_current_span(f"request {step}") as span:
        span.set_attribute("session.id", scenario.conversations.get(step, scenario.conversation))
        span.set_attribute("user.id", scenario.user)
        yield span
