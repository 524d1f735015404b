"""Texts that hold documents: JSON, JSON cut in the middle, and Python's repr as the last resort.

Everything that comes out is a JSON value that can be written again: nesting, numbers and characters are within bounds.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import orjson

from evaluators.cases import Json

MAX_NESTING = 100
"""Deepest document that is decoded; a deeper one stays text."""

MAX_REPR = 256 * 1024
"""Longest Python repr, in characters, that is looked into."""


class Document(NamedTuple):
    """What a text held. `whole` is False where the text was cut and only its beginning could be read.

    `tail` is as much as there is of the string in which it was cut.
    """

    value: Json
    whole: bool = True
    tail: str = ""


def document(text: str) -> Document | None:
    """Decode a text that should be a JSON array or object; None if it is neither, nor the beginning of one."""
    start = text[:64].lstrip()[:1]
    if start not in {"[", "{"}:
        return None
    if text.count("[") + text.count("{") > MAX_NESTING and _nesting(text) > MAX_NESTING:
        return None
    try:
        return Document(orjson.loads(text))
    except ValueError:
        return _lenient(text)


def decoded(value: Json) -> Json:
    """`value`, or what it holds if it is a text that is a whole JSON array or object. One level only."""
    if isinstance(value, str):
        found = document(value)
        if found is not None and found.whole:
            return found.value
    return value


def json_value(value: Json) -> Json:
    """`value`, or what it holds if it is a JSON document of any kind: for attributes that are JSON by definition."""
    if not isinstance(value, str):
        return value
    try:
        found = orjson.loads(value)
    except ValueError:
        return decoded(value)
    if isinstance(found, (dict, list)) and _nesting(value) > MAX_NESTING:
        return value
    return cast("Json", found)


def as_dict(value: Json) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: Json) -> str:
    """A text for a JSON value: itself if it is one, "" for None, else compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact(value)


def compact(value: Json) -> str:
    """Compact JSON; "" for what cannot be written."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        return ""


_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""Strings and brackets. A string that never ends takes the rest, so that no input makes the search start over."""

_ENDED = re.compile(r'.(?<!\\)(?:\\\\)*"\Z', re.DOTALL)
"""A string that has its closing quote."""

_LOOKS_JSON = re.compile(r'\s*(?:\[\s*(?:[\[{"\]\d-]|true|false|null)|\{\s*["}])')
_LOOKS_REPR = re.compile(r"\s*[\[{(]\s*(?:[\[{(]\s*)*(?:'|\"|\w+\(|<)")


def _nesting(text: str) -> int:
    depth = deepest = 0
    for token in _TOKENS.finditer(text):
        character = token.group()
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _lenient(text: str) -> Document | None:
    """What orjson refuses: NaN and lone surrogates from Python's own json, Python reprs, and cut documents."""
    if _LOOKS_JSON.match(text):
        try:
            return Document(_bounded(json.loads(text, strict=False, parse_constant=_no_number)))
        except (ValueError, RecursionError):
            pass
    if _LOOKS_REPR.match(text):
        value = python_value(text)
        if isinstance(value, (list, dict)):
            return Document(value)
    return _cut(text) if _LOOKS_JSON.match(text) else None


def _no_number(_name: str) -> None:
    return None


def _cut(text: str) -> Document | None:
    """Read a document that was cut: up to the last array, object or string that is complete, closed again."""
    open_: list[str] = []
    end, closing, tail = 0, "", ""
    for token in _TOKENS.finditer(text):
        character = token.group()
        if character[0] == '"':
            tail = character if token.end() == len(text) and not _ENDED.search(character) else ""
        elif character in "[{":
            open_.append("]" if character == "[" else "}")
            if end == 0:
                end, closing = token.end(), open_[0]
        elif character in "]}":
            if not open_ or open_.pop() != character:
                return None
            end, closing = token.end(), "".join(reversed(open_))
    if not open_:
        return None  # nothing is missing: it is no JSON at all
    tail = tail[1:].replace("\\n", "\n").replace('\\"', '"')
    try:
        return Document(orjson.loads(text[:end] + closing), whole=False, tail=tail)
    except ValueError:
        return Document([] if closing.endswith("]") else {}, whole=False, tail=tail)


_SINGLE = r"""'[^'\\]*+(?:\\.[^'\\]*+)*+(?:'|\\?\Z)"""
_DOUBLE = r""""[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)"""
_STRING_OR_ANGLE = re.compile(
    rf"(?P<string>{_SINGLE}|{_DOUBLE})|<[\w.]++:\s*+(?P<member>{_SINGLE}|\d++)>|<[^<>]*+>|\[\d++ items\]", re.DOTALL
)


def python_value(text: str) -> Json:
    """The value of a Python repr, None if it is not one.

    Objects become dicts of their named parts, enum members their values, `<object at 0x…>` None.
    """
    if len(text) > MAX_REPR:
        return None
    source = text
    for _ in range(3):  # an angle may hold another: `<function <lambda> at 0x…>`
        source = _STRING_OR_ANGLE.sub(lambda found: found["string"] or found["member"] or "None", source)
    try:
        return _of_node(ast.parse(source.strip(), mode="eval").body, MAX_NESTING)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


_SHOWN = re.compile(rf"{_SINGLE}|{_DOUBLE}|[\[\](){{}}]|(?:(?<= )|\A)[a-z_]++=", re.DOTALL)


def shown_fields(text: str) -> dict[str, Json]:
    """The fields of an object as pydantic prints it: `role='user' parts=[…]`; those that can be read.

    A text that does not begin with a field has none.
    """
    if len(text) > MAX_REPR:
        return {}
    depth, starts = 0, list[re.Match[str]]()
    for token in _SHOWN.finditer(text):
        character = token.group()
        if character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        elif depth == 0 and character[-1] == "=":
            starts.append(token)
    if not starts or starts[0].start() > 0:
        return {}
    ends = [each.start() for each in starts[1:]] + [len(text)]
    return {
        each.group()[:-1]: python_value(text[each.end() : end].strip()) for each, end in zip(starts, ends, strict=True)
    }


def _of_node(node: ast.expr, depth: int) -> Json:
    if depth <= 0:
        return None
    match node:
        case ast.Constant(value=value):
            return _bounded(value)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_of_node(item, depth - 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {as_text(_of_node(key, 2)): _of_node(value, depth - 1) for key, value in pairs if key is not None}
        case ast.Call(keywords=keywords):
            return {each.arg: _of_node(each.value, depth - 1) for each in keywords if each.arg}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return _bounded(-number)
        case _:
            return None


def _bounded(value: object, depth: int = MAX_NESTING) -> Json:
    """A JSON value that can be written: no NaN, no lone surrogates, no numbers or nesting without bound."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)[:100]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth <= 0:
        return None
    if isinstance(value, list):
        return [_bounded(each, depth - 1) for each in cast("list[object]", value)]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, object]", value).items()
        return {as_text(_bounded(key)): _bounded(each, depth - 1) for key, each in pairs}
    return value.hex() if isinstance(value, bytes) else None
