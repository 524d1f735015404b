"""What is judged: turns and conversations.

Plain immutable values, one vocabulary for every trace dialect and every evaluator. Field names are those of the JSON
records (one turn per line), so that a value and its record are the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Json = Any
"""A JSON value: None, bool, int, float, str, list of Json, or dict of str to Json."""

Scope = Literal["turn", "conversation"]

Incomplete = Literal["no_content", "redacted", "truncated", "external_reference", "evicted_attributes"]
"""Why a turn cannot be judged although it happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool: what the model asked for and what came back.

    `arguments` and `result` are JSON values where the trace had JSON, else text; `result` is None where none was seen.
    """

    id: str | None = None
    name: str
    arguments: Json = None
    result: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a chat. `content` is its text, "" where it has none."""

    role: str
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What a person or program of the application's own said about a turn.

    `value` is a number, a bool or a text; `source` says who (`user`, `application`, …) where the trace tells.
    """

    name: str
    value: float | bool | str | None = None
    label: str | None = None
    comment: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Tokens the application's own model used; input includes what came from a cache."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One user request and the application's answer to it, with what happened in between.

    `input` is the user's text, `actual_output` the answer the user got, `history` what preceded `input`. A failed
    call is a turn with `error` and no `actual_output`. `incomplete` says why a turn cannot be judged, None if it can.
    `conversation_id` is None where the trace names none: such a turn is a conversation of its own. Times are UTC.
    `trace_state` is the W3C tracestate, where the trace had one: samplers write into it what they let through. `events`
    are names of events of the application's own in the same part of the trace, each once, the latest last; at most 16.
    """

    turn_id: str
    conversation_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    response_id: str | None = None
    service: str | None = None
    dialect: str | None = None
    model: str | None = None
    user_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    system_prompt: str | None = None
    history: tuple[Message, ...] = ()
    input: str | None = None
    actual_output: str | None = None
    tools_called: tuple[ToolCall, ...] = ()
    retrieval_context: tuple[str, ...] = ()
    expected_output: str | None = None
    context: tuple[str, ...] | None = None
    expected_tools: tuple[ToolCall, ...] | None = None
    usage: TokenCount | None = None
    error: str | None = None
    incomplete: Incomplete | None = None
    feedback: tuple[Feedback, ...] = ()
    trace_state: str | None = None
    events: tuple[str, ...] = ()
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns that share a conversation id, in order.

    `closed_by` says what ended it (`idle`, …); `revision` counts from 1 and grows when late turns reopen it.
    """

    conversation_id: str
    turns: tuple[Turn, ...]
    chatbot_role: str | None = None
    scenario: str | None = None
    expected_outcome: str | None = None
    closed_by: str | None = None
    revision: int = 1
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
