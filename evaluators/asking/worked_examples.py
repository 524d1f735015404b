"""Worked examples: cases of the user's own with the answer that a judge should give; it reads them before the case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson
from pydantic import BaseModel, ConfigDict, Field

from evaluators.cases import Json
from evaluators.scale import ReasonPlace


class WorkedExample(BaseModel):
    """A case with what it earns, and why. It is configuration: a judge is told to believe it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: Mapping[str, Json] = Field(
        min_length=1, description="The fields as the judge is shown them: {input: …, actual_output: …}."
    )
    reason: str = Field(default="", description="Why it earns that, in the words that a judge should use.")


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
