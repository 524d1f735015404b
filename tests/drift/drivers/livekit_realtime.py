"""LiveKit Agents with its own traces around a realtime model, by voice without a room: a scripted websocket hears and speaks.

packages: livekit-agents livekit-plugins-openai
heard: turn2: A double kayak costs
"""

from __future__ import annotations

import asyncio
import base64
import json

from scenario_python import request, scenario, tracing

provider = tracing(batch=True)

import openai as client  # noqa: E402
from aiohttp import web  # noqa: E402
from livekit.agents import Agent, AgentSession, function_tool  # noqa: E402
from livekit.agents.telemetry import set_tracer_provider  # noqa: E402
from livekit.plugins import openai  # noqa: E402
from scenario_livekit import Loudspeaker, Microphone, silence  # noqa: E402

set_tracer_provider(provider)
answers = client.AsyncOpenAI(base_url=scenario.base, api_key="none", max_retries=0)


class Server:
    """The model's side of one session; `said` is what the user says."""

    def __init__(self, system: str) -> None:
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.messages = [{"role": "system", "content": system}]
        self._number = 0

    async def handle(self, asked: web.Request) -> web.WebSocketResponse:
        self._socket = web.WebSocketResponse()
        await self._socket.prepare(asked)
        await self._send("session.created", session={"type": "realtime"})
        speaking = asyncio.create_task(self._listen())
        async for message in self._socket:
            event = json.loads(message.data)
            if event["type"] == "conversation.item.create":
                await self._send(
                    "conversation.item.added", item=event["item"], previous_item_id=event.get("previous_item_id")
                )
                if event["item"]["type"] == "function_call_output":
                    item = event["item"]
                    self.messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
            elif event["type"] == "response.create":
                await self._answer((event.get("response") or {}).get("metadata"))
        speaking.cancel()
        return self._socket

    async def _listen(self) -> None:
        while True:
            text, item = await self.said.get(), self._next("item")
            await self._send("input_audio_buffer.speech_started", item_id=item, audio_start_ms=0)
            await asyncio.sleep(0.2)
            await self._send("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=200)
            content = [{"type": "input_audio", "transcript": None}]
            added = {"id": item, "type": "message", "role": "user", "status": "completed", "content": content}
            await self._send("conversation.item.added", item=added, previous_item_id=None)
            usage = {"type": "duration", "seconds": 1}
            place = {"item_id": item, "content_index": 0}
            await self._send(
                "conversation.item.input_audio_transcription.completed", **place, transcript=text, usage=usage
            )
            self.messages.append({"role": "user", "content": text})
            await self._answer(None)

    async def _answer(self, metadata) -> None:
        response = {"id": self._next("resp"), "object": "realtime.response", "metadata": metadata}
        await self._send("response.created", response={**response, "status": "in_progress", "output": []})
        reply = await answers.chat.completions.create(
            model="gpt-4o-mini", messages=self.messages, tools=[scenario.tool_definition]
        )
        message = reply.choices[0].message
        self.messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or ():
            named = {"call_id": call.id, "name": call.function.name, "arguments": call.function.arguments}
            item = {"id": self._next("item"), "type": "function_call", "status": "completed", **named}
            await self._item(response["id"], item)
        if not message.tool_calls:
            item = {"id": self._next("item"), "type": "message", "role": "assistant", "status": "completed"}
            await self._item(response["id"], {**item, "content": []}, message.content)
        counts = {"input_tokens": 41, "output_tokens": 17, "total_tokens": 58}
        details = {"cached_tokens": 0, "text_tokens": 1, "audio_tokens": 16}
        usage = {**counts, "input_token_details": details, "output_token_details": details}
        await self._send("response.done", response={**response, "status": "completed", "output": [], "usage": usage})

    async def _item(self, response: str, item: dict, words: str = "") -> None:
        place = {"response_id": response, "output_index": 0}
        await self._send("response.output_item.added", **place, item=item)
        await self._send("conversation.item.added", item=item, previous_item_id=None)
        if words:
            part = {**place, "item_id": item["id"], "content_index": 0}
            await self._send("response.content_part.added", **part, part={"type": "audio", "transcript": ""})
            for word in words.split(" "):
                await self._send("response.output_audio_transcript.delta", **part, delta=f"{word} ")
                sound = base64.b64encode(bytes(silence(0.1).data)).decode()
                await self._send("response.output_audio.delta", **part, delta=sound)
        await self._send("response.output_item.done", **place, item=item)

    async def _send(self, kind: str, **fields) -> None:
        await self._socket.send_json({"type": kind, "event_id": self._next("event"), **fields})

    def _next(self, kind: str) -> str:
        self._number += 1
        return f"{kind}_{self._number}"


@function_tool
async def get_wind(place: str, day: str) -> dict:
    """Wind forecast for a place."""
    return scenario.results[place]


async def talk(steps: list[str], system: str) -> None:
    """A session with one conversation; the second answer is cut off by the third question."""
    server, speaker = Server(system), Loudspeaker()
    application = web.Application()
    application.router.add_get("/v1/realtime", server.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    model = openai.realtime.RealtimeModel(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
    with request(steps[0]):
        async with AgentSession(llm=model) as session:
            session.input.audio, session.output.audio = Microphone(), speaker
            await session.start(Agent(instructions=system, tools=[get_wind]), record={"audio": False})
            await asyncio.sleep(0.3)
            for number, step in enumerate(steps):
                speaker.begun.clear()
                server.said.put_nowait(scenario.rag_prompt if step == "rag" else scenario.questions[step])
                await asyncio.sleep(0.3)
                speaker.done.clear()
                is_cut_off = steps[number + 1 : number + 2] == ["turn3"]
                try:
                    await asyncio.wait_for((speaker.begun if is_cut_off else speaker.done).wait(), 6)
                except TimeoutError:
                    print("no answer")
                await asyncio.sleep(0.3)
    await runner.cleanup()


async def main() -> None:
    await talk(["turn1", "turn2", "turn3", "parallel"], scenario.system)
    await talk(["rag"], scenario.rag_system)


asyncio.run(main())
provider.shutdown()
