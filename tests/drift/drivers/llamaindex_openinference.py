"""LlamaIndex through OpenInference.

packages: llama-index-core>=0.14 llama-index-llms-openai-like openinference-instrumentation-llama-index
"""

from __future__ import annotations

from scenario_python import request, tracing

provider = tracing()

from openinference.instrumentation.llama_index import LlamaIndexInstrumentor  # noqa: E402

LlamaIndexInstrumentor().instrument(tracer_provider=provider)

from scenario_llamaindex import run  # noqa: E402

run(request)
provider.shutdown()
