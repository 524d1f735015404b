"""Past evaluations, from the evaluations log or a file."""

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from collector.durations import seconds
from collector.logs.log import Log, StoredRecord
from collector.records.epochs import valid_evaluations
from collector.records.json import evaluation_from_json, readable
from collector.statistics.agreement import ScoreScale
from evaluators.cases import Scope
from evaluators.results import NEVER_TRIED, Evaluation, Subject, Usage

Converted = TypeVar("Converted")

REPLAY_OF = "replay_of"
"""The attribute with the id of the evaluation that this one repeats."""


@dataclass(frozen=True, slots=True)
class PastEvaluation:
    """A past evaluation and its partition of the log (None if it is from a file)."""

    evaluation: Evaluation
    partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFilter:
    """The selected evaluations: those that belong to the time from `since` to before `until`; no names mean all."""

    since: datetime | None = None
    until: datetime | None = None
    monitors: Collection[str] = ()
    evaluators: Collection[str] = ()

    def matches(self, evaluation: Evaluation) -> bool:
        """Whether the filter selects the evaluation: no repetition by a comparison, but backfills by other versions."""
        return self.covers(evaluation) and not (REPLAY_OF in evaluation.attributes and evaluation.happened_at is None)

    def covers(self, evaluation: Evaluation) -> bool:
        """Whether the filter selects the evaluation, even if it is a repetition."""
        return (
            (not self.evaluators or evaluation.evaluator in self.evaluators)
            and (not self.monitors or evaluation.monitor in self.monitors)
            and (self.since is None or evaluation.time >= self.since)
            and (self.until is None or evaluation.time < self.until)
        )


@dataclass(frozen=True, slots=True)
class SelectedEvaluations:
    """One evaluation of each evaluator and subject in a period: those with a score, and those without. It is the newest
    one, of the monitor that draws most if several judge the subject.
    """

    scored: tuple[PastEvaluation, ...]
    unscored: tuple[PastEvaluation, ...]
    read: int
    """The number of all evaluations, within the period or not."""


def parse_moment(text: str, now: datetime) -> datetime:
    """A point in time: ISO 8601 (UTC by default), the form that alerts print, a time before now like 24h, or `now`.

    Raises:
        ValueError: the text has none of these forms.
    """
    if text == "now":
        return now
    try:
        ago = seconds(text)
    except ValueError:
        point = datetime.fromisoformat(text.removesuffix(" UTC").removesuffix(" +0000"))
        return point.replace(tzinfo=UTC) if point.tzinfo is None else point
    return now - timedelta(seconds=float(str(ago)))


def select(
    past: Iterable[PastEvaluation], selection: EvaluationFilter, scales: Mapping[str, ScoreScale]
) -> SelectedEvaluations:
    """The evaluations of a period, one of each evaluator and subject, without superseded ones; their verdicts are by
    the present `scales`, if their evaluator has one.
    """
    newest: dict[tuple[Hashable, ...], PastEvaluation] = {}
    read = 0
    superseded: set[str] = set()
    for candidate in past:
        read += 1
        evaluation = candidate.evaluation
        superseded.update(evaluation.supersedes)
        if selection.matches(evaluation):
            key = key_of(evaluation)
            rival = newest.get(key)
            if rival is None or _rank(rival.evaluation, evaluation) <= _rank(evaluation, rival.evaluation):
                newest[key] = candidate
    current = [candidate for candidate in newest.values() if candidate.evaluation.evaluation_id not in superseded]
    scored = tuple(
        replace(candidate, evaluation=scale.of_now(of)) if (scale := scales.get(of.evaluator)) else candidate
        for candidate in current
        if (of := candidate.evaluation).score is not None
    )
    unscored = tuple(candidate for candidate in current if candidate.evaluation.score is None)
    return SelectedEvaluations(scored, unscored, read)


def _rank(evaluation: Evaluation, rival: Evaluation) -> tuple[float, datetime]:
    is_of_other = evaluation.monitor != rival.monitor  # its draws are nested: the rarer ones are all among the others
    return (evaluation.sampling.probability if is_of_other else 0.0), evaluation.ended_at


def key_of(evaluation: Evaluation) -> tuple[Hashable, ...]:
    """The evaluator and its subject; see `subject_key`."""
    return subject_key(evaluation.evaluator, evaluation.scope, evaluation.subject)


def subject_key(evaluator: str, scope: Scope, subject: Subject) -> tuple[Hashable, ...]:
    """An evaluator and its subject. Parts of a conversation with different turns are different subjects."""
    return (evaluator, scope, subject.turn_id, subject.conversation_id, frozenset(subject.links))


async def evaluation_records(log: Log, partitions: Iterable[int] | None = None) -> AsyncIterator[StoredRecord]:
    """The records of the evaluations that count, of all partitions, or of these. Raises LogUnavailable."""
    for partition in range(log.partitions) if partitions is None else partitions:
        async for record in valid_evaluations(log, partition):
            yield record


async def evaluations_in(log: Log, partitions: Iterable[int] | None = None) -> AsyncIterator[PastEvaluation]:
    """Every evaluation of the evaluations log that counts, partition by partition. Raises LogUnavailable."""
    async for record in evaluation_records(log, partitions):
        if (evaluation := readable_evaluation(record)) is not None:
            yield PastEvaluation(evaluation, record.partition)


async def priced_evaluations_in(log: Log) -> AsyncIterator[PastEvaluation]:
    """The same, but one that shares a verdict has the usage and cost of the one that paid; unknown if that is gone."""
    bills = dict[str, tuple[Usage | None, float | None]]()
    async for past in evaluations_in(log):
        made = past.evaluation
        if made.shares is None:
            bills[made.evaluation_id] = made.usage, made.cost_usd
            yield past
        else:  # what paid is before it in the log
            usage, cost = bills.get(made.shares, (Usage(calls=1), None))
            yield replace(past, evaluation=replace(made, usage=usage, cost_usd=cost))


async def selected_in(log: Log, selection: EvaluationFilter) -> AsyncIterator[Evaluation]:
    """The evaluations of the log that match, each once, without those that replays made. Raises LogUnavailable."""
    seen: set[str] = set()
    async for past in evaluations_in(log):
        if selection.matches(past.evaluation) and past.evaluation.evaluation_id not in seen:
            seen.add(past.evaluation.evaluation_id)
            yield past.evaluation


async def of_versions(
    log: Log, selection: EvaluationFilter, versions: Mapping[tuple[str, str], str],
    convert: Callable[[Evaluation], Converted | None],
) -> Mapping[tuple[str, str], list[Converted]]:  # fmt: skip
    """The selected evaluations by monitor and evaluator, of the version that `versions` has of it, or else of all.

    `convert` is applied to each; results of None are left out.
    """
    past: dict[tuple[str, str], list[Converted]] = {}
    async for evaluation in selected_in(log, selection):
        key, version = (evaluation.monitor, evaluation.evaluator), evaluation.evaluator_version
        if versions.get(key, version) == version and (made := convert(evaluation)) is not None:
            past.setdefault(key, []).append(made)
    return past


def readable_evaluation(record: StoredRecord) -> Evaluation | None:
    """The evaluation in a record; None if this version cannot read it, which the exporters report."""
    return readable(evaluation_from_json, record.value)


def was_never_tried(evaluation: Evaluation) -> bool:
    """Whether it was skipped without being tried."""
    return evaluation.reason_code in NEVER_TRIED


def needs_retry(evaluation: Evaluation) -> bool:
    """Whether it failed, or is a retry that was not even tried."""
    return evaluation.outcome == "failed" or (evaluation.retry is not None and was_never_tried(evaluation))
