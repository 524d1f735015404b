"""Decoding of texts that contain documents: JSON, JSON that was cut, and Python's repr as the last resort.

Every result is a JSON value that can be encoded again: nesting, numbers and characters are bounded.
"""

import ast
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec
import orjson

from collector.otlp.span import CLOSING
from evaluators.cases import Json
from evaluators.texts.exact_json import as_text, make_exact, parse_exactly, parse_json

MAX_NESTING = 100
"""Deepest document that is decoded; a deeper one stays text."""

MAX_REPR = 256 * 1024
"""Longest Python repr that is parsed, in characters."""


class Document(NamedTuple):
    """The document in a text. `whole` is False if the text was cut and only its beginning could be read.

    `tail` is the rest of the string in which the document was cut.
    """

    value: Json
    whole: bool = True
    tail: str = ""


def parse_document(text: str) -> Document | None:
    """Parse a text that should be a JSON array or object; None if it is neither a document nor the beginning of one."""
    return document_of(text, load(text)) if begins_document(text) else None


def begins_document(text: str) -> bool:
    """Whether a text begins like a JSON array or object."""
    return text[:64].lstrip()[:1] in {"[", "{"}


def is_unfinished(text: str, *, at_once: bool = True) -> bool:
    """Whether a text is the beginning of a JSON document; `at_once`, one that ends with a fitting bracket is none."""
    closing = CLOSING.get(text[:64].lstrip()[:1])
    if closing is None or (at_once and text[-64:].rstrip()[-1:] == closing):
        return False
    document = parse_document(text)
    return document is not None and not document.whole


def is_json(text: str) -> bool:
    """Whether a text is JSON: to find that out takes a third of the time of reading it."""
    try:
        _check(text)
    except (ValueError, RecursionError):
        return False
    return True


_check = msgspec.json.Decoder(msgspec.Raw).decode


def load(text: str) -> Json:
    """The first half of `parse_document`: the value, not yet checked for depth and long numbers; None if it is cut."""
    try:
        return parse_json(text)
    except ValueError:
        return None


def document_of(text: str, loaded: Json) -> Document | None:
    """The second half of `parse_document`, given what `load` made of the text."""
    if text.count("[") + text.count("{") > MAX_NESTING and (
        _measure_nesting(text) > MAX_NESTING if loaded is None else _is_deeper(loaded, MAX_NESTING)
    ):
        return None
    return Document(make_exact(loaded, text)) if loaded is not None else _parse_leniently(text)


def _is_deeper(value: Json, most: int) -> bool:
    """Whether arrays and objects nest deeper in a value than `most`: walking it is faster than reading its text."""
    if type(value) is not dict and type(value) is not list:
        return False
    children: list[Any] = [*as_dict(value).values()] or as_list(value)
    return most <= 0 or any(_is_deeper(child, most - 1) for child in children if type(child) in _CONTAINERS)


_CONTAINERS = frozenset((dict, list))


def decode(value: Json) -> Json:
    """Decode a text that is a whole JSON array or object, one level deep; any other value is returned as it is."""
    if isinstance(value, str):
        document = parse_document(value)
        if document is not None and document.whole:
            return document.value
    return value


def decode_json(value: Json) -> Json:
    """Decode a text that is JSON of any kind, numbers and texts too: for attributes that are JSON by definition."""
    if not isinstance(value, str):
        return value
    try:
        result = parse_exactly(value)
    except ValueError:
        return decode(value)
    return value if _is_deeper(result, MAX_NESTING) else result


_OBJECT = re.compile(r"<[\w.<>]{1,200}(?: object)?(?: [\w.<>]{1,200})? at 0x[0-9a-fA-F]+>")


def is_object_repr(text: str) -> bool:
    """Whether a text is an object's default repr, with its address: `<groq.Stream object at 0x…>`."""
    return text.lstrip()[:1] == "<" and _OBJECT.fullmatch(text.strip()) is not None


def looks_like_repr(text: str) -> bool:
    """Whether a text is the repr of an object rather than anybody's words: `StopEvent(result=…`, `<groq.Stream …>`."""
    if is_object_repr(text):
        return True
    name, bracket, _ = text[:80].partition("(")
    return bool(bracket) and name.isidentifier() and text.rstrip().endswith((")", "..."))


def unquote(text: str) -> str:
    """The text that a JSON string has; of one that was cut, all before the cut; any other as it is."""
    closed = (text, f'{text}"', f'{text.rpartition(_ESCAPE)[0]}"')  # a cut may be within an escape
    return next((value for value in map(load, closed) if isinstance(value, str)), text)


_ESCAPE = "\\"


def as_dict(value: Json) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType] - `cast` is a call


def as_list(value: Json) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType] - `cast` is a call


