"""Braintrust's SDK over OTLP: its span processor, spans of the application with its attributes, and OpenLLMetry.

packages: braintrust[otel] opentelemetry-instrumentation-openai
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scenario_python import scenario

os.environ |= {
    "BRAINTRUST_API_KEY": "none",
    "BRAINTRUST_API_URL": scenario.origin,
    "BRAINTRUST_PARENT": "project_name:desk",
}

from braintrust.otel import BraintrustSpanProcessor
from opentelemetry import trace
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

provider = TracerProvider(resource=Resource({"service.name": scenario.service}))
provider.add_span_processor(BraintrustSpanProcessor())
trace.set_tracer_provider(provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)

from scenario_openai import HARDER, call_tool, talk  # noqa: E402

tracer = trace.get_tracer("application")


@contextmanager
def request(step: str) -> Iterator[Any]:
    """The application's task, with the ids in its metadata."""
    ids = {"session_id": scenario.conversations.get(step, scenario.conversation), "user_id": scenario.user}
    with tracer.start_as_current_span(f"request {step}") as span:
        span.set_attribute("braintrust.span_attributes", json.dumps({"type": "task"}))
        span.set_attribute("braintrust.input_json", json.dumps({"question": scenario.questions[step]}))
        span.set_attribute("braintrust.metadata", json.dumps(ids))
        yield span


def traced_tool(name: str, arguments: dict) -> dict:
    """The tool's result, with a span of Braintrust's type."""
    with tracer.start_as_current_span(name) as span:
        result = call_tool(name, arguments)
        span.set_attribute("braintrust.span_attributes", json.dumps({"type": "tool"}))
        span.set_attribute("braintrust.input_json", json.dumps(arguments))
        span.set_attribute("braintrust.output_json", json.dumps(result))
        return result


talk(steps=HARDER, around=request, tool=traced_tool)
provider.shutdown()
