"""The OpenAI Agents SDK for Python through OpenInference, over chat completions.

packages: openai-agents openinference-instrumentation-openai-agents
"""

from __future__ import annotations

import asyncio
import json

from scenario_python import request, scenario, tracing

provider = tracing()

from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor  # noqa: E402

OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402


@function_tool
def get_wind(place: str, day: str) -> str:
    """Wind forecast for a place."""
    return json.dumps(scenario.tool["result"])


async def main() -> None:
    client = AsyncOpenAI(base_url=scenario.base, api_key="none", max_retries=0)
    model = OpenAIChatCompletionsModel("gpt-4o-mini", client)
    agent = Agent(name="Borealis", instructions=scenario.system, model=model, tools=[get_wind])
    history: list = []
    for step in ("turn1", "turn2", "turn3"):
        with request(step):
            given = [*history, {"role": "user", "content": scenario.questions[step]}]
            if step == "turn2":
                result = Runner.run_streamed(agent, given)
                async for _ in result.stream_events():
                    pass
            else:
                result = await Runner.run(agent, given)
            history = result.to_input_list()
    for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
        question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
        with request(step):
            try:
                await Runner.run(Agent(name="Borealis", instructions=system, model=model), question)
            except Exception as error:
                print(json.dumps({"failed": type(error).__name__}))


asyncio.run(main())
provider.shutdown()
