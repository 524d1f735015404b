"""Pipecat with its own traces: a pipeline of text alone, whose aggregators hold the talk.

packages: pipecat-ai[openai,tracing]
"""

from __future__ import annotations

import asyncio

from scenario_python import scenario, tracing

provider = tracing()

from pipecat.adapters.schemas.function_schema import FunctionSchema  # noqa: E402
from pipecat.adapters.schemas.tools_schema import ToolsSchema  # noqa: E402
from pipecat.frames.frames import EndFrame, LLMRunFrame  # noqa: E402
from pipecat.pipeline.pipeline import Pipeline  # noqa: E402
from pipecat.pipeline.runner import PipelineRunner  # noqa: E402
from pipecat.pipeline.task import PipelineParams, PipelineTask  # noqa: E402
from pipecat.processors.aggregators.llm_context import LLMContext  # noqa: E402
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair  # noqa: E402
from pipecat.services.openai.llm import OpenAILLMService  # noqa: E402

WIND = FunctionSchema(
    name="get_wind", description="Wind forecast for a place.", required=["place", "day"],
    properties={"place": {"type": "string"}, "day": {"type": "string"}},
)  # fmt: skip


async def get_wind(params) -> None:
    """The tool."""
    await params.result_callback(scenario.tool["result"])


async def talk(conversation: str, system: str, questions: list[str]) -> None:
    """A pipeline with one conversation."""
    model = OpenAILLMService(
        api_key="none", base_url=scenario.base, settings=OpenAILLMService.Settings(model="gpt-4o-mini")
    )
    model.register_function("get_wind", get_wind)
    context = LLMContext([{"role": "system", "content": system}], tools=ToolsSchema(standard_tools=[WIND]))
    pair = LLMContextAggregatorPair(context)
    task = PipelineTask(
        Pipeline([pair.user(), model, pair.assistant()]), enable_tracing=True, enable_turn_tracking=True,
        conversation_id=conversation, params=PipelineParams(enable_metrics=True, enable_usage_metrics=True),
        additional_span_attributes={"session.id": conversation, "user.id": scenario.user},
    )  # fmt: skip
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    for question in questions:
        context.add_message({"role": "user", "content": question})
        await task.queue_frames([LLMRunFrame()])
        for _ in range(40):
            await asyncio.sleep(0.1)
            last = context.get_messages()[-1]
            if last.get("role") == "assistant" and last.get("content") and not last.get("tool_calls"):
                break
    await task.queue_frames([EndFrame()])
    await running


async def main() -> None:
    steps = ("turn1", "turn2", "turn3")
    await talk(scenario.conversation, scenario.system, [scenario.questions[step] for step in steps])
    await talk(scenario.conversations["rag"], scenario.rag_system, [scenario.rag_prompt])
    await talk(scenario.conversations["fail"], scenario.system, [scenario.questions["fail"]])


asyncio.run(main())
provider.shutdown()
