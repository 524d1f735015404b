"""LiveKit Agents with its own traces: sessions of text alone, whose agent calls the tool itself.

packages: livekit-agents livekit-plugins-openai
"""

from __future__ import annotations

import asyncio
import json

from scenario_python import request, scenario, tracing

provider = tracing()

from livekit.agents import Agent, AgentSession, function_tool  # noqa: E402
from livekit.agents.telemetry import set_tracer_provider  # noqa: E402
from livekit.agents.types import APIConnectOptions  # noqa: E402
from livekit.agents.voice.agent_session import SessionConnectOptions  # noqa: E402
from livekit.plugins import openai  # noqa: E402

set_tracer_provider(provider)


@function_tool
async def get_wind(place: str, day: str) -> dict:
    """Wind forecast for a place."""
    return scenario.tool["result"]


async def talk(steps: list[str], system: str) -> None:
    """A session with one conversation."""
    model = openai.LLM(model="gpt-4o-mini", base_url=scenario.base, api_key="none", max_retries=0)
    options = SessionConnectOptions(llm_conn_options=APIConnectOptions(max_retry=0), max_unrecoverable_errors=9)
    async with AgentSession(llm=model, conn_options=options) as session:
        await session.start(Agent(instructions=system, tools=[get_wind]))
        for step in steps:
            question = scenario.rag_prompt if step == "rag" else scenario.questions[step]
            with request(step):
                try:
                    await asyncio.wait_for(session.run(user_input=question), 10)
                except Exception as error:
                    print(json.dumps({"failed": type(error).__name__}))


for steps, system in (
    (["turn1", "turn2", "turn3"], scenario.system),
    (["rag"], scenario.rag_system),
    (["fail"], scenario.system),
):
    asyncio.run(talk(steps, system))
provider.shutdown()
