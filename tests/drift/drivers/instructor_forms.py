"""Instructor through OpenInference: an answer as a form, with the client's own spans below.

packages: instructor openinference-instrumentation-instructor openinference-instrumentation-openai
"""

from __future__ import annotations

import asyncio
import json

from scenario_python import request, scenario, tracing

provider = tracing()

from openinference.instrumentation.instructor import InstructorInstrumentor  # noqa: E402
from openinference.instrumentation.openai import OpenAIInstrumentor  # noqa: E402

OpenAIInstrumentor().instrument(tracer_provider=provider)
InstructorInstrumentor().instrument(tracer_provider=provider)

import instructor  # noqa: E402
import openai  # noqa: E402
from pydantic import BaseModel  # noqa: E402


class Reply(BaseModel):
    """The answer to the customer."""

    answer: str


plain = openai.AsyncOpenAI(base_url=scenario.base, api_key="none", max_retries=0)
client = instructor.from_openai(openai.AsyncOpenAI(base_url=scenario.base, api_key="none", max_retries=0))


async def ask(messages: list[dict[str, str]], step: str) -> str:
    if step != "turn2":
        form = await client.create(model="gpt-4o-mini", messages=messages, response_model=Reply, max_retries=0)
        return form.answer
    parts = client.create_partial(model="gpt-4o-mini", messages=messages, response_model=Reply)
    return [each async for each in parts][-1].answer


async def call_tool(history: list) -> None:
    answer = (
        (await plain.chat.completions.create(model="gpt-4o-mini", messages=history, tools=[scenario.tool_definition]))
        .choices[0]
        .message
    )
    history.append({**answer.model_dump(exclude_none=True), "content": ""})
    result = {"role": "tool", "tool_call_id": answer.tool_calls[0].id}
    history.append({**result, "content": json.dumps(scenario.tool["result"])})


async def main() -> None:
    history = [{"role": "system", "content": scenario.system}]
    for step in ("turn1", "turn2", "turn3"):
        with request(step):
            history.append({"role": "user", "content": scenario.questions[step]})
            if step == "turn3":
                await call_tool(history)
            history.append({"role": "assistant", "content": await ask(history, step)})
    for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
        question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
        with request(step):
            try:
                await ask([{"role": "system", "content": system}, {"role": "user", "content": question}], step)
            except Exception as error:
                print(json.dumps({"failed": type(error).__name__}))


asyncio.run(main())
provider.shutdown()
