"""An answer and its reference, or the parts of them that an evaluator is about."""

from typing import Annotated, Literal, cast

import orjson
from pydantic import AfterValidator, ConfigDict, Field

from evaluators.asking.judge_input import ProgramField
from evaluators.cases import Json, Turn
from evaluators.descriptions import Described
from evaluators.evaluator import ADDED_LATER
from evaluators.prompts import check_placeholders
from evaluators.texts.paths import Path, find, parse_json_or_text, pick

Target = str | tuple[str, ...]

TargetKey = Annotated[
    Path | tuple[Path, ...],
    Field(description="The part of the outputs it is about: a path such as answer.lines[0], several, or * for all."),
]
"""A field of an evaluator that compares parts of outputs."""


class OutputCriteria(Described):
    """The reference for a turn that brings none itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expected_output: str | dict[str, Json]
    """The reference: a text, or an object."""


def _with_both_placeholders(prompt: str | None) -> str | None:
    names = ("ActualOutput", "ExpectedOutput")
    check_placeholders(prompt, required=names, known=names)
    return prompt


ComparisonPrompt = Annotated[str | None, AfterValidator(_with_both_placeholders)]
"""Instructions for a judge that names both texts that it compares."""


class SearchesText(Described):
    """The text of a turn that is searched."""

    searched: Annotated[Literal["actual_output"] | ProgramField, ADDED_LATER] = "actual_output"
    """The answer, or a named input or output of a structured program, like outputs.summary."""

    @property
    def requires(self) -> frozenset[str]:
        """The answer, or the field that is searched."""
        return frozenset({self.searched})


class ComparesOutputs(Described):
    """The parts of the answer and of its reference that are compared, and the reference of turns without one."""

    target_output_key: TargetKey = "*"
    default_evaluation_criteria: Annotated[OutputCriteria | None, ADDED_LATER] = None
    """The reference for turns without an own: {expected_output: …}."""

    @property
    def calculation(self) -> int:
        """1 for whole answers: they have always had the part that is compared."""
        return 1 if self.target_output_key == "*" else 2

    @property
    def requires(self) -> frozenset[str]:
        """The answer and, unless there is a default, a reference."""
        reference = () if self.default_evaluation_criteria else ("expected_output",)
        return frozenset({"actual_output", *reference})

    def reference(self, case: Turn) -> Json:
        """The part of the turn's reference, or of the configured one where it has none.

        Raises:
            NotApplicable: the reference has no such part.
        """
        if case.expected_output or self.default_evaluation_criteria is None:
            return expected_part(case.expected_output or "", self.target_output_key)
        configured = self.default_evaluation_criteria.expected_output
        text = configured if isinstance(configured, str) else orjson.dumps(configured).decode()
        return expected_part(text, self.target_output_key)

    def parts(self, case: Turn) -> tuple[Json, Json]:
        """The part of the answer and that of its reference, as JSON where both are texts that hold numbers, and each
        where it is an object or a list. The answer's is `ABSENT` where it has no such part.

        Raises:
            NotApplicable: the reference has no such part.
        """
        actual = parse_structured(actual_part(case, self.target_output_key))
        expected = parse_structured(self.reference(case))
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
