"""Labelled cases: turns or conversations in a file, each with what people say of it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from collector.calibration.labels import LabelRow
from collector.errors import BadInput, ConfigError
from collector.records.numbered_lines import numbered_lines
from collector.records.ready_made import turns_in
from collector.records.turns import conversation_key
from collector.records.whole_conversation import conversation_fields
from evaluators.cases import Conversation, Turn
from evaluators.texts.exact_json import parse_exactly

OWN_KEYS = ("human", "evaluator", "evaluation_id", "monitor", "label_probability", "segment")
"""The fields beside a case: the label, and its origin as `labels next` writes it."""
EXAMPLE = '{"input": "…", "actual_output": "…", "human": true}'


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """A case, and what people say of it: `human` is a number from 0 to 1, or a verdict.

    `evaluator` is the one that the label is about, None where the file does not say.
    """

    case: Turn | Conversation
    human: float | bool
    evaluator: str | None = None

    def score(self, *, lower_is_better: bool) -> float:
        """The label on the evaluator's scale: what is good is 0 where lower is better."""
        return float(self.human != lower_is_better) if isinstance(self.human, bool) else self.human


def read_labelled_cases(path: Path) -> list[LabelledCase]:
    """Read the file: a turn or conversation a line with `human` beside its fields, as `labels next` writes it.

    Lines whose `human` is null were not labelled yet, and are left out.

    Raises:
        ConfigError: it cannot be read, or a line is not right; says which and why, not what was in it.
    """
    read = (_case(line, number, path) for number, line in numbered_lines(path, remedy="; name another with --file"))
    cases = [case for case in read if case is not None]
    if not cases:
        raise ConfigError(f"{path}: has no labelled cases; write lines like {EXAMPLE}")
    return cases


def _case(line: bytes, number: int, path: Path) -> LabelledCase | None:
    where = f"{path}: line {number}"
    try:
        values: Any = parse_exactly(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{where}: is not JSON; write one object a line, like {EXAMPLE}") from error
    if not isinstance(values, dict) or "human" not in values:
        raise ConfigError(f"{where}: has no label; write `human` beside the case, like {EXAMPLE}")
    fields: dict[str, Any] = dict(values)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    own = {key: fields.pop(key, None) for key in OWN_KEYS}
    if own["human"] is None:
        return None
    try:
        label = LabelRow.model_validate({"human": own["human"]}).human
    except ValidationError as error:
        raise ConfigError(f"{where}: human is a number from 0 to 1, true or false, or pass or fail") from error
    case = case_in(fields, line, where)
    return LabelledCase(case, label, str(own["evaluator"]) if own["evaluator"] else None)


def case_in(fields: dict[str, Any], line: bytes, where: str) -> Turn | Conversation:
    """The turn or conversation in a line's fields. `where` is what errors call the line.

    Raises:
        ConfigError: there is none.
    """
    if "turns" in fields and not fields.get("conversation_id"):
        fields = {**fields, "conversation_id": hashlib.sha256(line).hexdigest()[:32]}
    try:
        turns = tuple(turns_in(fields, where.rpartition(": ")[2]))
    except BadInput as error:
        raise ConfigError(f"{where}: {error}") from None
    if not any(turn.actual_output is not None for turn in turns):
        raise ConfigError(f"{where}: has nothing to judge; write the case itself beside the label, like {EXAMPLE}")
    if {"turns", "messages"}.isdisjoint(fields):
        return turns[0]
    return Conversation(
        **conversation_fields(turns), conversation_id=conversation_key(turns[0]), turns=turns, closed_by="end_of_file"
    )
