"""The labels that an alignment learns from and is tested by, each with its turn or conversation.

Labels are lines of a file, or the page's. Contradictions between them are found, and their subjects divided into those
that train and those that are held out.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collector.calibration.label_lines import case_of_line, label_lines
from collector.calibration.labels import HumanLabel, by_subject, evaluations_by_id, label_of_line
from collector.calibration.page_labels import human_of
from collector.commands.calibrate.calibrate import ledger_of, why_alone
from collector.config.configured import Config
from collector.logs.log import Log
from collector.past.evaluations import evaluations_in, key_of
from collector.past.turns import case_of, newest_labels, turns_in_log
from collector.records.grouping import group_by
from collector.service.open_logs import Logs
from collector.service.plan_builder import evaluator_version_in
from collector.statistics.agreement import ScoreScale
from evaluators.asking.judge_input import is_missing, to_json_value
from evaluators.cases import Conversation, Json, Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import conversation_id_of, subject_id_of
from evaluators.results import Evaluation
from evaluators.texts.draw import draw
from evaluators.texts.exact_json import as_text

TEXTS = ("input", "actual_output", "turns", "messages")
EXAMPLE = '{"input": "…", "actual_output": "…", "human": true}, or evaluation_id in place of the texts'


@dataclass(frozen=True, slots=True)
class LabelledCases:
    """The labels of an evaluator that can be used: of each person, the newest of an answer, as `calibrate` counts it.

    `gone` are those whose subject is not with them nor in the log.
    """

    labels: "tuple[LabelledSubject, ...]"
    gone: int


@dataclass(frozen=True, slots=True)
class _Named:
    """A label before its subject is known, and the case beside it. Its `score` has the person's alone."""

    name: str
    score: HumanLabel
    case: Turn | Conversation | None
    note: str


async def labelled_cases(
    config: Config, logs: Logs, evaluator: Evaluator[Any], path: Path | None, *, random: bool
) -> LabelledCases:
    """The labels of a file and the page's drawn labels of the same draw, or all of the page if no file is named, as for
    `calibrate`; `random` says that those of the file are a random draw.

    Raises:
        ConfigError: the file cannot be read, or a line is no label.
    """
    name, scale = evaluator.name, ScoreScale.of(evaluator)
    past = [one.evaluation async for one in evaluations_in(logs.evaluations) if one.evaluation.evaluator == name]
    known, lower = evaluations_by_id(past), scale.lower_is_better
    lines = [] if path is None else list(_file_labels(path, name, known, lower=lower))
    of_page = [label async for label in _page_labels(logs.labels, name, known, lower=lower)]
    page = [label for label in of_page if path is None or label.score.probability is not None]
    if path is not None:
        ledger = await ledger_of(config, (name, evaluator_version_in(config, name)), scale)
        page = [] if why_alone([one.score for one in lines], [one.score for one in page], ledger) else page
    named = sorted((*page, *lines), key=lambda label: (label.score.probability is not None, label.score.at))
    scores = [replace(one.score, probability=one.score.probability or (1.0 if random else None)) for one in named]
    answers = by_subject(scores, past)
    conversations = {known[label.score.name].subject.conversation_id for label in named if label.score.name}
    turns = await turns_in_log(logs.turns, conversations, config.settings.assemble.declared_attributes)
    labels, gone = dict[object, LabelledSubject](), 0
    for label, score in zip(named, scores, strict=True):
        judged = known.get(score.name)
        case = (case_of(judged, turns) if judged is not None else None) or label.case
        answer = answers[key_of(judged)] if judged is not None else score
        gone += case is None
        if case is not None and (person := next(iter(score.by))) in answer.by:
            labels[subject_id_of(case), person] = _subject(label, case, answer, evaluator)
    return LabelledCases(tuple(labels.values()), gone)


def _subject(
    label: _Named, case: Turn | Conversation, answer: HumanLabel, evaluator: Evaluator[Any]
) -> "LabelledSubject":
    return LabelledSubject(
        name=label.name, case=case, conversation=conversation_id_of(case), material=material_of(case, evaluator),
        passes=not ScoreScale.of(evaluator).is_bad(label.score.human), weight=answer.weighted().weight,
        at_random=answer.probability is not None, notes=(label.note,) if label.note else (),
    )  # fmt: skip


async def _page_labels(
    log: Log, evaluator: str, known: Mapping[str, Evaluation], *, lower: bool
) -> AsyncIterator[_Named]:
    """The newest label of each evaluation by each person, whatever the version: it says something of the subject."""
    for label in await newest_labels(log, evaluator):
        if (human := human_of(label, lower_is_better=lower)) is not None:
            judged, at = known.get(label.evaluation_id), label.given_at.timestamp()
            score = HumanLabel(
                0.0, human, "all", 1.0 / judged.sampling.probability if judged else 1.0, label.label_probability, at,
                name=judged.evaluation_id if judged else "", by={label.given_by: (at, human)},
            )  # fmt: skip
            by = f" by {label.given_by}" if label.given_by else ""
            yield _Named(f"evaluation {label.evaluation_id}{by}", score, None, label.note or "")


def _file_labels(path: Path, evaluator: str, known: Mapping[str, Evaluation], *, lower: bool) -> Iterator[_Named]:
    for line in label_lines(path, EXAMPLE):
        if line.evaluator in (None, evaluator):
            note = next((each for name in ("note", "comment") if isinstance(each := line.fields.get(name), str)), "")
            case = case_of_line(line, path) if any(name in line.fields for name in TEXTS) else None
            yield _Named(f"line {line.number}", label_of_line(line, known, lower_is_better=lower), case, note.strip())


