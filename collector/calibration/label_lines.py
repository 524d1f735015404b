"""Lines of label files: people's scores, and the other fields of a line."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from collector.errors import BadInput, ConfigError
from collector.records.numbered_lines import numbered_lines
from collector.records.ready_made import LABEL_KEYS, MONITORS_OF_COMMANDS, turns_in
from collector.records.turns import conversation_key
from collector.records.whole_conversation import conversation_fields
from collector.telemetry.plain import to_terminal
from collector.wording import plural
from evaluators.cases import Conversation, Turn
from evaluators.results import Evaluation
from evaluators.texts.exact_json import parse_exactly

SCORED_EXAMPLE = '{"human": 0.8, "score": 0.7}, with true or false for human, or an evaluation_id for score'

CASE_EXAMPLE = '{"input": "…", "actual_output": "…", "human": true}'

_BOOLEANS = {"agree": True, "good": True, "pass": True, "right": True, "bad": False, "fail": False, "wrong": False}


def _of_subject(name: str) -> Any:
    """The id of a line itself, or of the subject in a line of `score --output`."""
    return Field(default=None, validation_alias=AliasChoices(name, AliasPath("subject", name)))


def _as_boolean(value: object) -> object:
    return _BOOLEANS.get(value.lower(), value) if isinstance(value, str) else value


def _if_valid(value: object, read: ValidatorFunctionWrapHandler) -> object:
    """A verdict, where labels decide, or attributes; a value of another form is none, and refuses no line."""
    try:
        return read(_as_boolean(value))
    except ValidationError:
        return None


def _id_in_monitor(monitor: str | None, subject: str) -> str:
    """The id by which a line names a monitor's answer, if its `evaluation_id` is another version's."""
    return f"{monitor}\x1f{subject}"


def names_of(evaluation: Evaluation) -> tuple[str, str, str]:
    """The ids by which a line may name an evaluation: its own, its subject's, and its subject's in its monitor."""
    subject = evaluation.subject.id
    return evaluation.evaluation_id, subject, _id_in_monitor(evaluation.monitor, subject)


class LabelRow(BaseModel):
    """A line of a label file. `human` is a number on 0..1, true or false, or pass and fail.

    Without `score` the judge's is looked up by `evaluation_id`, or by `turn_id` and evaluator. `label_probability` is
    the one with which the evaluation was drawn to be labelled; without it, a person picked the evaluation. `weight` is
    how many subjects of the traffic the evaluation stands for; the log has it, too. Labels with one `conversation_id`
    may depend on each other; it is known where the evaluation is in the log. `given_by` is who labelled. A label of the
    page has `judge_tokens`, a line of `score --output` `usage` and `attributes`. `passed` is the judge's verdict on its
    `score`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    human: Annotated[StrictBool | Annotated[float, Field(ge=0, le=1)], BeforeValidator(_as_boolean)]
    score: Annotated[float, Field(ge=0, le=1)] | None = None
    passed: Annotated[bool | None, WrapValidator(_if_valid)] = None
    evaluation_id: str | None = None
    monitor: str | None = None
    turn_id: str | None = _of_subject("turn_id")
    segment: str = "all"
    label_probability: Annotated[float, Field(gt=0, le=1)] | None = None
    weight: Annotated[float, Field(gt=0)] = 1.0
    conversation_id: str | None = _of_subject("conversation_id")
    given_by: str | None = None
    judge_tokens: float | None = None
    input_tokens: float | None = Field(default=None, validation_alias=AliasPath("usage", "input_tokens"))
    calls: float | None = Field(default=None, validation_alias=AliasPath("usage", "calls"))
    attributes: Annotated[Mapping[str, Any] | None, WrapValidator(_if_valid)] = None

    @property
    def logged_id(self) -> str | None:
        """The id of the service's evaluation that the label is about; None if a command made the evaluation."""
        return None if self.monitor in MONITORS_OF_COMMANDS else self.evaluation_id

    @property
    def names(self) -> tuple[str, ...]:
        """The ids by which the log may know the labelled case, the most exact one first."""
        subject = self.turn_id or self.conversation_id
        return tuple(filter(None, (self.logged_id, subject and _id_in_monitor(self.monitor, subject), subject)))

    @property
    def who(self) -> object:
        """The person. Without `given_by`, equal verdicts on an evaluation are one person's: the line repeats."""
        return self.given_by or (self.evaluation_id, self.human)

    @property
    def tokens(self) -> float | None:
        """How many tokens the judge read in a call."""
        return self.input_tokens / self.calls if self.input_tokens and self.calls else self.judge_tokens

    def human_score(self, *, lower_is_better: bool) -> float:
        """The person's score in the sense of the evaluator's: good is 0 where lower is better."""
        return float(self.human != lower_is_better) if isinstance(self.human, bool) else self.human


