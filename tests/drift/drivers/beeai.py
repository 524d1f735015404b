"""BeeAI through OpenInference: its chat model with a stream, a tool and a history by hand.

packages: beeai-framework openinference-instrumentation-beeai
"""

from __future__ import annotations

import asyncio
import json
import os

from scenario_python import request, scenario, tracing

provider = tracing()

from openinference.instrumentation.beeai import BeeAIInstrumentor  # noqa: E402

BeeAIInstrumentor().instrument(tracer_provider=provider)

from beeai_framework.backend import ChatModel, SystemMessage, UserMessage  # noqa: E402
from beeai_framework.backend.message import AssistantMessage, MessageToolResultContent, ToolMessage  # noqa: E402
from beeai_framework.tools import StringToolOutput, tool  # noqa: E402

os.environ.setdefault("OPENAI_API_KEY", "none")
model = ChatModel.from_name("openai:gpt-4o-mini", {"base_url": scenario.base, "api_key": "none"})


@tool
def get_wind(place: str, day: str) -> StringToolOutput:
    """Wind forecast for a place."""
    return StringToolOutput(json.dumps(scenario.tool["result"]))


async def call_tool(messages: list) -> None:
    """One round with the tool: what it gives goes back to the model."""
    messages.append(UserMessage(scenario.questions["turn3"]))
    answer = await model.run(messages, tools=[get_wind])
    messages.extend(answer.output)
    for call in answer.get_tool_calls():
        output = await get_wind.run(json.loads(call.args))
        result = MessageToolResultContent(
            tool_name=call.tool_name, tool_call_id=call.id, result=output.get_text_content()
        )
        messages.append(ToolMessage(result))
    await model.run(messages, tools=[get_wind])


async def main() -> None:
    messages = [SystemMessage(scenario.system)]
    for step in ("turn1", "turn2"):
        with request(step):
            messages.append(UserMessage(scenario.questions[step]))
            answer = await model.run(messages, stream=step == "turn2")
            messages.append(AssistantMessage(answer.get_text_content()))
    with request("turn3"):
        await call_tool(messages)
    with request("rag"):
        await model.run([SystemMessage(scenario.rag_system), UserMessage(scenario.rag_prompt)])
    with request("fail"):
        try:
            await model.run([SystemMessage(scenario.system), UserMessage(scenario.questions["fail"])], max_retries=0)
        except Exception as error:
            print(json.dumps({"failed": type(error).__name__}))


asyncio.run(main())
provider.shutdown()
