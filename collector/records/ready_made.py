"""Turns that a producer made itself: turns and conversations as JSON, and plain chats `{messages: […]}`.

A thing that the producer leaves unnamed gets a name here, the same one each time. A turn without an id gets one from
its conversation, its words, when it began, and which of several equal ones it is; and from the place where it
stood, unless it belongs to a named conversation and itself shows there which turn it is: by when it began, or by
coming with its conversation. So a chat that is published again whenever it has grown brings the turns that it brought
before, wherever it stands, and also when its oldest messages are cut off; and two people who say the same in two
messages are two.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast

from collector.dialects.call import ChatMessage
from collector.dialects.messages import parse_messages, split_system_prompt
from collector.errors import BadInput
from collector.otlp.decode import Signal
from collector.records.attachments import MOST_ATTACHMENTS
from collector.records.foreign_shapes import chat_fields, conversation_fields, is_case, is_chat, turn_fields
from collector.records.json import record_of
from collector.records.nesting import refuse_depth
from collector.records.whole_conversation import with_conversation_fields
from evaluators.batch import MONITOR
from evaluators.cases import Attachment, AttachmentPlace, Json, Message, ToolCall, Turn
from evaluators.texts.exact_json import parse_exactly, place_in_json

Incoming: TypeAlias = Signal | Literal["turns", "references", "feedback"]
"""The kind of input: a signal of OTLP, ready-made turns, references, or feedback."""

LABEL_KEYS = (
    "human", "evaluator", "evaluation_id", "monitor", "label_probability", "weight", "segment", "score", "given_by",
    "judge_tokens", "note", "comment", "passed",
)  # fmt: skip
"""The keys beside a case that hold people's verdicts, and the evaluation they are about, as `labels next` and people
write them and `calibrate` reads them."""
MONITORS_OF_COMMANDS = frozenset({"score", "judges", "align", MONITOR})
"""The monitors in evaluations that a command made, which no other monitor may be called. The ids of these evaluations
may equal those of a monitor's own."""
LONGEST_ID = 1000
"""Characters: ids are kept for as long as a conversation is open."""


class NotReadymade(BadInput):
    """A document has no shape of these."""


def is_readymade(document: object) -> bool:
    """Whether a JSON document has the shape of a turn, a conversation or a chat."""
    if not isinstance(document, Mapping):
        return False
    fields = cast("Mapping[str, object]", document)
    return is_case(fields) or fields.keys() >= {"input", "error"}


def documents_in(data: bytes | str) -> list[object]:
    """The documents of a text: it is one document, an array of documents, or has one in every line.

    Raises:
        BadInput: it is no JSON.
    """
    try:
        return _as_list(parse_exactly(data))
    except ValueError as error:
        lines, place = [line for line in data.splitlines() if line.strip()], place_in_json(error)
    if len(lines) < 2:
        raise BadInput(f"not JSON{place}")
    return [each for number, line in enumerate(lines, 1) for each in _as_list(_line(line, number))]


def _line(line: bytes | str, number: int) -> object:
    try:
        return parse_exactly(line)
    except ValueError:
        raise BadInput(f"neither JSON nor JSON lines: line {number} is not JSON") from None


def _as_list(document: object) -> list[object]:
    return cast("list[object]", document) if isinstance(document, list) else [document]


def comes_again(document: object) -> bool:
    """Whether a document may come again with more turns than before: a chat or a conversation that has a name."""
    if not isinstance(document, Mapping):
        return False
    fields = cast("Mapping[str, object]", document)
    return bool(fields.get("conversation_id") if "turns" in fields else "messages" in fields and _chat_id(fields))


def turns_in(document: object, place: str = "") -> Iterator[Turn]:
    """The turns of a document: itself, the turns of a conversation, or one per answer of a chat.

    Missing values are derived from the given ones: see above for ids. `place` is where it stood, the same whenever
    it is read there again.

    Raises:
        BadInput: it has not the shape, or keys that nobody knows; names the path.
    """
    fields = cast("dict[str, Any]", document if isinstance(document, dict) else {})
    if "human" in fields:  # a labelled case, as of `labels next`
        fields = {name: value for name, value in fields.items() if name not in LABEL_KEYS}
    if not (is_readymade(fields) or "input" in fields):
        raise NotReadymade("neither a turn (input, actual_output), a conversation (turns) nor a chat (messages)")
    seen: Counter[tuple[str, ...]] = Counter()
    for turn in _turns(fields, place):
        for name in ("turn_id", "conversation_id", "trace_id", "span_id"):
            if len(getattr(turn, name) or "") > LONGEST_ID:
                raise BadInput(f"{name} has more than {LONGEST_ID} characters; write a shorter id or a hash of it")
        yield turn if turn.turn_id else replace(turn, turn_id=_identify(turn, fields, place, seen))


def _identify(turn: Turn, document: Mapping[str, Any], place: str, seen: Counter[tuple[str, ...]]) -> str:
    has_place = turn.started_at is not None or "turns" in document or "messages" in document
    own = has_place and turn.conversation_id is not None
    when = turn.started_at.isoformat() if turn.started_at else None
    parts = (turn.conversation_id, when, turn.trace_id, turn.span_id, turn.input, turn.actual_output)
    key = ("" if own else place, *(part or "" for part in parts))
    ordinal = seen[key]
    seen[key] += 1
    return _hash((*key, str(ordinal)))


def _hash(words: Iterable[str]) -> str:
    return hashlib.sha256("\x1f".join(words).encode("utf-8", "replace")).hexdigest()[:32]


