"""A day's figures out of past evaluations: variances within strata, clusters, costs, and what audits leave unexplained.

All are sums over what was judged, each term divided by the probability that it was seen with (Horvitz and Thompson
1952): two strata of one conversation are seen together with the lower of their probabilities, as draws are nested.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

from collector.evaluate.planned_rates.learned_figures import DayFigures, SecondPhase
from collector.records.audits import FEWEST_AUDITS, AuditScore
from collector.statistics.bounded_sums import VARIANCE_FLOOR, Weight
from collector.statistics.score_history import DAY

_SHORTEST = 60.0
"""The fewest seconds that the past is taken to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedEvaluation:
    """An evaluation as far as planning needs it: `score` is None if it has none, `usd` what it cost, audit included.

    `was_audited` says whether the present auditor was asked too, whether or not it gave a score (`audit`), and is None
    if another was; `is_shared`, whether another monitor paid for the verdict.
    """

    time: float
    conversation: str
    stratum: str
    weight: Weight
    score: float | None
    usd: float | None = None
    audit: AuditScore | None = None
    was_audited: bool | None = False
    version: str = ""
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class ScoredTwice:
    """A first and a second score of a subject, what they stand for (1 / the probability of both), and the stratum."""

    first: float
    second: float
    weight: float
    stratum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFigures:
    """An average day of the past `days`, in which `conversations` were seen in each stratum."""

    day: DayFigures
    mean: float
    scores: int
    days: float
    conversations: tuple[int, ...]
    audit_usd: float | None
    pairs: tuple[ScoredTwice, ...]


@dataclass(slots=True)
class _Cell:
    """Sums over a conversation's subjects in a stratum that were judged alike: with probability 1 / `own`."""

    stratum: int
    own: float
    residual: float = 0.0
    number: float = 0.0


