"""An answer and its reference, or the parts of them that an evaluator is about."""

from typing import Annotated, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field

from evaluators.cases import Json, Turn
from evaluators.evaluator import ADDED_LATER
from evaluators.texts.paths import Path, find, parse_json_or_text, pick

Target = str | tuple[str, ...]

TargetKey = Annotated[
    Path | tuple[Path, ...],
    Field(description="The part of the outputs it is about: a path such as answer.lines[0], several, or * for all."),
]
"""A field of an evaluator that compares parts of outputs."""


class OutputCriteria(BaseModel):
    """The reference for a turn that brings none itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expected_output: str | dict[str, Json] = Field(description="The reference: a text, or an object.")


class ComparesOutputs(BaseModel):
    """The parts of the answer and of its reference that are compared, and the reference of turns without one."""

    target_output_key: TargetKey = "*"
    default_evaluation_criteria: Annotated[OutputCriteria | None, ADDED_LATER] = Field(
        default=None, description="The reference for turns without an own: {expected_output: …}."
    )

    @property
    def calculation(self) -> int:
        """1 for whole answers: they have always had the part that is compared."""
        return 1 if self.target_output_key == "*" else 2

    @property
    def requires(self) -> frozenset[str]:
        """The answer and, unless there is a default, a reference."""
        return frozenset(
            {"actual_output"} if self.default_evaluation_criteria else {"actual_output", "expected_output"}
        )

    def parts(self, case: Turn) -> tuple[Json, Json]:
        """The part of the answer and that of its reference, as JSON where both are texts that hold numbers, and each
        where it is an object or a list. The answer's is `ABSENT` where it has no such part.

        Raises:
            NotApplicable: the reference has no such part.
        """
        actual = parse_structured(actual_part(case, self.target_output_key))
        if case.expected_output is None and self.default_evaluation_criteria is not None:
            expected = default_expected(self.default_evaluation_criteria, self.target_output_key)
        else:
            expected = expected_part(case.expected_output or "", self.target_output_key)
        expected = parse_structured(expected)
        numbers = _number(actual), _number(expected)
        return (actual, expected) if None in numbers else numbers


def actual_part(case: Turn, target: Target) -> Json:
    """The part of the answer at a path, `ABSENT` where it has none or is no JSON; for `*` the text as it stands."""
    text = case.actual_output or ""
    return text if target == "*" else find(parse_json_or_text(text), target)


def expected_part(text: str, target: Target) -> Json:
    """The part of a reference at a path. A reference that is no JSON object is taken for that part itself.

    Raises:
        NotApplicable: the reference is an object without such a part.
    """
    value = parse_json_or_text(text)
    return text if target == "*" or not isinstance(value, dict) else pick(value, target, "expected_output")


def _number(value: Json) -> Json:
    """The number that a value is, or holds as a text; None if it does not."""
    read: Json = parse_json_or_text(value) if isinstance(value, str) else value
    return read if isinstance(read, int | float) and not isinstance(read, bool) else None


def parse_structured(value: Json) -> Json:
    """A text that holds a JSON object or list as that; anything else as it is."""
    if not isinstance(value, str):
        return value
    read = parse_json_or_text(value)
    return cast("Json", read) if isinstance(read, dict | list) else value


def default_expected(criteria: OutputCriteria, target: Target) -> Json:
    """The part of the configured reference that it is about."""
    value = criteria.expected_output
    return expected_part(value if isinstance(value, str) else orjson.dumps(value).decode(), target)