def _turns(document: dict[str, Any], place: str) -> Iterator[Turn]:
    if "turns" in document:
        yield from _conversation(document, place)
    elif is_chat(document):
        yield from _chat(document, place)
    else:
        yield _turn(document)


def _conversation(document: Mapping[str, Any], place: str) -> Iterator[Turn]:
    conversation = conversation_fields(document)
    turns = conversation.get("turns")
    if not isinstance(turns, list):
        raise BadInput("turns must be an array of objects")
    identity = conversation.get("conversation_id") or (_hash(("conversation", place)) if turns else None)
    if not isinstance(identity, str):
        raise BadInput("conversation_id must be a string")
    history: tuple[Message, ...] = ()
    for fields in cast("list[dict[str, Any]]", turns):
        turn = _turn({**fields, "conversation_id": fields.get("conversation_id") or identity})
        turn = turn if turn.history else replace(turn, history=history)
        history = (*turn.history, *_as_messages(turn))
        yield with_conversation_fields(turn, conversation)


def _as_messages(turn: Turn) -> Iterator[Message]:
    if turn.input is not None:
        yield Message(role="user", content=turn.input)
    if turn.actual_output is not None:
        yield Message(role="assistant", content=turn.actual_output)


def _turn(document: Mapping[str, Any]) -> Turn:
    """A turn as it was said; its id is empty where it names none."""
    attributes = cast("dict[str, Any]", of) if isinstance(of := document.get("attributes"), dict) else {}
    own = {name: attributes[name] for name in ("model", "service") if name in attributes}
    turn = record_of({"turn_id": "", **own, **turn_fields(document)}, Turn)
    refuse_depth(document)
    return replace(
        turn,
        conversation_id=turn.conversation_id or None,
        started_at=_utc(turn.started_at),
        ended_at=_utc(turn.ended_at),
        # There is no answer to judge. A question that is missing is missed by those evaluators that need it.
        incomplete=turn.incomplete or ("no_content" if turn.error is None and turn.actual_output is None else None),
        attachments=turn.attachments[:MOST_ATTACHMENTS],
    )


def _utc(when: datetime | None) -> datetime | None:
    if when is None:
        return None
    try:
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except OverflowError:
        raise BadInput("started_at or ended_at is out of range in UTC") from None


def _chat_id(document: Mapping[str, Any]) -> str | None:
    """The name of the chat: a text or a whole number."""
    for name in ("conversation_id", "id"):
        value = document.get(name)
        if isinstance(value, bool) or not isinstance(value, (str, int, type(None))):
            raise BadInput(f"{name} must be a string")
        if value is not None and value != "":
            return str(value)
    return None


def _chat(document: Mapping[str, Any], place: str) -> Iterator[Turn]:
    """One turn for every user's message and the last answer before the next one.

    A chat is a conversation, also one without a name: it then gets one from its place and its first words.
    """
    document = chat_fields(document)
    system, messages = split_system_prompt(parse_messages(document.get("messages")).messages)
    if not messages:
        raise BadInput("messages must be an array of objects with role and content")
    for message in messages:
        refuse_depth({"result": message.result, "arguments": [call.arguments for call in message.tool_calls]})
    conversation = _chat_id(document) or _hash(("chat", place, messages[0].text))
    about = {key: document[key] for key in ("user_id", "model", "service", "attributes") if key in document}
    history = tuple(message.in_history for message in messages)
    requests = [index for index, message in enumerate(messages) if message.role == "user" and message.text.strip()]
    for number, index in enumerate(requests):
        rest = messages[index + 1 : requests[number + 1] if number + 1 < len(requests) else len(messages)]
        answers = [message.text for message in rest if message.role == "assistant" and message.text]
        if not answers:
            continue
        extra = {
            key: document[key]
            for key in ("retrieval_context", "context", "expected_output")
            if number + 1 == len(requests) and key in document
        }
        base = Turn(
            turn_id="",
            conversation_id=conversation,
            system_prompt=system,
            history=history[:index],
            input=messages[index].text,
            actual_output=answers[-1],
            tools_called=_tools(rest),
            attachments=tuple(_attachments(messages[:index], messages[index], rest))[:MOST_ATTACHMENTS],
        )
        yield _with_fields(base, {**about, **extra})


def _with_fields(turn: Turn, fields: Mapping[str, Any]) -> Turn:
    """The turn with what the producer said about it, checked."""
    if not fields:
        return turn
    checked = record_of({"turn_id": "", **fields}, Turn)
    refuse_depth(fields)
    return replace(turn, **{key: getattr(checked, key) for key in fields})


def _attachments(
    before: Sequence[ChatMessage], question: ChatMessage, rest: Sequence[ChatMessage]
) -> Iterator[Attachment]:
    """The turn's own come first, then those of earlier messages, latest first."""
    yield from question.attachments
    for message in rest:
        place: AttachmentPlace = "tools_called" if message.role == "tool" else "actual_output"
        yield from (replace(attachment, place=place) for attachment in message.attachments)
    for message in reversed(before):
        yield from (replace(attachment, place="history") for attachment in message.attachments)


def _tools(messages: Sequence[ChatMessage]) -> tuple[ToolCall, ...]:
    results: dict[str | None, Json] = {
        message.tool_call_id: message.result for message in messages if message.role == "tool"
    }
    return tuple(replace(call, result=results.get(call.id)) for message in messages for call in message.tool_calls)