_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""Strings and brackets. An unterminated string matches to the end of the text, so no input makes the search restart."""

_CLOSED_STRING = re.compile(r'.(?<!\\)(?:\\\\)*"\Z', re.DOTALL)
"""A string with its closing quote."""

_LOOKS_JSON = re.compile(r'\s*+(?:\[\s*+(?:[\[{"\]\d-]|true|false|null)|\{\s*["}])')
_LOOKS_REPR = re.compile(r"\s*+[\[{(]\s*+(?:[\[{(]\s*+)*+(?:'|\"|\w+\(|<)")


def _measure_nesting(text: str) -> int:
    depth = deepest = 0
    for token in _TOKENS.finditer(text):
        character = token.group()
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _parse_leniently(text: str) -> Document | None:
    """Parse what orjson rejects: NaN and lone surrogates from Python's own json, Python reprs, and cut documents."""
    if _LOOKS_JSON.match(text):
        try:
            return Document(_bound(json.loads(text, strict=False, parse_constant=lambda _name: None)))
        except (ValueError, RecursionError):
            pass
    if _LOOKS_REPR.match(text):
        value = parse_repr(text)
        if isinstance(value, (list, dict)):
            return Document(value)
    return _parse_cut(text) if _LOOKS_JSON.match(text) else None


def _parse_cut(text: str) -> Document | None:
    """Parse a document that was cut: up to its last complete array or object, with the open brackets closed."""
    open_: list[str] = []
    end, closing, tail = 0, "", ""
    for token in _TOKENS.finditer(text):
        character = token.group()
        if character[0] == '"':
            tail = character if token.end() == len(text) and not _CLOSED_STRING.search(character) else ""
        elif character in "[{":
            open_.append("]" if character == "[" else "}")
            if end == 0:
                end, closing = token.end(), open_[0]
        elif character in "]}":
            if not open_ or open_.pop() != character:
                return None
            end, closing = token.end(), "".join(reversed(open_))
    if not open_:
        return None  # nothing is missing: it is not JSON at all
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


def parse_repr(text: str) -> Json:
    """Parse a Python repr, without evaluating it; None if the text is not one.

    Objects become dicts of their keyword arguments, enum members their values, `<object at 0x…>` None.
    """
    if len(text) > MAX_REPR:
        return None
    try:
        return _evaluate(ast.parse(_without_objects(text).strip(), mode="eval").body, MAX_NESTING)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _without_objects(source: str) -> str:
    """A repr with the values of enum members, and None for other objects."""
    if "<" not in source and " items]" not in source:
        return source
    for _ in range(3):  # an angle may hold another: `<function <lambda> at 0x…>`
        source = _STRING_OR_ANGLE.sub(lambda match: match["string"] or match["member"] or "None", source)
    return source


_PRINTED_TOKEN = re.compile(rf"{_SINGLE}|{_DOUBLE}|[\[\](){{}}]|(?:(?<= )|\A)[a-z_]++=", re.DOTALL)


def parse_printed_fields(text: str) -> dict[str, Json]:
    """Parse the fields of an object as pydantic prints it: `role='user' parts=[…]`.

    A text that does not begin with a field has none.
    """
    if len(text) > MAX_REPR:
        return {}
    depth, names = 0, list[re.Match[str]]()
    for token in _PRINTED_TOKEN.finditer(text):
        character = token.group()
        if character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        elif depth == 0 and character[-1] == "=":
            names.append(token)
    if not names or names[0].start() > 0:
        return {}
    ends = [match.start() for match in names[1:]] + [len(text)]
    return {
        match.group()[:-1]: parse_repr(text[match.end() : end].strip()) for match, end in zip(names, ends, strict=True)
    }


def _evaluate(node: ast.expr, depth: int) -> Json:
    if depth <= 0:
        return None
    if type(node) is ast.Constant:  # by far the most frequent
        return _bound(node.value)
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_evaluate(item, depth - 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {_evaluate_key(key): _evaluate(value, depth - 1) for key, value in pairs if key is not None}
        case ast.Call(keywords=keywords):
            return {keyword.arg: _evaluate(keyword.value, depth - 1) for keyword in keywords if keyword.arg}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return _bound(-number)
        case _:
            return None


def _evaluate_key(node: ast.expr) -> str:
    if type(node) is ast.Constant and type(node.value) is str and node.value.isascii():
        return node.value
    return as_text(_evaluate(node, 2))


def _bound(value: object, depth: int = MAX_NESTING) -> Json:
    """Bound a value so that it can be encoded: no NaN, no lone surrogates, no unbounded numbers or nesting."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)[:100]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth <= 0:
        return None
    if isinstance(value, list):
        return [_bound(each, depth - 1) for each in cast("list[object]", value)]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, object]", value).items()
        return {as_text(_bound(key)): _bound(each, depth - 1) for key, each in pairs}
    return value.hex() if isinstance(value, bytes) else None
