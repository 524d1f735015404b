"""The records of the logs as JSON, where what is not a record is bad input. Their form is in `evaluators.records`.

A validation error says where the first problem is and what is required there, without the value itself.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from collector.errors import BadInput
from collector.wording import requirement
from evaluators.cases import Conversation, Turn, scope_of
from evaluators.records import adapter_of, from_json, to_dict, to_json
from evaluators.results import Evaluation, Label

T = TypeVar("T")


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """The fields of a value that a document has under their own names."""
    return {name: getattr(value, name) for name in names}


def not_none(**values: T | None) -> dict[str, T]:
    """The values that are known."""
    return {name: value for name, value in values.items() if value is not None}


def indented_json(document: object) -> str:
    """A document as the JSON that a command prints. Keys that are numbers, like partitions, become strings."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()


def case_json(case: Turn | Conversation) -> dict[str, Any]:
    """A turn or a conversation as a member of an object in JSON, under the name of its kind."""
    return {scope_of(case): orjson.Fragment(_to_json(case))}


def case_in(plain: Mapping[str, Any]) -> Turn | Conversation:
    """Read what `case_json` made, from the object around it. Raises BadInput, or KeyError if there is none."""
    if "turn" in plain:
        return turn_from_json(orjson.dumps(plain["turn"]))
    return conversation_from_json(orjson.dumps(plain["conversation"]))


def _to_json(record: object) -> bytes:
    try:
        return to_json(record)
    except TypeError as error:  # its message says what kind of thing it is, and nothing of the content
        raise BadInput(f"cannot be written as JSON: {error}") from None


def record_from_json(data: bytes | str, kind: type[T]) -> T:
    """Read a record. Raises BadInput, which names the path of what is wrong, not its content."""
    try:
        return from_json(data, kind)
    except ValidationError as error:
        raise BadInput(describe_error(error, kind)) from None


def readable(read: Callable[[bytes], T], value: bytes) -> T | None:
    """The result of `read`; None if the value is bad input, which another reader of the log reports."""
    try:
        return read(value)
    except BadInput:
        return None


turn_to_json: Callable[[Turn], bytes] = _to_json
"""Writes a turn as one line of JSON, without the line's end.

Raises BadInput if it holds what JSON has no room for: a number beyond 64 bits, half a character, a nesting of hundreds.
"""
conversation_to_json: Callable[[Conversation], bytes] = _to_json
evaluation_to_json: Callable[[Evaluation], bytes] = _to_json
label_to_json: Callable[[Label], bytes] = _to_json
turn_fields_to_json: Callable[[Mapping[str, Any]], bytes] = _to_json
"""Writes a turn that has only these fields, in the order of a turn's fields."""

turn_from_json: Callable[[bytes | str], Turn] = partial(record_from_json, kind=Turn)
"""Reads a turn. Raises BadInput, which names the path of what is wrong, not its content."""
conversation_from_json: Callable[[bytes | str], Conversation] = partial(record_from_json, kind=Conversation)
evaluation_from_json: Callable[[bytes | str], Evaluation] = partial(record_from_json, kind=Evaluation)
label_from_json: Callable[[bytes | str], Label] = partial(record_from_json, kind=Label)


def turn_content_to_json(turn: Turn) -> bytes:
    """Write a turn without its history, its id and its conversation's: what is kept of it beside those."""
    plain = to_dict(turn)
    plain.pop("history", None)
    return _to_json(plain | {"turn_id": "", "conversation_id": None})


def record_of(value: object, kind: type[T]) -> T:
    """Read a record from an already decoded JSON value. Raises BadInput."""
    try:
        return adapter_of(kind).validate_python(value)
    except ValidationError as error:
        raise BadInput(describe_error(error, kind)) from None
    except RecursionError:
        raise BadInput(f"not a {kind.__name__.lower()}: it is nested too deeply") from None


def json_schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of every record, by its name."""
    return {kind.__name__.lower(): adapter_of(kind).json_schema() for kind in (Turn, Conversation, Evaluation, Label)}


_REQUIREMENTS = {
    "missing": "is missing",
    "unexpected_keyword_argument": "is not a known key",
    "string_unicode": "must be valid Unicode",
}

_UNION_MEMBERS = {"bool", "int", "float", "str"}
"""The last part of an error's location if none of a field's several types fits."""


def describe_error(error: ValidationError, kind: type) -> str:
    """One sentence for the first error of a record of this kind: `retrieval_context must be an array of strings`."""
    first = error.errors(include_input=False, include_url=False)[0]
    location = first["loc"]
    if location[-1:] and location[-1] in _UNION_MEMBERS:
        return f"{_path(location[:-1])} has the wrong type"
    if path := _path(location):
        return f"{path} {_requirement(first, kind)}"
    name = kind.__name__.lower()
    reason = "it is not JSON" if first["type"] == "json_invalid" else f"it {_requirement(first, kind)}"
    return f"not {'an' if name[0] in 'aeiou' else 'a'} {name}: {reason}"


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location))


def _requirement(error: ErrorDetails, kind: type) -> str:
    if error["type"] in {"tuple_type", "list_type"}:
        return f"must be an array{_items(error['loc'], kind)}"
    message = error["msg"].replace("Input should be", "must be")
    fallback = message if message.startswith("must") else f"is not valid: {message}"
    return _REQUIREMENTS.get(error["type"]) or requirement(error) or fallback


def _items(path: tuple[int | str, ...], kind: type) -> str:
    """The items of the array at a path, if it is a field of the record itself."""
    hint = get_type_hints(kind).get(str(path[0])) if len(path) == 1 else None
    for each in (hint, *get_args(hint)):
        if get_origin(each) is tuple:
            return " of strings" if get_args(each)[0] is str else " of objects"
    return ""
