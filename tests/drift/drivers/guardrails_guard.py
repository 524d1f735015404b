"""Guardrails with its own traces: a guard around the model, with a validator that checks each answer.

packages: guardrails-ai openinference-instrumentation-openai
"""

from __future__ import annotations

import json

from scenario_python import request, scenario, tracing

provider = tracing()

from guardrails import Guard  # noqa: E402
from openinference.instrumentation.openai import OpenAIInstrumentor  # noqa: E402

OpenAIInstrumentor().instrument(tracer_provider=provider)

from guardrails.validator_base import FailResult, PassResult, Validator, register_validator  # noqa: E402


@register_validator(name="short-answer", data_type="string")
class ShortAnswer(Validator):
    """An answer of one sentence."""

    def validate(self, value, metadata):
        """Refuse what is longer than 300 characters."""
        return PassResult() if len(value) < 300 else FailResult(error_message="too long")


import openai  # noqa: E402

model = openai.OpenAI(base_url=scenario.base, api_key="none", max_retries=0)
guard = Guard().use(ShortAnswer(on_fail="noop"))


def complete(messages: list, **options: object) -> str:
    """The model as the guard calls it."""
    answer = model.chat.completions.create(model="gpt-4o-mini", messages=messages, **options).choices[0].message
    if answer.tool_calls:
        result = {
            "role": "tool",
            "tool_call_id": answer.tool_calls[0].id,
            "content": json.dumps(scenario.tool["result"]),
        }
        return complete([*messages, answer.model_dump(exclude_none=True), result], **options)
    return answer.content


def stream(messages: list, **_options: object):
    """The model's answer in pieces."""
    yield from model.chat.completions.create(model="gpt-4o-mini", messages=messages, stream=True)


def ask(messages: list, step: str) -> str:
    if step == "turn2":
        parts = [each.validated_output or "" for each in guard(stream, messages=messages, stream=True)]
        return "".join(parts)
    if step == "turn3":
        return guard(complete, messages=messages, tools=[scenario.tool_definition]).validated_output
    return guard(complete, messages=messages).validated_output


history = [{"role": "system", "content": scenario.system}]
for step in ("turn1", "turn2", "turn3"):
    with request(step):
        history.append({"role": "user", "content": scenario.questions[step]})
        history.append({"role": "assistant", "content": ask(list(history), step)})
with request("rag"):
    ask([{"role": "system", "content": scenario.rag_system}, {"role": "user", "content": scenario.rag_prompt}], "rag")
with request("fail"):
    try:
        ask(
            [{"role": "system", "content": scenario.system}, {"role": "user", "content": scenario.questions["fail"]}],
            "",
        )
    except Exception as error:
        print(json.dumps({"failed": type(error).__name__}))
provider.shutdown()
