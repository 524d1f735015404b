"""LlamaIndex with its own OpenTelemetry integration.

packages: llama-index-core>=0.14 llama-index-llms-openai-like llama-index-observability-otel
"""

from __future__ import annotations

from llama_index.observability.otel import LlamaIndexOpenTelemetry
from scenario_python import request, tracing

provider = tracing()
LlamaIndexOpenTelemetry(tracer_provider=provider).start_registering()

from scenario_llamaindex import run  # noqa: E402

run(request)
provider.shutdown()
