"""An answer and its reference, or the parts of them that an evaluator is about."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import Field

from evaluators.cases import Json, Turn
from evaluators.paths import Path, parse_json_or_text, pick

Target = str | tuple[str, ...]

TargetKey = Annotated[
    Path | tuple[Path, ...],
    Field(description="The part of the outputs it is about: a path such as answer.lines[0], several, or * for all."),
]
"""A field of an evaluator that compares parts of outputs."""


def actual_part(case: Turn, target: Target) -> Json:
    """The part of the answer at a path; for `*` the text as it stands.

    Raises:
        NotApplicable: the answer is no JSON, or has no such part.
    """
    text = case.actual_output or ""
    return text if target == "*" else pick(parse_json_or_text(text), target, "actual_output")


def expected_part(text: str, target: Target) -> Json:
    """The part of a reference at a path. A reference that is no JSON object is taken for that part itself.

    Raises:
        NotApplicable: the reference is an object without such a part.
    """
    value = parse_json_or_text(text)
    return text if target == "*" or not isinstance(value, dict) else pick(value, target, "expected_output")


def both_parts(case: Turn, target: Target) -> tuple[Json, Json]:
    """The part of the answer at a path and that of its reference, each as JSON where it is an object or a list.

    Raises:
        NotApplicable: one of them has no such part.
    """
    actual = actual_part(case, target)
    return parse_structured(actual), parse_structured(expected_part(case.expected_output or "", target))


def parse_structured(value: Json) -> Json:
    """A text that holds a JSON object or list as that; anything else as it is."""
    if not isinstance(value, str):
        return value
    read = parse_json_or_text(value)
    return cast("Json", read) if isinstance(read, dict | list) else value
