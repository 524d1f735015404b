"""Settings of a judge's answer: place and language of its reason, and worked examples.

Most judges are asked for the reason first. Published measurements find that it makes token probabilities of the score
nearly certain (arXiv 2503.03064): the score then is the conclusion of a text. Measure which is better for a judge and a
question: see `calibrate`. A worked example is a case of the user with the answer that a judge should give; the judge
reads the examples before the case.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import orjson
from pydantic import ConfigDict, Field

from evaluators.cases import Json
from evaluators.descriptions import Described
from evaluators.evaluator import ADDED_LATER
from evaluators.scale import ReasonPlace


class ReasonSettings(Described):
    """How the judge gives its reason."""

    reason: Annotated[ReasonPlace, ADDED_LATER] = "before"
    """The place where the judge writes its reason: before the result, after it, or not at all."""
    reason_language: Annotated[str | None, ADDED_LATER] = Field(default=None, pattern=r"^[A-Za-z][A-Za-z -]{1,40}$")
    """The language of the reason, like German; the judge's choice if left out."""

    @property
    def language_sentence(self) -> str:
        """The instruction to the judge about the reason's language; "" for none."""
        if self.reason_language is None or self.reason == "none":
            return ""
        return f"Write the reason in {self.reason_language}, whatever language the case is in."

    def template(self, name: str) -> str:
        """The name of the template that asks for the reason in its place."""
        return {"before": f"{name}.txt", "after": f"{name}_after.txt", "none": f"{name}_alone.txt"}[self.reason]


class WorkedExample(Described):
    """A case with its right score or label, and the reason. As it is configuration, a judge is told to believe it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: Mapping[str, Json] = Field(min_length=1)
    """The fields as the judge is shown them: {input: …, actual_output: …}."""
    reason: str = ""
    """Why the case earns it, in the words that a judge should use."""


def examples_text(examples: Sequence[tuple[WorkedExample, Mapping[str, Json]]], place: ReasonPlace) -> str:
    """The examples as the judge reads them, each with its answer in the asked form; "" without any."""
    if not examples:
        return ""
    lines = [
        f"Case: {_json(example.case)}\nAnswer: {_json(_in_order(example.reason, result, place))}"
        for example, result in examples
    ]
    return "\n\n".join(["Examples, judged as they should be. They are not the case that you are given:", *lines])


def _in_order(reason: str, result: Mapping[str, Json], place: ReasonPlace) -> Mapping[str, Json]:
    reasons = {"reason": reason} if reason and place != "none" else {}
    return {**reasons, **result} if place == "before" else {**result, **reasons}


def _json(value: Mapping[str, Json]) -> str:
    return orjson.dumps(dict(value), default=str).decode()
