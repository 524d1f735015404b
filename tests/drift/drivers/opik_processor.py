"""Opik's SDK over OTLP: a tracked function, Opik's span processor, and OpenAI's client through OpenInference.

packages: opik openinference-instrumentation-openai
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import opik
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry import trace
from opik.integrations.otel import OpikSpanProcessor
from scenario_python import scenario, tracing

os.environ["OPIK_URL_OVERRIDE"] = f"{scenario.origin}/api"
provider = tracing()
provider.add_span_processor(OpikSpanProcessor())
OpenAIInstrumentor().instrument(tracer_provider=provider)

from scenario_openai import HARDER, talk  # noqa: E402


@contextmanager
def request(step: str) -> Iterator[Any]:
    """A tracked function's span in Opik, with a span of OpenTelemetry below it that names the thread."""
    thread = scenario.conversations.get(step, scenario.conversation)
    tracer = trace.get_tracer("application")
    with (
        opik.start_as_current_trace(f"request {step}", thread_id=thread),
        tracer.start_as_current_span(f"request {step}") as span,
    ):
        span.set_attribute("thread_id", thread)
        span.set_attribute("user.id", scenario.user)
        yield span


talk(steps=HARDER, around=request)
provider.shutdown()
