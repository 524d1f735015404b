"""Validation errors in plain words: where the first problem is and what is required there, without the value itself."""

from __future__ import annotations

from typing import get_args, get_origin, get_type_hints

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from collector.wording import requirement

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
    path = _path(location)
    if path:
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
