"""The queue of evaluations for people: what each person labels next, without its score, and the progress of all.

Evaluations are drawn with known probabilities, without clock, state or log, each with probability

    p = random + (1 - random) * max(doubtful * doubt, audited if it has an audit),

by a hash of its id: a random share of all, and more of what is doubtful or audited. Nothing but the evaluation and the
settings decides, so the page, the command and a restart draw the same, before anybody has seen anything. In the
command, an answer that `rejudge` scores again keeps its first draw; the page leaves it out. A label carries p, and 1/p
makes a mean over labels one over all evaluations (Horvitz and Thompson 1952; p by doubt after Zrnic and Candès, 2024).
As p is at least `random`, no label weighs more than 1 / `random`.
"""

import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, islice
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from collector.evaluate.sampling.draw_key import PUBLIC, DrawKey
from collector.page.view import ListedEvaluation, View, evaluator_of, paid_in
from collector.past.evaluations import key_of
from collector.receive.rejection import Rejected
from collector.records.audits import audit_of
from collector.records.grouping import group_by
from collector.records.json import fields_of
from collector.records.labels import label_of
from collector.section import Section
from collector.statistics.intervals import share_interval
from evaluators.judges.cascade import doubt_of
from evaluators.results import Evaluation, Label
from evaluators.texts.draw import draw as hash_draw

NEAR = 0.2
"""A score that is farther than this from the threshold is not doubtful for being near it."""


class LabelQueueSettings(Section):
    """The queue of evaluations that people are asked to label, on the page and by `evalstream labels next`."""

    random: float = Field(default=0.05, ge=0.001, le=1)
    """Share of all scored evaluations that are drawn, doubtful or not."""
    doubtful: float = Field(default=0.25, ge=0, le=1)
    """Share of the most doubtful that are drawn as well, others in proportion. A score is doubtful if the judge is
    uncertain by its own probabilities, a jury is divided, or the threshold is near."""
    audited: float = Field(default=0.25, ge=0, le=1)
    """Share of the audited answers that are drawn as well: labels of them correct the mean by audits."""
    twice: float = Field(default=0.2, ge=0, le=1)
    """Share of the drawn answers that a second person labels, too."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How an evaluation was drawn: with which probability, and whether two people label it."""

    probability: float
    twice: bool


def draw(
    evaluation: Evaluation, threshold: float | None, settings: LabelQueueSettings, key: DrawKey = PUBLIC
) -> Draw | None:
    """The draw of an evaluation; None if it was not drawn, or has no score."""
    if evaluation.score is None:
        return None
    share = draw_probability(settings, label_doubt(evaluation, threshold), audited=audit_of(evaluation) is not None)
    secret = key.at(evaluation.started_at.timestamp())
    if uniform(evaluation.evaluation_id, "label", secret) >= share:
        return None
    return Draw(share, uniform(evaluation.evaluation_id, "twice", secret) < settings.twice)


def draw_probability(settings: LabelQueueSettings, doubt: float, *, audited: bool) -> float:
    """The probability with which the queue draws a score of this doubt."""
    return settings.random + (1.0 - settings.random) * max(settings.doubtful * doubt, settings.audited * audited)


def label_doubt(evaluation: Evaluation, threshold: float | None) -> float:
    """How doubtful a score is, from 0 to 1: by the judge's probabilities, a jury's range, how near the threshold is."""
    if evaluation.score is None:
        return 0.0
    near = 0.0 if threshold is None else 1.0 - abs(evaluation.score - threshold) / NEAR
    return max(0.0, doubt_of(evaluation.details) or 0.0, near)


def queue_position(evaluation_id: str, person: str) -> float:
    """The position of an evaluation in a person's queue, from 0 to 1: in an order independent of its score."""
    return uniform(evaluation_id, f"place/{person}")


def uniform(evaluation_id: str, purpose: str, key: str = "") -> float:
    """A number from 0 to below 1 that an id has for a purpose; with a key only its holder can compute it."""
    if key:
        return hash_draw(f"{purpose}/{evaluation_id}", salt=key)
    return hash_draw(f"{purpose}/{evaluation_id}", algorithm="sha256")


MOST_READ = 50_000
"""The newest evaluations among which the next one is looked for."""
_MIDDLE = 0.5
CANNOT_TELL = "cannot tell"

Person = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]


class QueueVerdict(Section):
    """A person's verdict on an answer before they see the judge's score."""

    by: Person
    verdict: Literal["good", "bad", "unsure", "undo"]
    note: Annotated[str, StringConstraints(strip_whitespace=True, max_length=4000)] = ""


@dataclass(frozen=True, slots=True)
class QueuedEvaluation:
    """An evaluation that was drawn, with who has labelled it."""

    listed: ListedEvaluation
    draw: Draw
    labels: Mapping[str | None, Label]


@dataclass(frozen=True, slots=True)
class LabelProgress:
    """How far people are: `total` answers were drawn, of those listed; the oldest is of `since` (s since the epoch).

    `agreement` is the agreement of two people about the same answer: (share, low, high), None without any.
    """

    total: int
    labelled: int
    mine: int
    left: int
    pairs: int
    since: float | None
    agreement: tuple[float, float, float] | None


