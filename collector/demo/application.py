"""The demo's application: a helpdesk chatbot of a bicycle shop, traced with the OpenTelemetry SDK.

No model answers here: the answers are written in `topics.json`. That keeps the demo free of keys, and lets it turn bad
on purpose and on time. What it sends are real spans, over real OTLP/HTTP, as an instrumented application would.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

SYSTEM_PROMPT = "You are the helpdesk of Spoke & Sons, a bicycle shop. Answer from the shop's pages, shortly."
MODEL = "helpdesk-1"


@dataclass(frozen=True, slots=True)
class Topic:
    """A question with the page that answers it, a good answer, and the answer of a bad day."""

    question: str
    page: str
    good: str
    bad: str


TOPICS = tuple(Topic(**topic) for topic in json.loads(files("collector.demo").joinpath("topics.json").read_bytes()))


class Helpdesk:
    """The chatbot. `quality` gives the share of good answers, 0..1, and is asked before every answer."""

    def __init__(self, tracer: "Tracer", *, quality: Callable[[], float], chance: random.Random) -> None:
        self._tracer = tracer
        self._quality = quality
        self._chance = chance

    async def converse(self, conversation_id: str, *, turns: int, pause: float) -> None:
        """Hold one conversation of some turns, `pause` seconds apart. Each turn is a trace of its own."""
        history: list[tuple[str, str]] = []
        for topic in self._chance.sample(TOPICS, turns):
            answer = topic.good if self._chance.random() < self._quality() else topic.bad
            self._answer(conversation_id, topic, answer, history)
            history += [("user", topic.question), ("assistant", answer)]
            await asyncio.sleep(pause)

    def _answer(self, conversation_id: str, topic: Topic, answer: str, history: list[tuple[str, str]]) -> None:
        with self._tracer.start_as_current_span("POST /chat", attributes={"session.id": conversation_id}):
            self._retrieve(topic)
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "spoke-and-sons",
                "gen_ai.request.model": MODEL,
                "gen_ai.response.model": MODEL,
                "gen_ai.conversation.id": conversation_id,
                "gen_ai.input.messages": _messages(("system", SYSTEM_PROMPT), *history, ("user", topic.question)),
                "gen_ai.output.messages": _messages(("assistant", answer)),
                "gen_ai.usage.input_tokens": 40 + 20 * len(history),
                "gen_ai.usage.output_tokens": len(answer.split()),
            }
            with self._tracer.start_as_current_span(f"chat {MODEL}", attributes=attributes):
                pass

    def _retrieve(self, topic: Topic) -> None:
        documents = json.dumps([{"id": topic.page.partition(":")[0], "content": topic.page, "score": 0.9}])
        attributes = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": topic.question,
            "gen_ai.retrieval.documents": documents,
        }
        with self._tracer.start_as_current_span("retrieval pages", attributes=attributes):
            pass


def _messages(*messages: tuple[str, str]) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]} for role, content in messages])


@asynccontextmanager
async def tracing(endpoint: str) -> "AsyncGenerator[Tracer]":
    """A tracer whose spans go to an OTLP/HTTP endpoint like `http://127.0.0.1:4318`, a few times a second."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "helpdesk"}))
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=300))
    try:
        yield provider.get_tracer("spoke-and-sons.helpdesk")
    finally:
        await asyncio.to_thread(provider.shutdown)  # it waits for the endpoint, which may live on this event loop
