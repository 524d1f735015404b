"""Labels: people's scores beside the judge's, from files, and the one that an answer has by all of them."""

import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
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
from collector.past.evaluations import key_of
from collector.records.grouping import group_by
from collector.records.numbered_lines import numbered_lines
from collector.records.ready_made import LABEL_KEYS, MONITORS_OF_COMMANDS, turns_in
from collector.records.turns import conversation_key
from collector.records.whole_conversation import conversation_fields
from collector.statistics.agreement import FEWEST, MIDDLE, ScoreScale
from collector.statistics.bias import JudgedPair, labels_of
from collector.statistics.correction import LabelledScore, WeightedScore
from collector.telemetry.plain import to_terminal
from collector.wording import listed, plural
from evaluators.cases import Conversation, Json, Turn
from evaluators.identity import CASE_DIGEST
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
class HumanLabel:
    """A judge's score and a person's for the same thing, both on 0..1.

    `weight` is 1 / its sampling probability; `probability` is the probability of its draw for labelling, None if a
    person picked it. Picked labels show how judge and people agree there, and nothing about the mean.
    """

    judge: float
    human: float
    segment: str
    weight: float = 1.0
    probability: float | None = None
    at: float = 0.0
    """When it was given, in seconds since the epoch; like the monitor known of the page's labels alone."""
    monitor: str = ""
    conversation: str = ""
    attributes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    name: str = ""
    """The id by which the log knows the labelled case, if it does."""
    tokens: float | None = None
    """How many the judge read in a call."""
    is_of_past: bool = False
    """Whether a backfill made the score, which is in no mean of the present."""
    by: Mapping[object, tuple[float, float]] = field(default_factory=dict[object, tuple[float, float]])
    """When each person gave which score, if known; `human` is the mean of these scores. A file's is newer than all."""
    passed: bool | None = None
    """The judge's verdict, if it had one."""
    other_id: str = ""
    """The evaluation that it was given for, if that is another version's, or another evaluator's, of the answer."""
    of_answer: bool = False
    """Whether its line names the answer and no monitor that scores it."""

    def weighted(self) -> LabelledScore:
        """The two scores with what they stand for: 1 / the probability to be both judged and labelled."""
        stands_for, divided = self.weight / (self.probability or 1.0), len(self.by) > 1 and self.human == MIDDLE
        return LabelledScore(self.judge, self.human, stands_for, self.conversation, divided, self.passed)


def judged_pairs(labels: Sequence[HumanLabel]) -> list[JudgedPair]:
    """The scores of judge and people, with what may have biased the judge."""
    return [JudgedPair(*label.weighted()[:4], label.tokens, labels_of(label.attributes)) for label in labels]


def weighted_pairs(labels: Sequence[HumanLabel]) -> list[LabelledScore]:
    """The pairs by which agreement is measured."""
    return [label.weighted() for label in measured_labels(labels)]


def measured_labels(labels: Sequence[HumanLabel]) -> Sequence[HumanLabel]:
    """The labels by which a judge is measured: the drawn labels, if there are enough, else all labels.

    Labels that people picked represent nothing but themselves.
    """
    at_random = [label for label in labels if label.probability is not None]
    return at_random if len(at_random) >= FEWEST else labels


def undecided(labels: Iterable[HumanLabel], scale: ScoreScale) -> Iterator[str]:
    """A note on labels that count in no measure of verdicts, as the judge's score has none."""
    if number := sum(not scale.decides(label.passed) for label in labels):
        has = "the judge's label has no pass, or the line no true or false as passed"
        why = has if scale.by_label else "the evaluator has no threshold"
        yield f"Not used for measures of verdicts: {plural(number, 'answer')} whose score has no verdict; {why}."


def mean_label(by_people: Sequence[HumanLabel]) -> HumanLabel:
    """One label of the same thing by several people: the mean of each one's newest; picked labels are left out if some
    were drawn.
    """
    labels = [label for label in by_people if label.probability is not None] or by_people
    by = dict(sorted((one for label in labels for one in label.by.items()), key=lambda one: one[1][0]))  # newest last
    return replace(labels[0], human=fmean(human for _, human in by.values()), by=by)


def label_of_answer(labels: Sequence[HumanLabel], draws: int) -> HumanLabel:
    """The label of an answer that several monitors may judge, each with a chance of its own to have it labelled.

    Its probability is that of any of these `draws`. Monitors share a verdict, so they draw it with equal probabilities.
    """
    missed = {label.name: 1.0 - label.probability for label in labels if label.probability}
    label = mean_label(labels)
    if missed and draws > 1:
        none = math.prod(missed.values()) * min(missed.values()) ** (draws - len(missed))
        label = replace(label, probability=1.0 - none)
    return label


