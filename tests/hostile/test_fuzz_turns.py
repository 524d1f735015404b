"""Hostile documents where ready-made turns are wanted: nothing but BadInput comes of them, and no text that has to go.

What fails names its case: `Documents(seed)` makes it again.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from collector.errors import BadInput
from collector.receive.turn_ingest import ParsedTurns, parse_turns
from collector.records.json import turn_from_json
from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from evaluators.cases import Conversation, Feedback, Message, TokenCount, ToolCall, Turn

REDACTOR = Redactor((find,), b"a key")
SECRET = "ada@example.com"
WHEN = datetime(2026, 1, 2, tzinfo=UTC)
CASES = max(1, 1500 * int(os.environ.get("FUZZ_CASES", "130000")) // 130_000)

TEXTS = (
    "", "Hi", SECRET, f"mail {SECRET}, or call", json.dumps({"to": SECRET}), "\ud800", "\x00", "user", "assistant", "tool",
    "system", "no_content", "2026-01-02T03:04:05Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "c" * 1001,
    "[" * 2000, "ChatMessage(role='\\ud800')", "{'a': '\\ud800'}", "4111111111111111", "NaN",
)  # fmt: skip
NUMBERS = (
    0,
    -1,
    1.5,
    2**63,
    2**64,
    10**400,
    -(10**30),
    1e308,
    253402300800,
    -62135596801,
    4111111111111111,
    float("nan"),
)
KEYS = sorted(
    {each.name for kind in (Turn, Conversation, Message, ToolCall, Feedback, TokenCount) for each in fields(kind)}
)
NAMES = (*KEYS, "messages", "id", "type", "text", "parts", "function", "kwargs", "choices", SECRET, "")


class Documents:
    """One document, all of it by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def any(self) -> Any:
        kinds = (self.turn, self.chat, self.conversation, self.value, lambda: [self.turn(), self.chat()])
        return self.chance.choices(kinds, (4, 4, 3, 1, 1))[0]()

    def value(self, depth: int = 3) -> Any:
        pick = self.chance.random()
        if depth and pick < 0.2:
            return [self.value(depth - 1) for _ in range(self.chance.randint(0, 4))]
        if depth and pick < 0.4:
            return {self.chance.choice(NAMES): self.value(depth - 1) for _ in range(self.chance.randint(0, 4))}
        return self.deep() if pick < 0.43 else self.plain()

    def deep(self) -> Any:
        value: Any = SECRET
        in_lists = self.chance.random() < 0.5
        for _ in range(self.chance.choice((60, 64, 65, 101, 199, 255))):
            value = [value] if in_lists else {"a": value}
        return value

    def plain(self) -> Any:
        return self.chance.choice((*TEXTS, *TEXTS, *NUMBERS, None, True))

    def text(self) -> str:
        return self.chance.choice(TEXTS[:4]) if self.chance.random() < 0.9 else self.chance.choice(TEXTS)

    def some(self, *names: str) -> dict[str, Any]:
        """A few of these keys: mostly with something that fits, else with anything."""
        chosen = self.chance.sample(names, self.chance.randint(0, min(3, len(names))))
        return {each: self.value() if self.chance.random() < 0.1 else self.fitting(each) for each in chosen}

    def fitting(self, name: str) -> Any:
        match name:
            case "attributes" | "program_fields":
                return {self.text(): self.deep() if self.chance.random() < 0.05 else self.text()}
            case "tools_offered":
                return [{"name": "f", "parameters": self.deep() if self.chance.random() < 0.05 else {}}]
            case "history":
                return [self.message()]
            case "usage":
                return {"input_tokens": 3}
            case "started_at" | "ended_at":
                return TEXTS[12]
            case "context" | "retrieval_context" | "events":
                return [self.text()]
            case "tools_called" | "expected_tools":
                return [{"name": "f", "result": self.text()}]
            case "tool_calls":
                return [{"id": "1", "function": {"name": "f", "arguments": self.text()}}]
            case "feedback":
                return [{"name": self.text(), "value": 1}]
            case "incomplete":
                return "truncated"
            case _:
                return self.text()

    def turn(self) -> dict[str, Any]:
        return {"input": self.text(), "actual_output": self.text(), **self.some(*(each.name for each in fields(Turn)))}

    def message(self, role: str = "user") -> dict[str, Any]:
        content = self.value() if self.chance.random() < 0.05 else self.text()
        return {"role": role, "content": content, **self.some("tool_calls", "tool_call_id", "name")}

    def chat(self) -> dict[str, Any]:
        roles: Sequence[str] = self.chance.choices(("user", "assistant", "tool", "system"), (4, 4, 1, 1), k=6)
        messages = self.value() if self.chance.random() < 0.05 else [self.message(role) for role in roles]
        return {"messages": messages, **self.some("id", "conversation_id", "user_id", "attributes", "context")}

    def conversation(self) -> dict[str, Any]:
        turns = self.value() if self.chance.random() < 0.05 else [self.turn() for _ in range(self.chance.randint(0, 3))]
        return {"conversation_id": self.text() or "c", "turns": turns, **self.some("scenario", "attributes")}

    def written(self) -> bytes:
        """As Python writes it: numbers of any size, NaN, and halves of characters, which few readers take."""
        if self.chance.random() < 0.01:
            return b'{"messages": ' + b"[" * 2000 + b"]" * 2000 + b"}"
        text = "\n".join(json.dumps(self.any()) for _ in range(self.chance.choice((1, 1, 1, 2))))
        return text[: len(text) - self.chance.choice((0,) * 12 + (1, 7))].encode()


def taken_in(body: bytes, redactor: Redactor | None) -> ParsedTurns | None:
    """What comes of it; None if it is refused."""
    problem = ""
    try:
        return parse_turns(body, "t/0/1", at=lambda: WHEN, max_items=1000, redactor=redactor)
    except BadInput as error:
        problem = str(error)
    assert SECRET not in problem
    return None


@pytest.mark.parametrize("redactor", [REDACTOR, None], ids=["redacted", "as it is"])
@settings(max_examples=CASES, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**63))
def test_documents(redactor: Redactor | None, seed: int) -> None:
    body = Documents(seed).written()
    taken = taken_in(body, redactor)
    assert taken == taken_in(body, redactor)
    for record in taken.records if taken else ():
        turn = turn_from_json(record.value)
        assert turn.turn_id
        assert record.key == (turn.conversation_id or turn.trace_id or turn.turn_id).encode()
        assert redactor is None or SECRET.encode() not in record.value + record.key


def test_many_documents_are_taken_and_many_refused() -> None:
    came_to = Counter(taken_in(Documents(seed).written(), None) is not None for seed in range(300))
    assert min(came_to[True], came_to[False]) > 60
