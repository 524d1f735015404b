"""Regular expressions of a configuration, searched in linear time: no text makes a search slow.

A pattern is written in Python's syntax and means what it means there. It is translated for an engine that never tries a
character twice: the Rust engine in pydantic. Constructs that such an engine does not support are refused, like
lookaround and backreferences.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

_parser: Any = import_module("re._parser")  # as Python reads patterns; the same module in 3.11 to 3.14
_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.ASCII: "a"}
_REFUSED = {
    **dict.fromkeys(("ASSERT", "ASSERT_NOT"), "looks ahead or behind"),
    **dict.fromkeys(("GROUPREF", "GROUPREF_EXISTS"), "refers back to a group"),
    **dict.fromkeys(("ATOMIC_GROUP", "POSSESSIVE_REPEAT"), "has an atomic group or a possessive repetition"),
}
_CATEGORIES = {"DIGIT": r"\p{Nd}", "WORD": r"\p{L}\p{N}_", "SPACE": r"\p{Z}\t-\r\x1c-\x1f\x85"}
_ASCII_CATEGORIES = {"DIGIT": "0-9", "WORD": "A-Za-z0-9_", "SPACE": r" \t-\r"}


def check_pattern(pattern: str) -> str:
    """The pattern, if it can be searched.

    Raises:
        ValueError: it is no regular expression, or has no linear time. The message says why, and the remedy.
    """
    _compile(pattern, ignore_case=False, whole=False)
    return pattern


def matches(pattern: str, text: str, *, ignore_case: bool = False, whole: bool = False) -> bool:
    """Whether a text, or with `whole` all of it, matches.

    Raises:
        ValueError: as for `check_pattern`.
    """
    text = text.encode("utf-8", "replace").decode()  # only Python's strings may hold lone surrogates
    return _compile(pattern, ignore_case=ignore_case, whole=whole)(text)


@lru_cache(maxsize=256)
def _compile(pattern: str, *, ignore_case: bool, whole: bool) -> Callable[[str], bool]:
    translated = translate(pattern, ignore_case=ignore_case)
    if whole:
        translated = rf"\A(?:{translated})\z"
    try:
        schema = core_schema.str_schema(pattern=translated, regex_engine="rust-regex", strict=True)
        return SchemaValidator(schema).isinstance_python
    except SchemaError:
        raise ValueError("is too large a regular expression; repeat less of it") from None


def translate(pattern: str, *, ignore_case: bool = False) -> str:
    r"""The pattern in the syntax that linear-time engines share, without `\d`, `\w`, `\s` and inherited flags.

    Raises:
        ValueError: as for `check_pattern`.
    """
    try:
        tree = _parser.parse(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    flags = frozenset(letter for flag, letter in _FLAGS.items() if tree.state.flags & flag)
    return _Translator({number: name for name, number in tree.state.groupdict.items()}).sequence(tree, flags)


class _Translator:
    def __init__(self, names: dict[int, str]) -> None:
        self._names = names

    def sequence(self, nodes: Iterable[tuple[Any, Any]], flags: frozenset[str]) -> str:
        return "".join(self._node(str(kind), value, flags) for kind, value in nodes)

    def _node(self, kind: str, value: Any, flags: frozenset[str]) -> str:
        match kind:
            case "LITERAL":
                return _in_case(_character(value), flags)
            case "NOT_LITERAL":
                return _in_case(f"[^{_character(value)}]", flags)
            case "ANY":
                return r"(?s:.)" if "s" in flags else r"[^\n]"
            case "IN":
                return _in_case(_set(value, flags), flags)
            case "AT":
                return _position(str(value), multiline="m" in flags)
            case "BRANCH":
                return "(?:" + "|".join(self.sequence(branch, flags) for branch in value[1]) + ")"
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(*value, lazy=kind == "MIN_REPEAT", flags=flags)
            case "SUBPATTERN":
                return self._group(*value, flags=flags)
            case _:
                reason = _REFUSED.get(kind, f"has {kind.lower()}")
                raise ValueError(f"{reason}, which cannot be searched in linear time; write the pattern without it")

    def _repeat(self, least: int, most: Any, node: Any, *, lazy: bool, flags: frozenset[str]) -> str:
        upper = "" if most is _parser.MAXREPEAT else int(most)
        return f"(?:{self.sequence(node, flags)}){{{int(least)},{upper}}}{'?' if lazy else ''}"

    def _group(self, number: int | None, added: int, removed: int, node: Any, *, flags: frozenset[str]) -> str:
        inner = (flags | _letters(added)) - _letters(removed)
        name = f"?P<{self._names[number]}>" if number in self._names else ""
        return f"({'?:' if number is None else name}{self.sequence(node, inner)})"


def _letters(flags: int) -> frozenset[str]:
    return frozenset(letter for flag, letter in _FLAGS.items() if flags & flag)


def _character(code: int) -> str:
    return rf"\x{{{code:x}}}"


def _in_case(text: str, flags: frozenset[str]) -> str:
    return f"(?i:{text})" if "i" in flags else text


def _set(items: Iterable[tuple[Any, Any]], flags: frozenset[str]) -> str:
    """A set of characters; a category's complement inside it is a set in the set."""
    parts: list[str] = []
    negated = False
    for kind, value in items:
        match str(kind):
            case "NEGATE":
                negated = True
            case "RANGE":
                parts.append(f"{_character(value[0])}-{_character(value[1])}")
            case "CATEGORY":
                parts.append(_category(str(value).removeprefix("CATEGORY_"), flags))
            case _:
                parts.append(_character(value))
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _category(name: str, flags: frozenset[str]) -> str:
    members = (_ASCII_CATEGORIES if "a" in flags else _CATEGORIES)[name.removeprefix("NOT_")]
    return f"[^{members}]" if name.startswith("NOT_") else members


def _position(name: str, *, multiline: bool) -> str:
    match name:
        case "AT_BEGINNING":
            return "(?m:^)" if multiline else r"\A"
        case "AT_END":
            return "(?m:$)" if multiline else r"(?:\n?\z)"
        case "AT_BEGINNING_STRING":
            return r"\A"
        case "AT_END_STRING":
            return r"\z"
        case "AT_BOUNDARY":
            return r"\b"
        case _:
            return r"\B"
