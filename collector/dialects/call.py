"""What a dialect reader gives back: one neutral piece per span, with where each part of it was found.

Readers say what a span holds and no more. What belongs together, and which of it is a turn, is decided in `assemble`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from collector.dialects.decode import as_list
from evaluators.cases import Feedback, Incomplete, Json, TokenCount, ToolCall

Kind = Literal["model", "agent", "workflow", "chain", "tool", "retrieval", "aside", "other"]
"""What a span stands for.

model: one call of a model that answers with text or tool calls.
agent: something a user talks to, with or without model calls that can be seen.
workflow: an application's own function or root around model calls; without any it is just a function.
chain: any other step around model calls.
tool: the execution of a tool. retrieval: documents fetched for a question.
aside: a guardrail, an evaluator, a reranker: model calls inside are not the application's answer.
other: belongs to the dialect but carries no exchange (embeddings, feedback, preparation).
"""


class Said(NamedTuple):
    """One message as a trace holds it.

    `role` is system, user, assistant, tool, or what the dialect says. A tool's answer is a message of its own, of role
    tool, with `call_id` the call it answers, `name` the tool's and `result` the value as it was before it became text.
    `finish` is `stop`, `tool`, `length`, `filter`, or None where the message does not say.
    """

    role: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    name: str | None = None
    result: Json = None
    finish: str | None = None


class Passage(NamedTuple):
    """A retrieved document. `text` is "" where the trace has only its id or score."""

    text: str
    id: str | None = None
    score: float | None = None


_EMPTY: Mapping[str, str] = MappingProxyType({})


class Call(NamedTuple):
    """What one span says, in neutral words. None means that the span does not say.

    `input` is what was given, `output` what came back: for a model one message per choice, for an agent whatever it
    reports of its run. `system` is a system prompt given apart from the messages. `input_hole` and `output_hole` say
    why one of them is missing or cannot be trusted. `usage` counts this call alone. `variables` are the values a
    prompt template was filled with. `uncertain` says that the borders between messages are guessed. `found` maps the
    names of these fields to the attributes they came from.
    """

    dialect: str
    kind: Kind = "other"
    system: str | None = None
    input: tuple[Said, ...] | None = None
    output: tuple[Said, ...] | None = None
    input_hole: Incomplete | None = None
    output_hole: Incomplete | None = None
    finish: str | None = None
    error: str | None = None
    model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    usage: TokenCount | None = None
    agent: str | None = None
    tool: ToolCall | None = None
    passages: tuple[Passage, ...] = ()
    query: str | None = None
    variables: Mapping[str, str] = _EMPTY
    feedback: tuple[Feedback, ...] = ()
    feedback_for: str | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    uncertain: bool = False
    found: Mapping[str, str] = _EMPTY


_MERGED = tuple(name for name in Call._fields if name not in {"dialect", "kind", "found"})


def union(calls: Sequence[Call]) -> Call:
    """What several readers or spans say of one thing: the first one's words, and from the others what it lacks.

    An output that is there beats one that is missing, so a hole that another one fills is gone.
    """
    first = calls[0]
    if len(calls) == 1:
        return first
    changes: dict[str, Any] = {}
    found = dict(first.found)
    for name in _MERGED:
        giver = next((call for call in calls if _says(getattr(call, name))), first)
        if giver is not first:
            changes[name] = getattr(giver, name)
            if name in giver.found:
                found[name] = giver.found[name]
    for side in ("input", "output"):
        whole = [call for call in calls if getattr(call, side) and not getattr(call, f"{side}_hole")]
        sound = next((call for call in whole if not _is_empty(getattr(call, side))), whole[0] if whole else None)
        if sound is not None:
            sound = _fullest(sound, whole) if side == "input" else sound
            changes[side] = getattr(sound, side)
            changes[f"{side}_hole"] = None
            found[side] = sound.found.get(side, "")
    kind = next((call.kind for call in calls if call.kind != "other"), first.kind)
    return first._replace(kind=kind, found=found, **changes)


def _fullest(sound: Call, calls: Sequence[Call]) -> Call:
    """The same messages with the tool calls in them, which some leave out of what was given."""
    here = _tool_count(sound)
    for other in calls:
        if other is not sound and len(other.input or ()) == len(sound.input or ()) and _tool_count(other) > here:
            return other
    return sound


def _tool_count(call: Call) -> int:
    return sum(len(each.calls) for each in call.input or ())


def _is_empty(said: Sequence[Said]) -> bool:
    return not any(each.text or each.calls for each in said)


def _says(value: object) -> bool:
    return value is not None and value not in ((), {})


def conflicts(calls: Sequence[Call]) -> Iterable[str]:
    """The fields in which readers of one span contradict each other."""
    for name in ("kind", "model", "response_id", "usage", "output"):
        said = {repr(getattr(call, name)) for call in calls if _says(getattr(call, name)) and call.kind != "other"}
        if len(said) > 1:
            yield name


_FINISH: dict[str, str] = {
    **dict.fromkeys(
        ("stop", "end_turn", "completed", "complete", "stop_sequence", "eos", "end", "length_stop"), "stop"
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call", "tool-calls", "tool"), "tool"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "incomplete", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "safety", "guardrail_intervened", "refusal", "content-filter"), "filter"),
    **dict.fromkeys(("error", "failed", "cancelled"), "error"),
}


def finish_of(value: Json) -> str | None:
    """Normalise a finish reason, given alone or in a list; None for one that nobody knows."""
    several = as_list(value)
    value = several[-1] if several else value
    if not isinstance(value, str):
        return None
    return _FINISH.get(value.rpartition(".")[2].strip("\"'[] ").lower())


def listed(value: Sequence[Said] | None) -> tuple[Said, ...] | None:
    """Messages as a field of a call: None where there are none."""
    return tuple(value) if value else None