@dataclass(frozen=True, slots=True)
class LabelLine:
    """A line of a label file: the label, and all its fields as they stand there."""

    number: int
    row: LabelRow
    fields: Mapping[str, Any]
    data: bytes

    @property
    def evaluator(self) -> str | None:
        """The evaluator that the label is about; None where the file does not say."""
        evaluator = self.fields.get("evaluator")
        return None if evaluator is None else str(evaluator)


_MEANINGS = {
    "line": "a line is one JSON object, without NaN",
    "human": "human is a number from 0 to 1, true or false, pass or fail",
    "score": "score is the judge's, a number from 0 to 1",
    "label_probability": "label_probability is above 0 and at most 1",
    "weight": "weight is a number above 0",
    **dict.fromkeys(("usage", "judge_tokens"), "tokens and calls are numbers"),
    "monitor": "monitor is text",
    **{name: f"{name} is text" for name in ("evaluation_id", "turn_id", "segment", "conversation_id", "given_by")},
}
"""The meaning of each key of a label, where a value is refused."""


def label_lines(path: Path, example: str, remedy: str = "; name another file") -> list[LabelLine]:
    """The labels of a file. Lines whose `human` is null were not labelled yet: stderr says how many are passed over.

    Raises:
        ConfigError: the file cannot be read (the sentence ends with `remedy`), a line is no label, or none is one.
    """
    numbered = numbered_lines(path, remedy=remedy)
    lines = list(_labelled(path, example, numbered))
    if not lines:
        raise ConfigError(f"{path}: no line is labelled: {_MEANINGS['human']}; fill it in, in lines like {example}")
    if unlabelled := len(numbered) - len(lines):
        to_terminal(f"{path}: left out {plural(unlabelled, 'line')} not labelled yet, whose human is null")
    return lines


def _labelled(path: Path, example: str, numbered: Iterable[tuple[int, bytes]]) -> Iterator[LabelLine]:
    if path.suffix == ".csv":
        raise ConfigError(f"{path}: labels are read from JSONL, not from CSV; write lines like {example}")
    for number, data in numbered:
        try:
            fields: Any = parse_exactly(data)
            if isinstance(fields, dict) and fields.get("human", fields) is None:  # pyright: ignore[reportUnknownMemberType]
                continue
            row = LabelRow.model_validate(fields)
        except ValueError as error:
            key = error.errors()[0]["loc"][:1] if isinstance(error, ValidationError) else ("line",)
            why = _MEANINGS.get(str(key[0]) if key else "line", _MEANINGS["human"])
            raise ConfigError(f"{path}: line {number}: not a label ({why}); write {example}") from None
        yield LabelLine(number, row, cast("Mapping[str, Any]", fields), data)


def are_of_log(path: Path, example: str, *keys: str) -> bool:
    """Whether the labels of a file name evaluations or turns, and have none of these keys, which a log has then. Raises
    ConfigError as `label_lines` does, except where none is labelled.
    """
    lines = _labelled(path, example, numbered_lines(path))
    return {bool(one.row.names) and one.fields.keys().isdisjoint(keys) for one in lines} == {True}


def case_of_line(line: LabelLine, path: Path) -> Turn | Conversation:
    """The turn or conversation that stands in a line of the file, beside the label.

    Raises:
        ConfigError: there is none.
    """
    fields, where = {name: line.fields[name] for name in line.fields if name not in LABEL_KEYS}, f"line {line.number}"
    if "turns" in fields and not fields.get("conversation_id"):
        fields = {**fields, "conversation_id": hashlib.sha256(line.data).hexdigest()[:32]}
    try:
        turns = tuple(turns_in(fields, where))
    except BadInput as error:
        raise ConfigError(f"{path}: {where}: {error}") from None
    if not any(turn.actual_output is not None for turn in turns):
        what = "has nothing to judge; write the case itself beside the label"
        raise ConfigError(f"{path}: {where}: {what}, like {CASE_EXAMPLE}")
    if {"turns", "messages"}.isdisjoint(fields):
        return turns[0]
    return Conversation(
        **conversation_fields(turns), conversation_id=conversation_key(turns[0]), turns=turns, closed_by="end_of_file"
    )
