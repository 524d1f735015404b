"""Labelled cases: turns or conversations in a file, each with what people say of it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.calibration.labels import LabelLine, LabelRow, label_lines
from collector.errors import BadInput, ConfigError
from collector.records.ready_made import turns_in
from collector.records.turns import conversation_key
from collector.records.whole_conversation import conversation_fields
from evaluators.cases import Conversation, Turn

OWN_KEYS = ("human", "evaluator", "evaluation_id", "monitor", "label_probability", "segment")
"""The fields beside a case: the label, and its origin as `labels next` writes it."""
EXAMPLE = '{"input": "…", "actual_output": "…", "human": true}'


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """A case, and what people say of it; `evaluator` is the one that the label is about, None for any."""

    case: Turn | Conversation
    label: LabelRow
    evaluator: str | None = None


def read_labelled_cases(path: Path) -> list[LabelledCase]:
    """Read the file: a turn or conversation a line with `human` beside its fields, as `labels next` writes it.

    Raises:
        ConfigError: it cannot be read, or a line is not right; says which and why, not what was in it.
    """
    cases = [_case(line, path) for line in label_lines(path, EXAMPLE, remedy="; name another with --file")]
    if not cases:
        raise ConfigError(f"{path}: has no labelled cases; write lines like {EXAMPLE}")
    return cases


def _case(line: LabelLine, path: Path) -> LabelledCase:
    fields = {name: value for name, value in line.fields.items() if name not in OWN_KEYS}
    return LabelledCase(case_in(fields, line.data, f"{path}: line {line.number}"), line.row, line.evaluator)


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
