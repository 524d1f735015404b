"""A Pydantic AI agent with its own instrumentation.

packages: pydantic-ai-slim[openai]
"""

from __future__ import annotations

import asyncio
import json

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from scenario_python import request, scenario, tracing

provider = tracing()
Agent.instrument_all()


def get_wind(place: str, day: str) -> dict:
    """Wind forecast for a place."""
    return scenario.tool["result"]


async def main() -> None:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=scenario.base, api_key="none", max_retries=0)
    model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, instructions=scenario.system, tools=[get_wind])
    history: list = []
    for step in ("turn1", "turn2", "turn3"):
        with request(step):
            if step == "turn2":
                async with agent.run_stream(scenario.questions[step], message_history=history) as streamed:
                    await streamed.get_output()
                    history = streamed.all_messages()
            else:
                history = (await agent.run(scenario.questions[step], message_history=history)).all_messages()
    for step, system in (("rag", scenario.rag_system), ("fail", scenario.system)):
        with request(step):
            try:
                question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
                await Agent(model, instructions=system).run(question)
            except Exception as error:
                print(json.dumps({"failed": type(error).__name__}))


asyncio.run(main())
provider.shutdown()
