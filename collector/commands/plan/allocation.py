"""The rates, boosts and shares with which a standard error costs least. `DayFigures` gives their cost and error."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collector.evaluate.planned_rates.learned_figures import DayFigures, least_rate, rates_of
from collector.evaluate.sampling.strata import MAX_BOOST

_STEPS = (1.5, 1.15, 1.05)
"""The factors by which the search changes boosts, from coarse to fine."""
_SHARES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A rate of the first stratum, the share of second scores, and the resulting error and cost (USD) of a day."""

    rate: float
    share: float
    error: float
    usd: float


def allocate(day: DayFigures, rates: Sequence[float], share: float) -> Allocation:
    """The allocation with these rates of the strata, the first of which has no boost."""
    return Allocation(rate=rates[0], share=share, error=day.error(rates, share), usd=day.cost(rates, share))


def neyman_boosts(day: DayFigures, share: float = 1.0) -> tuple[float, ...]:
    """Neyman's allocation with costs: p_h ∝ √(variance in h / cost of h) (Cochran 1977, ch. 5.5), as boosts.

    Covariances between strata of a conversation are left out here. Boosts lie in [1, `MAX_BOOST`], 1 for the first.
    """
    rates: list[float] = []
    for each, _ in enumerate(day.subjects):
        variance, usd = day.products[each][each], day.usd[each]
        if day.second is not None:
            variance = day.second.spread * variance + (1.0 / share - 1.0) * day.second.residuals[each]
            usd += share * day.second.usd[each]
        rates.append(math.sqrt(max(0.0, variance) / usd) if usd > 0.0 else 0.0)
    first = rates[0]
    return (1.0, *(min(MAX_BOOST, max(1.0, rate / first)) if first > 0.0 else 1.0 for rate in rates[1:]))


def best_share(day: DayFigures, boosts: Sequence[float]) -> float:
    """The share to score again that is cheapest for its error: √(T · c / ((S - T) · c')), at most 1.

    c and c' are the costs of a first and a second score, S and T the variance of second scores and their unexplained
    part (Cochran 1977, ch. 12: n / n' = √((1 - ρ²) c / (ρ² c'))), all at rates in proportion to the boosts.
    """
    if day.second is None:
        return 1.0
    variance = day.second.spread * sum(
        product / max(one, other)
        for one, row in zip(boosts, day.products, strict=True)
        for other, product in zip(boosts, row, strict=True)
    )
    residual = sum(each / boost for each, boost in zip(day.second.residuals, boosts, strict=True))
    first = sum(each * boost for each, boost in zip(day.usd, boosts, strict=True))
    second = sum(each * boost for each, boost in zip(day.second.usd, boosts, strict=True))
    if variance <= residual or second <= 0.0:
        return 1.0
    return min(1.0, math.sqrt(residual * first / ((variance - residual) * second)))


def cheapest(day: DayFigures, boosts: Sequence[float], error: float) -> Allocation | None:
    """The rate and share that reach a standard error with these boosts at the least cost; None if none reach it."""
    if day.second is None:
        return _at_share(day, boosts, error, 1.0)
    best = _best(day, boosts, error, sorted({_rounded_up(max(0.001, best_share(day, boosts))), *_SHARES}))
    if best is None:
        return None
    nearby = {_rounded_up(min(1.0, best.share * each)) for each in (0.75, 0.85, 0.93, 1.0, 1.08, 1.18, 1.3)}
    return _best(day, boosts, error, sorted(nearby)) or best


def _best(day: DayFigures, boosts: Sequence[float], error: float, shares: Sequence[float]) -> Allocation | None:
    made = [one for share in shares if (one := _at_share(day, boosts, error, share)) is not None]
    return min(made, key=lambda each: each.usd, default=None)


def _at_share(day: DayFigures, boosts: Sequence[float], error: float, share: float) -> Allocation | None:
    rate = least_rate(day, boosts, error, share)
    return None if rate is None else allocate(day, rates_of(rate, boosts), share)


def cheapest_boosts(
    days: Sequence[DayFigures], error: float, start: Sequence[float], free: Sequence[int]
) -> tuple[float, ...]:
    """The boosts with which all evaluators of a monitor reach an error at the least cost together, to one decimal.

    They are searched from `start` and from each evaluator's own `neyman_boosts`, stratum by stratum; only strata in
    `free` are changed. Evaluators that cannot reach the error at all are left out: no boost would help them.
    """
    plain = tuple(1.0 for _ in start)
    usable = [day for day in days if cheapest(day, plain, error) is not None]
    if not usable or not free:
        return tuple(start)

    def usd(boosts: Sequence[float]) -> float:
        allocations = [cheapest(figures, boosts, error) for figures in usable]
        return sum(math.inf if allocation is None else allocation.usd for allocation in allocations)

    starts = [tuple(start), _changed(start, plain, free)]
    starts += [_changed(start, neyman_boosts(figures, best_share(figures, plain)), free) for figures in usable]
    best = min(starts, key=usd)
    for step in _STEPS:
        while usd(other := min(_neighbours(best, step, free), key=usd, default=best)) < usd(best) * (1.0 - 1e-4):
            best = other
    return tuple(round(each, 1) for each in best)


def _changed(start: Sequence[float], other: Sequence[float], free: Sequence[int]) -> tuple[float, ...]:
    return tuple(new if number in free else old for number, (old, new) in enumerate(zip(start, other, strict=True)))


def _neighbours(boosts: tuple[float, ...], step: float, free: Sequence[int]) -> Iterator[tuple[float, ...]]:
    for number in free:
        for factor in (step, 1.0 / step):
            changed = min(MAX_BOOST, max(1.0, boosts[number] * factor))
            if changed != boosts[number]:
                yield (*boosts[:number], changed, *boosts[number + 1 :])


def rounded(day: DayFigures, boosts: Sequence[float], allocation: Allocation) -> Allocation:
    """An allocation in words: its rate up to two digits, with the error and the cost of that."""
    return allocate(day, rates_of(_rounded_up(allocation.rate), boosts), allocation.share)


def _rounded_up(value: float) -> float:
    """Two significant digits, upwards, at most 1."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return min(1.0, float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}"))
