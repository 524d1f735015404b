"""OpenAI's client as `opentelemetry-instrument` starts it, with the packages of deploy/docs/start-traces.md.

packages: openinference-instrumentation-openai opentelemetry-distro opentelemetry-exporter-otlp-proto-http
"""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.instrumentation.auto_instrumentation import initialize
from scenario_python import scenario

os.environ["OTEL_SERVICE_NAME"] = scenario.service
initialize()

from scenario_openai import talk  # noqa: E402

talk()
trace.get_tracer_provider().shutdown()
