"""Labels from files: what people said of what the judge scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from collector.errors import ConfigError

_WORDS = {"agree": 1.0, "good": 1.0, "pass": 1.0, "right": 1.0, "bad": 0.0, "fail": 0.0, "wrong": 0.0}


def _mark(value: object) -> object:
    if isinstance(value, str) and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    return float(value) if isinstance(value, bool) else value


class LabelRow(BaseModel):
    """A line of a label file. `human` is a number on 0..1, true or false, or pass and fail.

    Without `score` the judge's is looked up by `evaluation_id`, or by `turn_id` and evaluator.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    human: Annotated[float, BeforeValidator(_mark), Field(ge=0, le=1)]
    score: Annotated[float, Field(ge=0, le=1)] | None = None
    evaluation_id: str | None = None
    turn_id: str | None = None
    segment: str = "all"


@dataclass(frozen=True, slots=True)
class Label:
    """A judge's score and a person's for the same thing, both on 0..1."""

    judge: float
    human: float
    segment: str


def read_labels(path: Path, scores: Mapping[str, float]) -> list[Label]:
    """The labels of a JSONL file whose judge's score is known. `scores` maps evaluation and turn ids to them.

    Raises:
        ConfigError: the file cannot be read, a line is no label, or no label has a score.
    """
    rows = list(_rows(path))
    labels = [Label(judge, row.human, row.segment) for row in rows if (judge := _score_of(row, scores)) is not None]
    if not labels:
        raise ConfigError(
            f"{path}: none of {len(rows)} labels has a judge's score; "
            "write score beside human, or an evaluation_id or turn_id that the ledger knows"
        )
    return labels


def _score_of(row: LabelRow, scores: Mapping[str, float]) -> float | None:
    if row.score is not None:
        return row.score
    return scores.get(row.evaluation_id or "", scores.get(row.turn_id or ""))


def _rows(path: Path) -> Iterator[LabelRow]:
    try:
        lines: Sequence[bytes] = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                value: Any = orjson.loads(line)
                yield LabelRow.model_validate(value)
            except (orjson.JSONDecodeError, ValidationError):
                wanted = '{"human": 0.8, "score": 0.7}, or true and false, or an evaluation_id instead of the score'
                raise ConfigError(f"{path}: line {number} is no label; write {wanted}") from None