def read_labels(
    path: Path, scores: Mapping[str, WeightedScore], evaluator: str, *, lower_is_better: bool = False
) -> list[HumanLabel]:
    """The labels of a JSONL file whose judge's score is known. `scores` maps evaluation and turn ids to them. Lines
    that name another evaluator are about something else, whatever their turn is.

    Lines that name the same evaluation or turn are of several people; of one person (`who`) the last counts. Lines of
    `score --output` whose case has changed in between are about several answers.

    Raises:
        ConfigError: the file cannot be read, a line is not a label, no label has a judge's score, or the scores are of
            several versions of the evaluator.
    """
    lines = [line for line in label_lines(path, SCORED_EXAMPLE) if line.evaluator in (None, evaluator)]
    rows = [line.row for line in lines]
    versions = Counter(line.fields.get("evaluator_version") for line in lines if line.row.score is not None)
    del versions[None]
    if len(versions) > 1:
        scored = listed([f"{number:,} by version {version}" for version, number in versions.items()])
        raise ConfigError(f"{path}: its scores are {scored} of {evaluator}; keep the lines of one evaluator_version")
    people = dict[object, list[HumanLabel]]()
    for number, row in enumerate(rows):
        if (judged := _judge_score(row, scores)) is not None:
            name = next((name for name in row.names if name in scores), "")
            human = row.human_score(lower_is_better=lower_is_better)
            label = HumanLabel(
                judged.score, human, row.segment, judged.weight,
                row.label_probability, conversation=row.conversation_id or judged.conversation, name=name,
                tokens=row.tokens, other_id=row.logged_id or "" if name not in ("", row.logged_id) else "",
                passed=judged.passed, by={row.who: (math.inf, human)}, attributes=row.attributes or {},
                of_answer=name != "" and name == (row.turn_id or row.conversation_id),
            )  # fmt: skip
            answer = name or row.evaluation_id or row.turn_id or number, label.attributes.get(CASE_DIGEST), row.segment
            people.setdefault(answer, []).append(label)
    if not rows:
        remedy = f"write true, false or a number from 0 to 1 as human, and {evaluator} or nothing as evaluator"
        raise ConfigError(f"{path}: no line is a label of {evaluator}; {remedy}")
    if not people:
        raise ConfigError(
            f"{path}: no judge's score is known for its {plural(len(rows), 'label')}; write score beside human, or "
            "the evaluation_id or turn_id of an evaluation in the log by this version of the evaluator"
        )
    return [mean_label(labels) for labels in people.values()]


def _judge_score(row: LabelRow, scores: Mapping[str, WeightedScore]) -> WeightedScore | None:
    """The judge's score. One that is known by its subject alone was sampled by another version, too: the draws of both
    are nested, so that the less probable one counts.
    """
    logged = next((scores[name] for name in row.names if name in scores), None)
    if logged is not None and row.logged_id not in scores:
        logged = logged._replace(weight=max(logged.weight, row.weight))
    if row.score is None:
        return logged
    judged = logged or WeightedScore(0.0, row.weight)
    is_logged = row.passed is None and row.score == judged.score
    return judged._replace(score=row.score, passed=judged.passed if is_logged else row.passed)


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


def evaluations_by_id(past: Iterable[Evaluation]) -> dict[str, Evaluation]:
    """One evaluator's evaluations by their ids, and their subjects' ids in each monitor and in all; a subject's is of
    the monitor that judges most.
    """
    return {name: one for one in sorted(past, key=_probability) for name in names_of(one)}


def label_of_line(line: LabelLine, known: Mapping[str, Evaluation], *, lower_is_better: bool) -> HumanLabel:
    """The label of a line, without a judge's score; its `name` is empty if no `known` evaluation is named there.

    One that is known by its subject alone was sampled by another version, too: the draws of both are nested, so that
    the less probable one counts.
    """
    row, human = line.row, line.row.human_score(lower_is_better=lower_is_better)
    label = HumanLabel(0.0, human, "all", row.weight, row.label_probability, math.inf, by={row.who: (math.inf, human)})
    if (judged := next((known[name] for name in row.names if name in known), None)) is None:
        return label
    name, weight = judged.evaluation_id, 1.0 / _probability(judged)
    if row.logged_id in known:
        return replace(label, name=name, weight=weight)
    return replace(label, name=name, weight=max(weight, row.weight), other_id=row.logged_id or "")


def _probability(judged: Evaluation) -> float:
    return judged.sampling.probability


def by_subject(labels: Iterable[HumanLabel], past: Sequence[Evaluation]) -> dict[Hashable, HumanLabel]:
    """Each subject's label, by its `key_of`, as `calibrate` counts it: the newest of each monitor, a drawn one if there
    is one, with the probability that any monitor has of drawing it, and the weight of the one that judges most.
    """
    by_id = {evaluation.evaluation_id: evaluation for evaluation in past}
    evaluations = group_by((label for label in labels if label.name in by_id), lambda label: label.name)
    known = [(by_id[name], mean_label(by_people)) for name, by_people in evaluations.items()]
    known.sort(key=lambda item: (item[1].probability is not None, item[1].at))
    drawing = {(judged.evaluator, judged.monitor) for judged, label in known if label.probability is not None}
    used = sorted((each for each in past if (each.evaluator, each.monitor) in drawing), key=_probability)
    draws = Counter(subject for subject, _ in {(key_of(each), each.monitor) for each in used})
    most = {(key_of(each), each.evaluator_version): _probability(each) for each in used}
    newest = {(key_of(judged), judged.monitor): label for judged, label in known}
    result = dict[Hashable, HumanLabel]()
    for subject, answers in group_by(newest.items(), lambda item: item[0][0]).items():
        label = label_of_answer([label for _, label in answers], draws[subject])
        own = by_id[label.name]
        share = _probability(own) / most.get((subject, own.evaluator_version), _probability(own))
        result[subject] = replace(label, weight=label.weight * share)
    return result
