"""Cheaper evaluators of a monitor that could replace an expensive one, which would then audit a share of them.

What they say of the dear score is read off the subjects that both have scored. One in code costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.commands.plan.allocation import Allocation, cheapest, rounded
from collector.commands.plan.past_figures import PricedEvaluation, ScoredTwice, figures_of, with_second_phase
from collector.config.configured import Config
from collector.evaluate.planned_rates.day_figures import DayFigures

FEWEST_PAIRS = 100
"""Subjects that both have scored, below which nothing is said: of many evaluators one agrees by chance."""
LEAST_GAIN = 0.9
"""The highest cost of a proposal, as a share of the cost that it replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapScore:
    """An evaluator that an expensive one could audit instead; `day` are its figures with these audits."""

    evaluator: str
    day: DayFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperAudit:
    """That `evaluator` with audits by the dear one reaches the error for less."""

    evaluator: str
    correlation: float
    allocation: Allocation


def cheap_scores(
    name: str, past: Mapping[str, Sequence[PricedEvaluation]], config: Config, strata: Sequence[str]
) -> Iterator[CheapScore]:
    """The evaluators that could be audited by `name`, which asks a judge and has no audit, by their past."""
    dear, own = config.evaluators[name], figures_of(past[name], strata).day
    if dear.judge is None or dear.audit is not None:
        return
    usd = sum(own.usd) / sum(own.arrived)
    for other in sorted(past.keys() & config.evaluators.keys() - {name}):
        cheap = config.evaluators[other]
        fits = (cheap.evaluator.scope, cheap.evaluator.direction) == (dear.evaluator.scope, dear.evaluator.direction)
        if not fits or cheap.evaluator.label_names or cheap.audit is not None:
            continue
        pairs = list(_pairs(past[other], past[name]))
        if len(pairs) < FEWEST_PAIRS:
            continue
        day = figures_of(past[other], strata).day
        second = with_second_phase(day, pairs, usd) if sum(day.usd) / sum(day.arrived) < usd else None
        if second is not None:
            yield CheapScore(evaluator=other, day=second)


def _pairs(cheap: Sequence[PricedEvaluation], dear: Sequence[PricedEvaluation]) -> Iterator[ScoredTwice]:
    by_subject = {evaluation.subject: evaluation for evaluation in dear if evaluation.score is not None}
    for first in cheap:
        second = by_subject.get(first.subject)
        if second is not None and second.score is not None and first.score is not None:
            weight = max(first.weight.full, second.weight.full)
            yield ScoredTwice(first.score, second.score, weight, -1)


def cheaper_audit(
    candidates: Sequence[CheapScore], boosts: Sequence[float], error: float, present: Allocation | None
) -> CheaperAudit | None:
    """The candidate that reaches the error for least, if that is well below what is proposed otherwise."""
    made: list[CheaperAudit] = []
    for score in candidates:
        allocation = cheapest(score.day, boosts, error)
        if allocation is not None and score.day.second is not None:
            written = rounded(score.day, boosts, allocation)
            made.append(CheaperAudit(
                evaluator=score.evaluator, correlation=score.day.second.correlation, allocation=written
            ))  # fmt: skip
    best = min(made, key=lambda each: each.allocation.usd, default=None)
    if best is None or (present is not None and best.allocation.usd > LEAST_GAIN * present.usd):
        return None
    return best
