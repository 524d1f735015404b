"""Turns that a producer made itself: turns and conversations as JSON, and plain chats `{messages: […]}`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, cast

import orjson

from collector.dialects.call import Said
from collector.dialects.messages import messages, system_and_rest
from collector.errors import BadInput
from collector.records import record_of
from evaluators.cases import Conversation, Json, Message, ToolCall, Turn

LONGEST_ID = 1000
"""Characters: ids are kept for as long as a conversation is open."""

_TURN_KEYS = {each.name for each in fields(Turn)}
_CONVERSATION_KEYS = {each.name for each in fields(Conversation)}
_CHAT_KEYS = {
    "messages", "id", "conversation_id", "user_id", "model", "service", "retrieval_context", "context",
    "expected_output", "attributes",
}  # fmt: skip


def is_readymade(document: object) -> bool:
    """Whether a JSON document has the shape of a turn, a conversation or a chat."""
    if not isinstance(document, Mapping):
        return False
    keys = cast("Mapping[str, object]", document).keys()
    return bool({"messages", "turns", "actual_output", "turn_id"} & keys)


def turns_in(document: object, place: str = "") -> Iterator[Turn]:
    """The turns of a document: itself, those of a conversation, or one per answer of a chat.

    What it does not say is derived from what it says: a turn without an id gets one from its words and `place`, so that
    reading it again gives the same.

    Raises:
        BadInput: it has not the shape, or keys that nobody knows; names the path.
    """
    if not is_readymade(document):
        raise BadInput("neither a turn (input, actual_output), a conversation (turns) nor a chat (messages)")
    for turn in _turns(cast("dict[str, Any]", document), place):
        for name, identity in (("turn_id", turn.turn_id), ("conversation_id", turn.conversation_id)):
            if identity is not None and len(identity) > LONGEST_ID:
                raise BadInput(
                    f"not a turn: {name}: is longer than {LONGEST_ID} characters; give an id or a hash of it"
                )
        yield turn


def _turns(held: dict[str, Any], place: str) -> Iterator[Turn]:
    if "turns" in held:
        yield from _conversation(held, place)
    elif "messages" in held:
        yield from _chat(held, place)
    else:
        yield _turn(held, place)


def _conversation(held: Mapping[str, Any], place: str) -> Iterator[Turn]:
    _refuse_unknown(held, _CONVERSATION_KEYS, "conversation")
    identity = held.get("conversation_id")
    if not isinstance(identity, str) or not identity:
        raise BadInput("not a conversation: conversation_id: a text is needed")
    if not isinstance(held["turns"], list):
        raise BadInput("not a conversation: turns: an array is needed")
    history: tuple[Message, ...] = ()
    for number, each in enumerate(cast("list[Any]", held["turns"])):
        if not isinstance(each, dict):
            raise BadInput(f"not a conversation: turns.{number}: an object is needed")
        turn = _turn({"conversation_id": identity, **cast("dict[str, Any]", each)}, f"{place}.{number}")
        turn = turn if turn.history else replace(turn, history=history)
        history = (*turn.history, *_as_messages(turn))
        yield turn


def _as_messages(turn: Turn) -> Iterator[Message]:
    if turn.input is not None:
        yield Message(role="user", content=turn.input)
    if turn.actual_output is not None:
        yield Message(role="assistant", content=turn.actual_output)


def _turn(held: Mapping[str, Any], place: str) -> Turn:
    _refuse_unknown(held, _TURN_KEYS, "turn")
    given = dict(held)
    given.setdefault("turn_id", "")
    turn = record_of(given, Turn)
    turn = replace(turn, started_at=_utc(turn.started_at), ended_at=_utc(turn.ended_at))
    if turn.turn_id:
        return turn
    words = (place, turn.trace_id, turn.span_id, turn.conversation_id, turn.input, turn.actual_output)
    return replace(turn, turn_id=_identify(words), incomplete=turn.incomplete or _hole(turn))


def _hole(turn: Turn) -> Any:
    missing = turn.error is None and (turn.input is None or turn.actual_output is None)
    return "no_content" if missing else None


def _utc(when: datetime | None) -> datetime | None:
    if when is None:
        return None
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _identify(words: Sequence[str | None]) -> str:
    return hashlib.sha256("\x1f".join(word or "" for word in words).encode()).hexdigest()[:32]


def _refuse_unknown(held: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(held.keys() - known)
    if unknown:
        raise BadInput(f"not a {what}: {unknown[0][:100]}: no such key; there are {', '.join(sorted(known))}")


def _chat(held: Mapping[str, Any], place: str) -> Iterator[Turn]:
    """One turn for every user's message and the last answer before the next one."""
    _refuse_unknown(held, _CHAT_KEYS, "chat")
    system, said = system_and_rest(messages(held["messages"]).said)
    if not said:
        raise BadInput("not a chat: messages: there are none of the shape {role, content}")
    conversation = held.get("conversation_id", held.get("id"))
    conversation = str(conversation) if conversation is not None else None
    about = {key: held[key] for key in ("user_id", "model", "service", "attributes") if key in held}
    asked = [index for index, each in enumerate(said) if each.role == "user" and each.text.strip()]
    for number, index in enumerate(asked):
        rest = said[index + 1 : asked[number + 1] if number + 1 < len(asked) else len(said)]
        answers = [each.text for each in rest if each.role == "assistant" and each.text]
        if not answers:
            continue
        last = number + 1 == len(asked)
        extra = {key: held[key] for key in ("retrieval_context", "context", "expected_output") if last and key in held}
        words = (place, conversation, str(number), said[index].text, answers[-1])
        base = Turn(
            turn_id=_identify(words),
            conversation_id=conversation,
            system_prompt=system,
            history=tuple(map(_message, said[:index])),
            input=said[index].text,
            actual_output=answers[-1],
            tools_called=_tools(rest),
        )
        yield _with(base, {**about, **extra})


def _with(turn: Turn, given: Mapping[str, Any]) -> Turn:
    """The turn with what the producer said about it, checked."""
    if not given:
        return turn
    checked = record_of({"turn_id": turn.turn_id, **given}, Turn)
    return replace(turn, **{key: getattr(checked, key) for key in given})


def _message(said: Said) -> Message:
    return Message(role=said.role, content=said.text, tool_calls=said.calls, tool_call_id=said.call_id)


def _tools(said: Sequence[Said]) -> tuple[ToolCall, ...]:
    results: dict[str | None, Json] = {each.call_id: each.result for each in said if each.role == "tool"}
    return tuple(replace(call, result=results.get(call.id)) for each in said for call in each.calls)


def turns_from_json(data: bytes | str, place: str = "") -> list[Turn]:
    """The turns of one JSON document. Raises BadInput."""
    try:
        document = orjson.loads(data)
    except ValueError:
        raise BadInput("not JSON") from None
    return list(turns_in(document, place))
