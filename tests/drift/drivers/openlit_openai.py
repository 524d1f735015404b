"""OpenAI's client through OpenLIT.

packages: openlit
"""

from __future__ import annotations

from scenario_python import scenario, tracing

provider = tracing()

import openlit  # noqa: E402

openlit.init(service_name=scenario.service, disable_metrics=True, disable_batch=True)

from scenario_openai import talk  # noqa: E402

talk()
provider.shutdown()
