"""OpenAI's client through OpenLLMetry.

packages: opentelemetry-instrumentation-openai
"""

from __future__ import annotations

from scenario_python import tracing

provider = tracing()

from opentelemetry.instrumentation.openai import OpenAIInstrumentor  # noqa: E402

OpenAIInstrumentor().instrument(tracer_provider=provider)

from scenario_openai import talk  # noqa: E402

talk()
provider.shutdown()
