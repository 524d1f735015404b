"""Labels with what they are about: lines of a file, or the labels of the page out of the log."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from collector.calibration.labels import LabelRow
from collector.calibration.page_labels import human_of
from collector.commands.align.subjects import LabelledSubject, material_of
from collector.commands.judges.labelled_cases import OWN_KEYS, case_in
from collector.config.configured import Config
from collector.errors import ConfigError
from collector.logs.log import Log
from collector.past.evaluations import evaluations_in
from collector.past.labels import newest_labels
from collector.past.turns import case_of, turns_in_log
from collector.records.attributes import with_declared
from collector.service.open_logs import Logs
from collector.statistics.score_scale import ScoreScale
from evaluators.cases import Conversation, Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import conversation_id_of
from evaluators.results import Evaluation
from evaluators.texts.exact_json import parse_exactly

_TEXTS = ("input", "actual_output", "turns", "messages")
_NOTES = ("note", "comment")
EXAMPLE = '{"input": "…", "actual_output": "…", "human": true}, or evaluation_id in place of the texts'


@dataclass(frozen=True, slots=True)
class LabelledCases:
    """The labels of an evaluator that can be used. `gone` are those whose subject is neither in the log nor with them.

    `others` are lines that are about other evaluators.
    """

    labels: tuple[LabelledSubject, ...]
    gone: int
    others: int = 0


@dataclass(frozen=True, slots=True)
class _Named:
    """A label before its subject is known, with the ids by which the log may know that, and the case beside it."""

    name: str
    ids: tuple[str, ...]
    human: float
    case: Turn | Conversation | None
    probability: float | None
    note: str


async def labelled_cases(
    config: Config, logs: Logs, evaluator: Evaluator[Any], path: Path | None, *, random: bool
) -> LabelledCases:
    """The labels of a file, or those of the page where there is none; `random` says that they are a random draw.

    Raises:
        ConfigError: the file cannot be read, or a line is no label.
    """
    lower = evaluator.direction == "lower_is_better"
    others = 0
    if path is None:
        named = [page_label async for page_label in _page_labels(logs.labels, evaluator.name, lower=lower)]
    else:
        lines = list(_lines(path))
        named = [_of_line(line, path, lower=lower) for line in lines if line.evaluator in (None, evaluator.name)]
        others = len(lines) - len(named)
    wanted = {evaluation_id for label in named for evaluation_id in label.ids}
    evaluations = await _evaluations(logs.evaluations, evaluator.name, wanted)
    turns = await turns_in_log(logs.turns, {each.subject.conversation_id for each in evaluations.values()})
    declared = config.settings.assemble.declared_attributes
    known = {
        conversation: {name: with_declared(turn, declared) for name, turn in members.items()}
        for conversation, members in turns.items()
    }
    labels: list[LabelledSubject] = []
    for each in named:
        evaluation = next((evaluations[name] for name in each.ids if name in evaluations), None)
        case = (case_of(evaluation, known) if evaluation is not None else None) or each.case
        if case is not None:
            labels.append(_subject(each, case, evaluation, evaluator, random=random))
    return LabelledCases(tuple(labels), len(named) - len(labels), others)


def _subject(
    label: _Named, case: Turn | Conversation, evaluation: Evaluation | None, evaluator: Evaluator[Any], *, random: bool
) -> LabelledSubject:
    probability = label.probability or (1.0 if random else None)
    judged = 1.0 if evaluation is None else evaluation.sampling.probability
    return LabelledSubject(
        name=label.name,
        case=case,
        conversation=conversation_id_of(case),
        material=material_of(case, evaluator),
        passes=not ScoreScale.of(evaluator).is_bad(label.human),
        weight=1.0 / (judged * (probability or 1.0)),
        at_random=probability is not None,
        notes=(label.note,) if label.note else (),
    )


async def _evaluations(log: Log, evaluator: str, wanted: set[str]) -> dict[str, Evaluation]:
    """The evaluations by this evaluator that labels name, by their ids and those of their subjects."""
    known: dict[str, Evaluation] = {}
    async for past in evaluations_in(log):
        evaluation = past.evaluation
        if evaluation.evaluator == evaluator:
            names = (evaluation.evaluation_id, evaluation.subject.turn_id or evaluation.subject.conversation_id)
            known |= {name: evaluation for name in names if name in wanted}
    return known


async def _page_labels(log: Log, evaluator: str, *, lower: bool) -> AsyncIterator[_Named]:
    """The newest label of each evaluation by each person, of whichever version: it says something of the subject."""
    for label in await newest_labels(log, evaluator):
        human = human_of(label, lower_is_better=lower)
        if human is not None:
            yield _Named(
                f"evaluation {label.evaluation_id}{f' by {label.given_by}' if label.given_by else ''}",
                (label.evaluation_id,),
                human,
                None,
                label.label_probability,
                label.note or "",
            )


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    row: LabelRow
    evaluator: str | None
    fields: dict[str, Any]
    data: bytes


def _lines(path: Path) -> Iterator[_Line]:
    """The labels of a file; lines whose `human` is null were not labelled yet, and are passed over."""
    try:
        lines: Sequence[bytes] = path.read_bytes().removeprefix(BOM_UTF8).splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name another file") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value: Any = parse_exactly(line)
            if isinstance(value, dict) and value.get("human", value) is None:  # pyright: ignore[reportUnknownMemberType]
                continue
            row = LabelRow.model_validate(value)
        except (orjson.JSONDecodeError, ValidationError):
            raise ConfigError(f"{path}: line {number}: not a label; write {EXAMPLE}") from None
        fields: dict[str, Any] = dict(value)  # pyright: ignore[reportUnknownArgumentType]
        evaluator = fields.get("evaluator")
        yield _Line(number, row, None if evaluator is None else str(evaluator), fields, line)


def _of_line(line: _Line, path: Path, *, lower: bool) -> _Named:
    texts = {name: field for name, field in line.fields.items() if name not in (*OWN_KEYS, "score", *_NOTES)}
    has_texts = any(name in texts for name in _TEXTS)
    ids = (line.row.evaluation_id, line.row.turn_id)
    note = next((each for name in _NOTES if isinstance(each := line.fields.get(name), str)), "")
    return _Named(
        f"line {line.number}",
        tuple(evaluation_id for evaluation_id in ids if evaluation_id),
        line.row.human_score(lower_is_better=lower),
        case_in(texts, line.data, f"{path}: line {line.number}") if has_texts else None,
        line.row.label_probability,
        note.strip(),
    )
