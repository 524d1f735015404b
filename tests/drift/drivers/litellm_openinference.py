"""LiteLLM as a library, through OpenInference.

packages: litellm!=1.107.0 mcp openinference-instrumentation-litellm
"""

from __future__ import annotations

import json

from scenario_python import request, scenario, tracing

provider = tracing()

from openinference.instrumentation.litellm import LiteLLMInstrumentor  # noqa: E402

LiteLLMInstrumentor().instrument(tracer_provider=provider)

import litellm  # noqa: E402


def ask(messages: list, **more: object) -> object:
    return litellm.completion(
        model="openai/gpt-4o-mini", messages=messages, api_base=scenario.base, api_key="none", num_retries=0, **more
    )


history: list = [{"role": "system", "content": scenario.system}]
for step in ("turn1", "turn2", "turn3"):
    with request(step):
        history.append({"role": "user", "content": scenario.questions[step]})
        if step == "turn2":
            pieces = ask(history, stream=True, stream_options={"include_usage": True})
            text = "".join((each.choices[0].delta.content or "") for each in pieces if each.choices)
            history.append({"role": "assistant", "content": text})
            continue
        tools = {"tools": [scenario.tool_definition]} if step == "turn3" else {}
        answer = ask(history, **tools).choices[0].message
        for call in answer.tool_calls or ():
            called = [{"id": call.id, "type": "function", "function": call.function.model_dump()}]
            history.append({"role": "assistant", "content": "", "tool_calls": called})
            output = json.dumps(scenario.tool["result"])
            history.append({"role": "tool", "tool_call_id": call.id, "content": output})
            answer = ask(history, **tools).choices[0].message
        history.append({"role": "assistant", "content": answer.content})
for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
    question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
    with request(step):
        try:
            ask([{"role": "system", "content": system}, {"role": "user", "content": question}])
        except Exception as error:
            print(json.dumps({"failed": type(error).__name__}))
provider.shutdown()
