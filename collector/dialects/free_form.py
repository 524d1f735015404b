"""Questions and answers in values of no defined shape: a function's arguments, a chain's state, a text.

`assemble` uses what is read here only if a model call confirms it, or if no model call has any content.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

from collector.dialects.attributes import find_redaction
from collector.dialects.call import ChatMessage, Kind
from collector.dialects.decode import as_dict, as_list, looks_like_repr, parse_document
from collector.dialects.messages import parse_messages, parse_printed
from collector.dialects.parts import JsonObject
from evaluators.cases import Incomplete, Json

QUESTION_KEYS = (
    "question", "query", "query_str", "query_bundle", "user_input", "user_message", "user_query", "input", "prompt",
    "message", "text", "content", "request", "task", "q", "inputs", "kwargs", "args",
)  # fmt: skip
ANSWER_KEYS = (
    "answer", "final_answer", "final_output", "final_result", "response", "output", "result", "output_text", "reply",
    "completion", "generation", "text", "content", "message", "raw", "outputs",
)  # fmt: skip
_SHAPES = frozenset({"messages", "choices", "candidates", "generations", "contents", "replies", "role", "lc", "parts"})
_MAX_DEPTH = 4


class Content(NamedTuple):
    """The messages of an input or output: None if none can be read, with the reason in `incomplete` if it is known."""

    messages: tuple[ChatMessage, ...] | None
    incomplete: Incomplete | None = None


def parse_question(value: Json) -> Content:
    """Find the question in a text, a JSON document, or a value."""
    return _parse_content(value, "user", QUESTION_KEYS)


class Exchanged(TypedDict):
    """The fields of a `Call` that a question and its answer fill."""

    input: tuple[ChatMessage, ...] | None
    output: tuple[ChatMessage, ...] | None
    input_incomplete: Incomplete | None
    output_incomplete: Incomplete | None


def exchanged(question: Content, answer: Content) -> Exchanged:
    """The fields of a `Call` for its question and answer, each with why it is missing."""
    return {
        "input": question.messages,
        "output": answer.messages,
        "input_incomplete": question.incomplete,
        "output_incomplete": answer.incomplete,
    }


def parse_answer(value: Json) -> Content:
    """Find the answer in a text, a JSON document, or a value."""
    return _parse_content(value, "assistant", ANSWER_KEYS)


_WITHOUT_MESSAGES: frozenset[Kind] = frozenset({"tool", "retrieval", "other"})


def parse_content(value: Json, kind: Kind, role: str, *, plain: bool = False) -> Content:
    """Parse the input or output of a step: the messages of a model's call, the question or answer of a step around it.

    Tools, retrievers and preparations have none. With `plain` a model's text of no known shape is a message, too.
    """
    if value is None or kind in _WITHOUT_MESSAGES:
        return Content(None)
    if redaction := find_redaction(value):
        return Content(None, redaction)
    if kind == "model":
        transcript = parse_messages(value, role)
        if plain or transcript.is_structured:
            return Content(transcript.messages or None, transcript.incomplete)
    return parse_question(value) if role == "user" else parse_answer(value)


def parse_query(value: Json) -> str | None:
    """Find the query of a retriever; None if there is none."""
    messages = parse_question(value).messages
    return messages[-1].text if messages else None


def _parse_content(value: Json, role: str, keys: Sequence[str]) -> Content:
    if value is None:
        return Content(None)
    if not isinstance(value, str):
        return Content(_find_messages(value, role, keys, _MAX_DEPTH))
    if redaction := find_redaction(value):
        return Content(None, redaction)
    document = parse_document(value)
    if document is None:
        return Content(_parse_text(value, role))
    messages = _find_messages(document.value, role, keys, _MAX_DEPTH)
    return Content(messages, "truncated") if not document.whole else Content(messages)


def _find_messages(value: Json, role: str, keys: Sequence[str], depth: int) -> tuple[ChatMessage, ...] | None:
    if isinstance(value, str):
        return _parse_text(value, role)
    if depth <= 0 or not isinstance(value, (dict, list)):
        return None
    fields = as_dict(value)
    if fields and _SHAPES.isdisjoint(fields):
        return _find_in_fields(fields, role, keys, depth)
    if fields or any(not _SHAPES.isdisjoint(as_dict(each)) for each in as_list(value)):
        return parse_messages(value, role).messages or None
    commands = (
        parse_messages(value, role).messages if as_dict(as_list(value)[0] if value else None).get("update") else ()
    )
    if commands:
        return commands
    return next(
        (messages for each in as_list(value)[:4] if (messages := _find_messages(each, role, keys, depth - 1))), None
    )


def _find_in_fields(fields: JsonObject, role: str, keys: Sequence[str], depth: int) -> tuple[ChatMessage, ...] | None:
    for key in keys:
        if key in fields and (messages := _find_messages(fields[key], role, keys, depth - 1)):
            return messages
    # Arguments are called anything.
    single_value = next(iter(fields.values())) if role == "user" and len(fields) == 1 else None
    return _parse_text(single_value, role) if isinstance(single_value, str) else None


def _parse_text(value: str, role: str) -> tuple[ChatMessage, ...] | None:
    if not value.strip() or looks_like_repr(value):
        return None
    return (parse_printed(value, role) or ChatMessage(role, value),)
