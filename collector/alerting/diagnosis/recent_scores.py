"""The newest scores of each evaluator, and what explains a fall of their mean that lasts. No clock, no I/O."""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from collector.alerting.diagnosis.explain_drop import ERROR_RATE, DropExplanation, WholeMove, explain_drop
from collector.alerting.diagnosis.slices import FEWEST_CONVERSATIONS, ScoredItem, Slice, members
from collector.page.sources import Cause
from collector.statistics.bias import labels_of
from collector.wording import minute_in_utc
from evaluators.results import Evaluation

_MOST, _OLDEST = 20_000, 26 * 3600.0
"""The most scores of an evaluator that are remembered, and how long (s)."""
_REFERENCE = 86400.0
"""The length (s) of the period before a fall whose scores are compared."""
_TO_READ = 3
_AT_ONCE = 600.0
"""A value's first score and the begin of a fall count as simultaneous within so many seconds, as neither is exact."""

Key = tuple[str, str, str]
"""Monitor, evaluator, evaluator version."""
_Timed = tuple[float, ScoredItem]
Period = tuple[float, float]
"""A begin and an end, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The causes of a fall; or a sentence that says what was tested."""

    causes: tuple[Cause, ...] = ()
    otherwise: str = "The parts of the traffic were not compared yet."
    moved: Slice = ()
    """The values that took over; the next explanation keeps them near the limits."""


def scored_item(evaluation: Evaluation, score: float, time: float, attributes: Collection[str]) -> ScoredItem:
    """A score of an evaluation at `time` (s), with those attributes of it."""
    known = {name: value for name, value in evaluation.attributes.items() if name in attributes}
    conversation, weight = evaluation.subject.conversation_id, 1.0 / evaluation.sampling.probability
    return ScoredItem(evaluation.evaluation_id, conversation, score, weight, labels_of(known), time)


class RecentScores:
    """The newest scores, with the attributes by which a configuration divides traffic."""

    def __init__(self, attributes: Collection[str]) -> None:
        self._attributes = frozenset(attributes)
        self._scores: dict[Key, deque[_Timed]] = {}

    def add(self, key: Key, evaluation: Evaluation, score: float, time: float) -> None:
        """Remember a score of an evaluation that the log received at `time` (s)."""
        scores = self._scores.setdefault(key, deque(maxlen=_MOST))
        scores.append((time, scored_item(evaluation, score, time, self._attributes)))
        while scores[0][0] < time - _OLDEST:
            scores.popleft()

    def snapshot(self, key: Key) -> list[_Timed]:
        """The scores of an evaluator, for `causes` in another thread."""
        scores = self._scores.get(key, ())  # a partition that moves is read again
        return list({scored.evaluation_id: (time, scored) for time, scored in scores}.values())


def scores_between(items: Iterable[ScoredItem], begin: float, end: float, over: Collection[Period]) -> list[ScoredItem]:
    """The scores from `begin` to before `end` (s), without those of incidents that are `over`.

    A part that an incident touched looks bad before a new fall, so that the other parts would seem to explain it.
    """
    near = [item for item in items if begin <= item.time < end]
    return [item for item in near if not any(first <= item.time < last for first, last in over)]


def explanation_of(
    scores: Collection[_Timed],
    since: float,
    *,
    lower_is_better: bool,
    evaluators: int,
    moved: Slice = (),
    incidents: Collection[Period] = (),
) -> Explanation:
    """The causes of a fall of scores at `since` (s), the first candidate before the others.

    `evaluators` share the error rate, the chance that a part is named although none fell more than the rest.
    `moved` is that of the explanation before; `incidents` are those of these scores.
    """
    before = scores_between((item for _, item in scores), since - _REFERENCE, since, incidents)
    after = [item for time, item in scores if time >= since]
    when = minute_in_utc(since)
    counts = [len({item.conversation for item in items}) for items in (before, after)]
    if min(counts) < FEWEST_CONVERSATIONS:
        return Explanation(
            otherwise=f"There are too few conversations ({counts[0]} before {when}, {counts[1]} since) to compare "
            f"parts of the traffic; {FEWEST_CONVERSATIONS} each are needed."
        )
    rate = ERROR_RATE / max(1, evaluators)
    explained = explain_drop(before, after, lower_is_better=lower_is_better, error_rate=rate, moved=moved)
    change = explained.change
    if change * (-1.0 if lower_is_better else 1.0) >= 0.0:
        return Explanation(otherwise=f"The mean was no better the day before {when}, so no part explains a fall.")
    move = explained.move
    first = () if move is None else (_moved(explained, move, after, since, lower_is_better),)
    named = tuple(
        Cause(
            part=drop.text,
            share=max(0.0, min(1.0, drop.explained / change)),
            traffic=drop.share,
            before=drop.mean_before,
            mean=drop.mean,
            read=worst_of(members(after, drop.slice, drop.without), lower_is_better=lower_is_better),
        )
        for drop in explained.drops
        if move is None or not set(drop.slice).issubset(move.values)
    )
    return Explanation((*first, *named), explained.none_named, () if move is None else move.values)


def _moved(
    explained: DropExplanation, move: WholeMove, after: Collection[ScoredItem], since: float, lower_is_better: bool
) -> Cause:
    return Cause(
        part=move.text,
        share=1.0,
        traffic=1.0,
        before=explained.before.mean,
        mean=explained.after.mean,
        read=worst_of(members(after, move.values[:1]), lower_is_better=lower_is_better),
        first_seen=move.first_seen,
        with_fall=abs(move.first_seen - since) <= _AT_ONCE,
    )


def worst_of(items: Collection[ScoredItem], *, lower_is_better: bool) -> tuple[str, ...]:
    """The worst evaluations, of different conversations; of equal ones the newest, which the page lists."""
    worst: dict[str, str] = {}
    for scored in sorted(items, key=lambda item: (-item.score if lower_is_better else item.score, -item.time)):
        if len(worst) < _TO_READ:
            worst.setdefault(scored.conversation, scored.evaluation_id)
    return tuple(worst.values())
