"""The evaluate stage on its own: a plan whose evaluators ask no judge, and turns as applications send them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, ClassVar

from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.logs.log import StoredRecord
from collector.records.json import turn_to_json
from evaluators.cases import Conversation, Message, Turn
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.results import Score


class OfTurn(Evaluator[Turn]):
    """Judges nothing: what is measured is what comes before."""

    kind: ClassVar[str] = "of_turn"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        raise NotImplementedError


class OfConversation(Evaluator[Conversation]):
    """The same for conversations."""

    kind: ClassVar[str] = "of_conversation"
    scope: ClassVar[Any] = "conversation"

    @property
    def requires(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, case: Conversation, judge: Judge) -> Score:
        raise NotImplementedError


class Named:
    """A judge that is never asked."""

    model = "m"

    async def ask(self, *_arguments: Any, **_named: Any) -> Any:
        raise NotImplementedError


def plan(
    *, of_turn: int = 1, of_conversation: int = 0, sample: float = 1.0, ends: SessionWindowSettings | None = None
) -> Plan:
    """A monitor with so many evaluators, all drawing one sample."""
    evaluators: list[Evaluator[Any]] = [OfTurn(name=f"turn{number}") for number in range(of_turn)]
    evaluators += [OfConversation(name=f"conversation{number}") for number in range(of_conversation)]
    assignments = tuple(Assignment(each, Named(), "v") for each in evaluators)
    monitor = Monitor(
        name="m", assignments=assignments, match={}, rate=sample, window_settings=ends or SessionWindowSettings()
    )
    return Plan((monitor,), salt="bench")


def records(
    conversations: int, turns_each: int, *, history: int = 0, text: int = 400, seed: int = 1
) -> Iterator[StoredRecord]:
    """Turns of many conversations by turns, each with `history` messages before it; one comes every millisecond."""
    chance = random.Random(seed)
    position = 0
    for number in range(turns_each):
        for conversation in range(conversations):
            position += 1
            name = f"conversation-{seed}-{conversation}"
            before = tuple(
                Message(role=("user", "assistant")[each % 2], content=f"{conversation} {each} ".ljust(text, "x"))
                for each in range(history)
            )
            turn = Turn(
                turn_id=f"{chance.getrandbits(128):032x}",
                conversation_id=name,
                trace_id=f"{chance.getrandbits(128):032x}",
                span_id=f"{chance.getrandbits(64):016x}",
                service="chat-api",
                dialect="otel_genai",
                model="gpt-4.1-mini",
                history=before,
                input=f"{conversation} {number} ".ljust(text // 2, "q"),
                actual_output=f"{number} ".ljust(text, "a"),
            )
            yield StoredRecord(0, position, 1e9 + position / 1000, name.encode(), turn_to_json(turn))
