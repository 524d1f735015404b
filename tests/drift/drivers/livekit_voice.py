"""LiveKit Agents with its own traces, by voice without a room: transcripts come in, and the user cuts an answer off.

The session of several turns records what is new in each call's input alone.

packages: livekit-agents livekit-plugins-openai
heard: turn2: A double kayak costs
"""

from __future__ import annotations

import asyncio

from scenario_python import request, scenario, tracing

provider = tracing(batch=True)

from livekit.agents import Agent, AgentSession, function_tool, stt, tts  # noqa: E402
from livekit.agents.telemetry import set_tracer_provider  # noqa: E402
from livekit.agents.types import APIConnectOptions  # noqa: E402
from livekit.agents.voice.agent_session import SessionConnectOptions  # noqa: E402
from livekit.plugins import openai  # noqa: E402
from scenario_livekit import RATE, Loudspeaker, Microphone, silence  # noqa: E402

set_tracer_provider(provider)


class Ears(stt.STT):
    """Hears what the driver says."""

    def __init__(self) -> None:
        super().__init__(capabilities=stt.STTCapabilities(streaming=True, interim_results=True))
        self.heard: asyncio.Queue[stt.SpeechEvent] = asyncio.Queue()

    async def _recognize_impl(self, buffer, *, language, conn_options):
        raise NotImplementedError

    def stream(self, *, language=None, conn_options=None):
        return Hearing(stt=self, conn_options=conn_options or APIConnectOptions(), sample_rate=RATE)


class Hearing(stt.RecognizeStream):
    async def _run(self) -> None:
        while True:
            self._event_ch.send_nowait(await self._stt.heard.get())


class Mouth(tts.TTS):
    """Speaks a tenth of a second for each word."""

    def __init__(self) -> None:
        super().__init__(capabilities=tts.TTSCapabilities(streaming=False), sample_rate=RATE, num_channels=1)

    def synthesize(self, text, *, conn_options=None):
        return Speaking(tts=self, input_text=text, conn_options=conn_options or APIConnectOptions())


class Speaking(tts.ChunkedStream):
    async def _run(self, output_emitter) -> None:
        output_emitter.initialize(request_id="tts", sample_rate=RATE, num_channels=1, mime_type="audio/pcm")
        for _ in self._input_text.split():
            output_emitter.push(bytes(silence(0.1).data))


@function_tool
async def get_wind(place: str, day: str) -> dict:
    """Wind forecast for a place."""
    return scenario.results[place]


async def say(ears: Ears, text: str) -> None:
    """A user's speech, as it is recognized."""
    kinds = stt.SpeechEventType
    for kind in (kinds.START_OF_SPEECH, kinds.INTERIM_TRANSCRIPT, kinds.FINAL_TRANSCRIPT, kinds.END_OF_SPEECH):
        said = text.split(maxsplit=1)[0] if kind is kinds.INTERIM_TRANSCRIPT else text
        held = [stt.SpeechData(language="en", text=said, confidence=0.9)] if "transcript" in kind.value else []
        ears.heard.put_nowait(stt.SpeechEvent(type=kind, alternatives=held))
        await asyncio.sleep(0.15)


async def talk(steps: list[str], system: str) -> None:
    """A session with one conversation; the answer before a question named `cut` is cut off by it."""
    model = openai.LLM(model="gpt-4o-mini", base_url=scenario.base, api_key="none", max_retries=0)
    options = SessionConnectOptions(llm_conn_options=APIConnectOptions(max_retry=0), max_unrecoverable_errors=9)
    ears, speaker = Ears(), Loudspeaker()
    handling = {
        "turn_detection": "stt", "endpointing": {"min_delay": 0.1, "max_delay": 0.3},
        "interruption": {"mode": "vad", "min_duration": 0.05},
    }  # fmt: skip
    with request(steps[0]):
        async with AgentSession(
            stt=ears, llm=model, tts=Mouth(), conn_options=options, turn_handling=handling
        ) as session:
            session.input.audio, session.output.audio = Microphone(), speaker
            await session.start(
                Agent(instructions=system, tools=[get_wind]),
                record={"input_delta": steps[0] == "turn1", "audio": False},
            )
            for number, step in enumerate(steps):
                speaker.begun.clear()
                await say(ears, scenario.rag_prompt if step == "rag" else scenario.questions[step])
                speaker.done.clear()
                is_cut_off = steps[number + 1 : number + 2] == ["turn3"]
                try:
                    await asyncio.wait_for((speaker.begun if is_cut_off else speaker.done).wait(), 5)
                except TimeoutError:
                    print("no answer")
                await asyncio.sleep(0.3)


async def main() -> None:
    await talk(["turn1", "turn2", "turn3", "parallel", "japanese"], scenario.system)
    await talk(["rag"], scenario.rag_system)
    await talk(["fail"], scenario.system)


asyncio.run(main())
provider.shutdown()