class LabelQueue:
    """The drawn evaluations of a view."""

    def __init__(self, view: View, settings: LabelQueueSettings, key: DrawKey = PUBLIC) -> None:
        self._view = view
        self._settings = settings
        self._key = key

    def next(
        self, person: str, evaluator: str = "", monitor: str = ""
    ) -> tuple[QueuedEvaluation | None, LabelProgress]:
        """The next item for a person to label, and the progress of all."""
        queued = [
            evaluation
            for evaluation in self._queued()
            if evaluator in ("", evaluation.listed.evaluation.evaluator)
            and monitor in ("", evaluation.listed.evaluation.monitor)
        ]
        open_ = [evaluation for evaluation in queued if _is_open(evaluation, person)]
        first = min(open_, key=lambda each: queue_position(each.listed.evaluation.evaluation_id, person), default=None)
        answers = group_by(queued, lambda evaluation: key_of(evaluation.listed.evaluation)).values()
        return first, _progress(answers, person)

    def get(self, listed: ListedEvaluation) -> QueuedEvaluation:
        """A drawn evaluation.

        Raises:
            Rejected: 409, it was not drawn. A label of a hand-picked evaluation has no probability.
        """
        how = self._draw(listed)
        if how is None:
            raise Rejected(409, "this evaluation is not in the queue")
        return QueuedEvaluation(listed, how, self._view.queue_labels(listed.evaluation.evaluation_id))

    def get_others(self, queued: QueuedEvaluation, verdict: QueueVerdict) -> list[QueuedEvaluation]:
        """The drawn evaluations of the same answer for other monitors, which the verdict labels, too.

        A person reads an answer once. Each label has the probability of its own monitor's draw: no mean gets a bias.
        """
        return [
            other
            for other in self._queued(queued.listed.evaluation)
            if other.listed is not queued.listed
            and (verdict.by in other.labels or (verdict.verdict != "undo" and _is_open(other, verdict.by)))
        ]

    def _queued(self, answer: Evaluation | None = None) -> Iterator[QueuedEvaluation]:
        """The drawn evaluations, or those of an answer."""
        key = answer and key_of(answer)
        for listed in islice(reversed(self._view), MOST_READ):
            is_current = listed.superseded_by is None and key in (None, key_of(listed.evaluation))
            if is_current and (how := self._draw(listed)) is not None:
                yield QueuedEvaluation(listed, how, self._view.queue_labels(listed.evaluation.evaluation_id))

    def _draw(self, listed: ListedEvaluation) -> Draw | None:
        judged = listed.evaluation
        watched = evaluator_of(self._view, judged)
        if watched is None or judged.happened_at is not None:
            return None  # labels of these are not in the mean by people; `labels next` draws what `rejudge` scored
        is_of_other = watched.versions and judged.evaluator_version != watched.versions[0]
        return None if is_of_other else draw(judged, watched.threshold, self._settings, self._key)

    def label_of(self, queued: QueuedEvaluation, verdict: QueueVerdict, now: datetime) -> Label:
        """The label, with the probability of the draw."""
        judged = queued.listed.evaluation
        watched = evaluator_of(self._view, judged)
        lower = watched is not None and watched.lower_is_better
        score = float((verdict.verdict == "good") != lower) if verdict.verdict in ("good", "bad") else None
        return label_of(
            judged, uuid.uuid4().hex, now, paid_in(self._view, judged), score=score,
            note=verdict.note or (None if score is not None else CANNOT_TELL),
            label_probability=queued.draw.probability, given_by=verdict.by,
            state="retracted" if verdict.verdict == "undo" else None,
        )  # fmt: skip


def _is_open(queued: QueuedEvaluation, person: str) -> bool:
    """Whether a person may label it: it has no label, or one by another person where two are wanted."""
    return person not in queued.labels and len(queued.labels) < (2 if queued.draw.twice else 1)


def _progress(answers: Collection[list[QueuedEvaluation]], person: str) -> LabelProgress:
    """The progress by answers; an answer has an evaluation for each monitor that drew it."""
    people = [{who: label for judged in answer for who, label in judged.labels.items()} for answer in answers]
    verdicts = [[label.score >= _MIDDLE for label in each.values() if label.score is not None] for each in people]
    pairs = [one == other for verdict in verdicts for one, other in combinations(verdict, 2)]
    return LabelProgress(
        total=len(answers), labelled=sum(map(bool, people)), mine=sum(person in labels for labels in people),
        left=sum(any(_is_open(judged, person) for judged in answer) for answer in answers), pairs=len(pairs),
        since=min((judged.listed.evaluation.time.timestamp() for answer in answers for judged in answer), default=None),
        agreement=(share := fmean(pairs), *share_interval(share, len(pairs))) if pairs else None,
    )  # fmt: skip


def progress_json(progress: LabelProgress) -> dict[str, Any]:
    """How far people are, for the page."""
    share, low, high = progress.agreement or (None, None, None)
    return {
        "drawn": progress.total, **fields_of(progress, "labelled", "mine", "left", "pairs", "since"),
        "agreement": share, "low": low, "high": high,
    }  # fmt: skip