def figures_of(past: Sequence[PricedEvaluation], strata: Sequence[str]) -> PastFigures:
    """The figures of evaluations; at least one of them has a score. The first stratum holds everything that is in no
    other.
    """
    scored = [evaluation for evaluation in past if evaluation.score is not None]
    times = [evaluation.time for evaluation in past]
    days = max(_SHORTEST, max(times) - min(times)) / DAY
    total = sum(evaluation.weight.full for evaluation in scored)
    mean = sum(evaluation.weight.full * (evaluation.score or 0.0) for evaluation in scored) / total
    subjects, arrived, squares, usd = ([0.0] * len(strata) for _ in range(4))
    by_stratum: list[list[PricedEvaluation]] = [[] for _ in strata]
    cells: dict[tuple[str, int], dict[tuple[int, float], _Cell]] = {}
    pairs: list[ScoredTwice] = []
    for evaluation in past:
        stratum = strata.index(evaluation.stratum) if evaluation.stratum in strata else 0
        own = evaluation.weight.own
        if evaluation.score is None:
            usd[stratum] += own * (evaluation.usd or 0.0)
            continue
        by_stratum[stratum].append(evaluation)
        before = evaluation.weight.full / own  # what other draws than the planned one left out
        subjects[stratum] += evaluation.weight.full
        arrived[stratum] += own
        squares[stratum] += own * before**2
        of = cells.setdefault((evaluation.conversation, int(evaluation.time // DAY)), {})
        cell = of.setdefault((stratum, own), _Cell(stratum, own))
        cell.residual += before * (evaluation.score - mean)
        cell.number += before
        if evaluation.audit is not None:
            weight = evaluation.weight.full / evaluation.audit.probability
            pairs.append(ScoredTwice(evaluation.score, evaluation.audit.score, weight, stratum))
    prices = [_first_usd(in_stratum, scored) for in_stratum in by_stratum]
    day = DayFigures(
        subjects=tuple(subject / days for subject in subjects),
        arrived=tuple(count / days for count in arrived),
        usd=tuple((cost + count * price) / days for cost, count, price in zip(usd, arrived, prices, strict=True)),
        squares=tuple(square / days for square in squares),
        products=_products(cells.values(), len(strata), days),
    )
    return PastFigures(
        day=day, mean=mean, scores=len(scored), days=days,
        conversations=tuple(
            sum(any(cell.stratum == number for cell in of.values()) for of in cells.values())
            for number in range(len(strata))
        ),
        audit_usd=_audit_usd(scored), pairs=tuple(pairs),
    )  # fmt: skip


def _first_usd(in_stratum: Sequence[PricedEvaluation], scored: Sequence[PricedEvaluation]) -> float:
    """The mean cost of a stratum's scores without their audits: of those that have none, as an audit may cost so much
    more that a difference would be noise. If all of the stratum have one, it is the cost in the other strata.
    """
    alone, alone_anywhere = ([one for one in of if one.was_audited is False] for of in (in_stratum, scored))
    priced = alone or alone_anywhere or in_stratum
    weight = sum(one.weight.own for one in priced)
    return sum(one.weight.own * (one.usd or 0.0) for one in priced) / weight if weight else 0.0


def _audit_usd(scored: Iterable[PricedEvaluation]) -> float | None:
    """The cost of an audit: what audited evaluations cost more than others; None without both of them."""
    audited: dict[bool | None, list[float]] = {True: [], False: [], None: []}
    for evaluation in scored:
        audited[evaluation.was_audited].append(evaluation.usd or 0.0)
    return None if not audited[True] or not audited[False] else max(0.0, fmean(audited[True]) - fmean(audited[False]))


def _products(
    conversations: Iterable[Mapping[tuple[int, float], _Cell]], number: int, days: float
) -> tuple[tuple[float, ...], ...]:
    sums = [[0.0] * number for _ in range(number)]
    for cells in conversations:
        for one, other in product(cells.values(), repeat=2):
            squares = one.residual * other.residual + VARIANCE_FLOOR * one.number * other.number
            sums[one.stratum][other.stratum] += squares * max(one.own, other.own) / days
    return tuple(map(tuple, sums))


def with_second_phase(day: DayFigures, pairs: Sequence[ScoredTwice], usd: float) -> DayFigures | None:
    """The day if a second judge scores a share again, for `usd` each; None with too few pairs of scores.

    Second scores are taken to be as alike within conversations as first ones: pairs are too few to tell. What is left
    unexplained is that of all pairs; with `FEWEST_AUDITS` pairs, a stratum's own.
    """
    if len(pairs) < FEWEST_AUDITS:
        return None
    total = sum(pair.weight for pair in pairs)
    first = sum(pair.weight * pair.first for pair in pairs) / total
    second = sum(pair.weight * pair.second for pair in pairs) / total
    xx = sum(pair.weight * (pair.first - first) ** 2 for pair in pairs) / total + VARIANCE_FLOOR
    yy = sum(pair.weight * (pair.second - second) ** 2 for pair in pairs) / total + VARIANCE_FLOOR
    xy = sum(pair.weight * (pair.first - first) * (pair.second - second) for pair in pairs) / total
    slope = xy / xx
    whole = _unexplained(pairs, first, second, slope)
    residuals: list[float] = []
    for number, squares in enumerate(day.squares):
        own = [pair for pair in pairs if pair.stratum == number]
        residuals.append(squares * (_unexplained(own, first, second, slope) if len(own) >= FEWEST_AUDITS else whole))
    again = SecondPhase(
        spread=yy / xx, residuals=tuple(residuals), usd=tuple(usd * each for each in day.arrived),
        correlation=max(-1.0, min(1.0, xy / math.sqrt(xx * yy))), pairs=len(pairs),
    )  # fmt: skip
    return replace(day, second=again)


def _unexplained(pairs: Sequence[ScoredTwice], first: float, second: float, slope: float) -> float:
    """The mean square of the distance between second scores and the line; two degrees of freedom are the line's."""
    squares = sum(pair.weight * (pair.second - second - slope * (pair.first - first)) ** 2 for pair in pairs)
    return squares / sum(pair.weight for pair in pairs) * len(pairs) / (len(pairs) - 2)
