"""Paths into a JSON value: `*` for all of it, `answer`, `order.lines[0].price`, or a list of such paths."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, cast

import orjson
from pydantic import AfterValidator

from evaluators.cases import Json
from evaluators.errors import NotApplicable
from evaluators.results import SkipReason

_LONG_NUMBER = re.compile(r"\d{19}")
_LONGEST_NUMBER = 300
"""Digits beyond which a number is compared as text: to read it takes time that grows with their square."""

_FENCE = re.compile(r"\A```\w*+")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def parse_path(path: str) -> tuple[str | int, ...]:
    """The keys and indexes that a path goes through; none for `*`.

    Raises:
        ValueError: it is no path.
    """
    if path == "*":
        return ()
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or (at == 0 and path[0] == "."):
            raise ValueError(f"{path!r} is no path; write a key, keys joined by dots, [n] for the n-th item, or *")
        steps.append(match.group(1) if match.group(1) is not None else int(match.group(2)))
        at = match.end()
    if not steps:
        raise ValueError("a path cannot be empty; write * for all")
    return tuple(steps)


def _is_path(path: str) -> str:
    parse_path(path)
    return path


Path = Annotated[str, AfterValidator(_is_path)]


def pick(value: Json, path: str | Sequence[str], where: str) -> Json:
    """The part of a value at a path; for several paths, an object of parts by path.

    Raises:
        NotApplicable: the value has no such part. `where` names the value in the reason.
    """
    if not isinstance(path, str):
        return {name: pick(value, name, where) for name in path}
    part = find(value, path)
    if part is ABSENT:
        raise NotApplicable(SkipReason.MISSING_FIELD.text(f"{where}.{path}"))
    return part


ABSENT: Json = object()
"""The placeholder for a part that is missing."""


def find(value: Json, path: str | Sequence[str]) -> Json:
    """The part of a value at a path, or `ABSENT`; for several paths, an object of the existing parts, `ABSENT` if there
    are none.
    """
    if not isinstance(path, str):
        return {name: part for name in path if (part := find(value, name)) is not ABSENT} or ABSENT
    for step in parse_path(path):
        value = _child(value, step)
        if value is ABSENT:
            break
    return value


def _child(value: Json, step: str | int) -> Json:
    if isinstance(step, str):
        return cast("Mapping[str, Json]", value).get(step, ABSENT) if isinstance(value, Mapping) else ABSENT
    if not isinstance(value, list):
        return ABSENT
    items = cast("list[Json]", value)
    return items[step] if step < len(items) else ABSENT


def parse_json_or_text(text: str) -> Json:
    """The JSON value that a text holds, or the text itself if it holds none. A code fence around it does not count."""
    value = parse_json(text)
    return text if value is ABSENT else value


def parse_json(text: str) -> Json:
    """The JSON value that a text holds; `ABSENT` if it holds none."""
    stripped = without_fence(text)
    try:
        value = orjson.loads(stripped)
    except orjson.JSONDecodeError:
        return ABSENT
    return _with_long_numbers(stripped, value) if _LONG_NUMBER.search(stripped) else value


def without_fence(text: str) -> str:
    """The text without white space and a code fence around it."""
    stripped = text.strip()
    return _FENCE.sub("", stripped, count=1).removesuffix("```").strip() if stripped.startswith("```") else stripped


def _with_long_numbers(text: str, value: Json) -> Json:
    """The value with whole numbers of more than 64 bits unrounded: orjson rounds them, so that ids look equal."""
    try:
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) <= _LONGEST_NUMBER else digits)
    except RecursionError:
        return value