FEWEST = 5
"""Conversations that people pass, and that they fail, which both parts must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSubject:
    """A turn or conversation with people's verdict on it.

    `name` is what a report calls the label: its line, or the evaluation's id. `material` is what the evaluator sees of
    the case. `weight` is what it stands for in the traffic, if it was drawn `at_random` rather than picked by somebody.
    """

    name: str
    case: Turn | Conversation
    conversation: str
    material: Mapping[str, Json]
    passes: bool
    weight: float = 1.0
    at_random: bool = False
    notes: tuple[str, ...] = ()

    @property
    def content(self) -> tuple[str, ...]:
        """The texts of what is shown, without capitals and white space; the subject's id where nothing is shown."""
        texts = tuple(" ".join(as_text(self.material[name]).casefold().split()) for name in sorted(self.material))
        return texts if any(texts) else subject_id_of(self.case)


def material_of(case: Turn | Conversation, evaluator: Evaluator[Any]) -> dict[str, Json]:
    """The fields of a case that an evaluator sees and that the case has; of a conversation, its messages."""
    if isinstance(case, Conversation):
        return {"turns": [_fields(turn, ("input", "actual_output")) for turn in case.turns]}
    return _fields(case, sorted(name for name in evaluator.requires if hasattr(case, name)))


def _fields(turn: Turn, names: Iterable[str]) -> dict[str, Json]:
    return {name: to_json_value(getattr(turn, name)) for name in names if not is_missing(turn, name)}


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Labels of one subject that disagree: some pass it, some fail it."""

    passing: tuple[str, ...]
    failing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Consistent:
    """Each subject once, by the verdict of most, and the contradictions."""

    subjects: tuple[LabelledSubject, ...]
    contradictions: tuple[Contradiction, ...]


def consistent(labels: Sequence[LabelledSubject]) -> Consistent:
    """The labels without those that a majority, or a tie, contradicts."""
    groups = group_by(labels, lambda subject: subject.content)
    contradictions = [one for group in groups.values() if (one := _contradiction(group)) is not None]
    subjects = [subject for group in groups.values() for subject in _by_most(group)]
    return Consistent(tuple(subjects), tuple(contradictions))


def _contradiction(group: Sequence[LabelledSubject]) -> Contradiction | None:
    passing, failing = (
        tuple(subject.name for subject in group if subject.passes is passes) for passes in (True, False)
    )
    return Contradiction(passing, failing) if passing and failing else None


def _by_most(group: Sequence[LabelledSubject]) -> Iterator[LabelledSubject]:
    """The labels of the majority, one for each subject; none if there is no majority."""
    balance = sum(1 if subject.passes else -1 for subject in group)
    if not balance:
        return
    subjects: dict[tuple[str, str], LabelledSubject] = {}
    for subject in group:
        if subject.passes is (balance > 0):
            subjects.setdefault(subject_id_of(subject.case), subject)
    yield from subjects.values()


@dataclass(frozen=True, slots=True)
class Parts:
    """The subjects that train and those that are held out. `at_random` says that the latter were drawn at random."""

    training: tuple[LabelledSubject, ...]
    holdout: tuple[LabelledSubject, ...]
    at_random: bool


def split(subjects: Sequence[LabelledSubject], share: float) -> Parts:
    """The two parts: a conversation is held out by a hash of its id, with those that have a text in common with it.

    Where enough of the held out were drawn at random, the others train: what somebody picked says nothing about the
    traffic. Else all count alike, and what is gained is gained among labels like these.
    """
    groups = _groups(subjects)
    is_holdout = {group: draw(f"align\x1f{group}", algorithm="sha256") < share for group in set(groups.values())}
    holdout = [subject for subject in subjects if is_holdout[groups[subject.conversation]]]
    random = [subject for subject in holdout if subject.at_random]
    if shortage(random) is None:
        tested = {groups[subject.conversation] for subject in random}
        training = [subject for subject in subjects if groups[subject.conversation] not in tested]
        return Parts(tuple(training), tuple(random), at_random=True)
    training = [subject for subject in subjects if not is_holdout[groups[subject.conversation]]]
    return Parts(tuple(training), tuple(holdout), at_random=False)


def _groups(subjects: Sequence[LabelledSubject]) -> dict[str, str]:
    """The group of each conversation, by the least id in it: those that share a text are together."""
    leaders: dict[str, str] = {}

    def leader(name: str) -> str:
        while (above := leaders.setdefault(name, name)) != name:
            leaders[name] = leaders.setdefault(above, above)
            name = above
        return name

    first: dict[tuple[str, ...], str] = {}
    for subject in subjects:
        one, other = leader(subject.conversation), leader(first.setdefault(subject.content, subject.conversation))
        leaders[max(one, other)] = min(one, other)
    return {subject.conversation: leader(subject.conversation) for subject in subjects}


def shortage(part: Sequence[LabelledSubject]) -> str | None:
    """The kind of case that a part has too few of; None if it has enough."""
    for passes, word in ((True, "pass"), (False, "fail")):
        count = len({subject.conversation for subject in part if subject.passes is passes})
        if count < FEWEST:
            return f"{count} that people {word}"
    return None
