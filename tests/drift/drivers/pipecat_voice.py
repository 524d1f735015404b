"""Pipecat with its own traces, as in a conversation by voice: transcripts come in, and the user cuts an answer off.

packages: pipecat-ai[openai,tracing]
"""

from __future__ import annotations

import asyncio

from scenario_python import scenario, tracing

provider = tracing()

from pipecat.adapters.schemas.function_schema import FunctionSchema  # noqa: E402
from pipecat.adapters.schemas.tools_schema import ToolsSchema  # noqa: E402
from pipecat.frames.frames import (  # noqa: E402
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    EndFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline  # noqa: E402
from pipecat.pipeline.runner import PipelineRunner  # noqa: E402
from pipecat.pipeline.task import PipelineParams, PipelineTask  # noqa: E402
from pipecat.processors.aggregators.llm_context import LLMContext  # noqa: E402
from pipecat.processors.aggregators.llm_response_universal import (  # noqa: E402
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor  # noqa: E402
from pipecat.services.openai.llm import OpenAILLMService  # noqa: E402
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies  # noqa: E402

WIND = FunctionSchema(
    name="get_wind", description="Wind forecast for a place.", required=["place", "day"],
    properties={"place": {"type": "string"}, "day": {"type": "string"}},
)  # fmt: skip


async def get_wind(params) -> None:
    """The tool."""
    await params.result_callback(scenario.results[params.arguments["place"]])


class Speaker(FrameProcessor):
    """Says each answer, which takes as long as `seconds`, and stops where it is cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.2
        self.said = asyncio.Event()
        self.begun = asyncio.Event()
        self._saying: asyncio.Task | None = None

    async def process_frame(self, frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, InterruptionFrame) and self._saying:
            self._saying.cancel()
            await self.broadcast_frame(BotStoppedSpeakingFrame)
        await self.push_frame(frame, direction)
        if isinstance(frame, LLMFullResponseEndFrame):
            self._saying = asyncio.create_task(self._say())

    async def _say(self) -> None:
        await asyncio.sleep(0.1)
        await self.broadcast_frame(BotStartedSpeakingFrame)
        self.begun.set()
        await asyncio.sleep(self.seconds)
        await self.broadcast_frame(BotStoppedSpeakingFrame)
        self.said.set()


async def talk(conversation: str, system: str, questions: list[str], cut_off: str = "") -> None:
    """A pipeline with one conversation."""
    model = OpenAILLMService(
        api_key="none", base_url=scenario.base, settings=OpenAILLMService.Settings(model="gpt-4o-mini")
    )
    model.register_function("get_wind", get_wind)
    context = LLMContext([{"role": "system", "content": system}], tools=ToolsSchema(standard_tools=[WIND]))
    parameters = LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies())
    pair, speaker = LLMContextAggregatorPair(context, user_params=parameters), Speaker()
    task = PipelineTask(
        Pipeline([pair.user(), model, speaker, pair.assistant()]), enable_tracing=True, enable_turn_tracking=True,
        conversation_id=conversation, params=PipelineParams(enable_metrics=True, enable_usage_metrics=True),
        additional_span_attributes={"session.id": conversation, "user.id": scenario.user},
    )  # fmt: skip
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    for question in questions:
        speaker.said.clear()
        speaker.begun.clear()
        speaker.seconds = 30 if question == cut_off else 0.2
        await task.queue_frames([VADUserStartedSpeakingFrame(), ProposedUserStartedSpeakingFrame()])
        await asyncio.sleep(0.2)
        await task.queue_frames([TranscriptionFrame(question, scenario.user, "2026-11-26T12:00:00Z")])
        await asyncio.sleep(0.1)
        await task.queue_frames([VADUserStoppedSpeakingFrame(), ProposedUserStoppedSpeakingFrame()])
        try:
            await asyncio.wait_for((speaker.begun if question == cut_off else speaker.said).wait(), 6)
        except TimeoutError:
            print("no answer")
        await asyncio.sleep(0.2)
    await task.queue_frames([EndFrame()])
    await running


async def main() -> None:
    questions = [scenario.questions[step] for step in ("turn1", "turn2", "turn3")]
    await talk(scenario.conversation, scenario.system, questions, cut_off=questions[1])
    await talk(scenario.conversations["rag"], scenario.rag_system, [scenario.rag_prompt])
    await talk(scenario.conversations["fail"], scenario.system, [scenario.questions["fail"]])


asyncio.run(main())
provider.shutdown()
