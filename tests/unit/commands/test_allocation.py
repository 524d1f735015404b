"""The prediction of errors and costs of rates, and the rates that are cheapest: by hand, and by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple

import pytest

from collector.commands.plan.allocation import best_share, cheapest, cheapest_boosts, neyman_boosts, rounded
from collector.commands.plan.past_figures import PricedEvaluation, figures_of, with_second_phase
from collector.evaluate.planned_rates.learned_figures import DayFigures, SecondPhase, rates_of
from collector.records.audits import AuditScore
from collector.statistics.audited_sums import AuditedSums, totals_of
from collector.statistics.bounded_sums import Weight

TWO = DayFigures(
    subjects=(900.0, 100.0),
    arrived=(900.0, 100.0),
    usd=(9.0, 1.0),
    squares=(900.0, 100.0),
    products=((90.0, 5.0), (5.0, 25.0)),
)
APART = replace(TWO, products=((90.0, 0.0), (0.0, 25.0)))
ONE = DayFigures(subjects=(1000.0,), arrived=(1000.0,), usd=(1.0,), squares=(1000.0,), products=((100.0,),))
AUDITED = replace(ONE, second=SecondPhase(spread=1.0, residuals=(36.0,), usd=(10.0,), correlation=0.8, pairs=99))


def test_errors_and_costs_by_hand():
    # 90/0.1 + 25/0.4 + 2 · 5/0.4 = 900 + 62.5 + 25
    assert TWO.error((0.1, 0.4)) == pytest.approx(math.sqrt(987.5) / 1000)
    assert TWO.cost((0.1, 0.4)) == pytest.approx(0.1 * 9 + 0.4 * 1)
    # 200 judged and 100 scored twice: 100/0.2 + (1/0.5 - 1) · 36/0.2 = 680, times 100/98
    assert AUDITED.error((0.2,), 0.5) == pytest.approx(math.sqrt(680 * 100 / 98) / 1000)
    assert AUDITED.cost((0.2,), 0.5) == pytest.approx(0.2 * 1 + 0.1 * 10)
    assert math.isinf(AUDITED.error((0.2,), 0.1)), "20 audits give no mean"
    alone = AUDITED.second_alone()
    assert alone is not None
    assert (alone.error((0.5,)), alone.cost((0.5,))) == (pytest.approx(math.sqrt(200) / 1000), pytest.approx(5.0))


def test_the_formulas_of_neyman_and_of_two_phases_by_hand():
    # √(90/9) = 3.162 and √(25/1) = 5
    assert neyman_boosts(APART) == (1.0, pytest.approx(5 / math.sqrt(10)))
    assert neyman_boosts(replace(APART, usd=(9.0, 0.01))) == (1.0, 4.0), "no boost is above 4"
    assert neyman_boosts(replace(APART, usd=(9.0, 100.0))) == (1.0, 1.0), "nor below 1"
    # Cochran: √((1 - 0.64) · 1 / (0.64 · 10))
    assert best_share(AUDITED, (1.0,)) == pytest.approx(math.sqrt(0.36 / 6.4))


def test_the_cheapest_rates_are_those_of_neyman_where_strata_have_nothing_to_do_with_each_other():
    boosts = cheapest_boosts([APART], 0.05, (1.0, 1.0), (1,))
    assert boosts == (1.0, pytest.approx(1.6))
    found = cheapest(APART, boosts, 0.05)
    assert found is not None
    assert found.error == pytest.approx(0.05, rel=1e-3)
    # (Σ √(S c))² / (N e)²: (√810 + 5)² / 2500
    assert found.usd == pytest.approx((math.sqrt(810) + 5) ** 2 / 2500, rel=1e-3)
    assert cheapest_boosts([APART], 0.05, (1.0, 3.0), ()) == (1.0, 3.0), "nothing is known of the second stratum"


@pytest.mark.parametrize("day", [TWO, APART], ids=["alike", "apart"])
def test_no_rates_of_a_grid_are_cheaper(day: DayFigures):
    boosts = cheapest_boosts([day], 0.03, (1.0, 4.0), (1,))
    found = cheapest(day, boosts, 0.03)
    assert found is not None
    grid = [(one / 100, other / 100) for one, other in product(range(1, 101), repeat=2) if one <= other <= 4 * one]
    assert found.usd <= 1.002 * min(day.cost(rates) for rates in grid if day.error(rates) <= 0.03)


def test_no_share_of_a_grid_is_cheaper():
    found = cheapest(AUDITED, (1.0,), 0.02)
    assert found is not None
    assert found.error <= 0.02 * 1.0001
    grid = product([each / 500 for each in range(1, 501)], [each / 50 for each in range(1, 51)])
    least = min(AUDITED.cost((p,), s) for p, s in grid if p * s >= 0.05 and AUDITED.error((p,), s) <= 0.02)
    assert found.usd <= 1.01 * least


def test_what_is_written_down_still_reaches_the_error_and_what_is_out_of_reach_is_none():
    found = cheapest(ONE, (1.0,), 0.0333)
    assert found is not None
    written = rounded(ONE, (1.0,), found)
    assert written.rate == 0.091, "100 / 33.3² = 0.0902"
    assert written.error <= 0.0333
    assert cheapest(ONE, (1.0,), 0.009) is None


class SimulatedTurn(NamedTuple):
    """A turn's stratum, its score, and what an audit would say."""

    stratum: int
    score: float
    audit: float


def conversation(chance: random.Random) -> Iterator[SimulatedTurn]:
    """One to four turns that are alike, where errors score lower and vary more."""
    mood = chance.gauss(0.0, 0.2)
    for _ in range(chance.randint(1, 4)):
        failed = chance.random() < 0.15
        centre, width = (0.45, 0.2) if failed else (0.75, 0.08)
        audit = min(1.0, max(0.0, centre + mood + chance.gauss(0.0, width)))
        yield SimulatedTurn(int(failed), min(1.0, max(0.0, audit + chance.gauss(0.05, 0.1))), audit)


def judged(
    chance: random.Random, number: int, rates: Sequence[float], share: float
) -> Iterator[list[tuple[SimulatedTurn, float, AuditScore | None]]]:
    """The sample of so many conversations: turns with their weights and audits."""
    for _ in range(number):
        drawn = chance.random()
        if drawn >= max(rates):
            continue
        of = [
            (each, 1.0 / rates[each.stratum], AuditScore(each.audit, share) if chance.random() < share else None)
            for each in conversation(chance)
            if drawn < rates[each.stratum]
        ]
        if of:
            yield of


def simulated_past(number: int, rates: Sequence[float], share: float, days: float) -> list[PricedEvaluation]:
    chance = random.Random(3)
    past: list[PricedEvaluation] = []
    for index, turns in enumerate(judged(chance, number, rates, share)):
        time = chance.random() * days * 86_400.0 // 60.0 * 60.0
        past += [
            PricedEvaluation(
                time=time,
                conversation=f"c{index}",
                stratum=("all", "error")[turn.stratum],
                weight=Weight(weight, weight),
                score=turn.score,
                usd=0.001 + (0.01 if audit else 0.0),
                audit=audit,
                was_audited=audit is not None,
            )
            for turn, weight, audit in turns
        ]
    return past


def test_the_figures_of_a_sampled_past_are_those_of_all_of_it():
    whole = figures_of(simulated_past(20_000, (1.0, 1.0), 0.2, 10.0), ("all", "error")).day
    figures = figures_of(simulated_past(20_000, (0.25, 0.75), 0.2, 10.0), ("all", "error"))
    for of in ("subjects", "usd", "arrived", "squares"):
        assert getattr(figures.day, of) == pytest.approx(getattr(whole, of), rel=0.05)
    for one, other in zip(figures.day.products, whole.products, strict=True):
        assert one == pytest.approx(other, rel=0.1, abs=1.0)
    assert figures.audit_usd == pytest.approx(0.01)
    assert sum(whole.usd) == pytest.approx(0.001 * sum(whole.subjects))


def test_a_predicted_error_is_what_means_scatter_by_where_strata_weights_and_clusters_matter():
    """The past had other rates than those whose error is predicted."""
    past = figures_of(simulated_past(10_000, (0.3, 0.6), 0.2, 10_000 / 150), ("all", "error"))
    rates, chance = (0.1, 0.35), random.Random(11)
    means: list[float] = []
    for _ in range(500):
        weights = scores = 0.0
        for turns in judged(chance, 150, rates, 1.0):
            weights += sum(weight for _, weight, _ in turns)
            scores += sum(weight * turn.score for turn, weight, _ in turns)
        means.append(scores / weights)
    assert past.day.error(rates) == pytest.approx(stdev(means), rel=0.1)
    independent = tuple(
        tuple(each if row == column else 0.0 for column, each in enumerate(of))
        for row, of in enumerate(past.day.products)
    )
    assert replace(past.day, products=independent).error(rates) < past.day.error(rates), "strata share conversations"


def test_a_predicted_error_of_audited_means_is_what_they_scatter_by():
    past = figures_of(simulated_past(10_000, (0.3, 0.6), 0.2, 10_000 / 500), ("all", "error"))
    day = with_second_phase(past.day, past.pairs, 0.01)
    assert day is not None
    rates, share, chance = (0.3, 0.6), 0.2, random.Random(12)
    means: list[float] = []
    for _ in range(300):
        sums = AuditedSums.of(
            [
                sum(each)
                for each in zip(*(totals_of(weight, turn.score, audit) for turn, weight, audit in turns), strict=True)
            ]
            for turns in judged(chance, 500, rates, share)
        )
        corrected = sums.corrected()
        assert corrected is not None
        means.append(corrected.mean)
    assert day.error(rates, share) == pytest.approx(stdev(means), rel=0.1)
    assert fmean(means) == pytest.approx(0.705, abs=0.01)


def test_a_sampler_before_us_stays_in_the_error_and_not_in_the_cost():
    """Of half the traffic there is, twice the weight: as many are judged, and stand for twice as many."""
    past = simulated_past(2000, (0.5, 0.5), 0.2, 5.0)
    thinned = [replace(each, weight=Weight(2.0 * each.weight.full, each.weight.own)) for each in past]
    one, other = (figures_of(each, ("all", "error")).day for each in (past, thinned))
    assert other.error((0.2, 0.4)) == pytest.approx(one.error((0.2, 0.4)))
    assert other.usd == pytest.approx(one.usd)
    assert sum(other.subjects) == pytest.approx(2.0 * sum(one.subjects))
    assert rates_of(0.5, (1.0, 4.0)) == (0.5, 1.0)


def test_a_past_whose_boosts_are_no_longer_there_is_planned_from_as_well():
    """Without strata each conversation's turns are one: what they weighed in the past differs all the same."""
    mixed = figures_of(simulated_past(20_000, (0.25, 0.75), 0.2, 10.0), ("all",)).day
    whole = figures_of(simulated_past(20_000, (1.0, 1.0), 0.2, 10.0), ("all",)).day
    assert mixed.error((0.1,)) == pytest.approx(whole.error((0.1,)), rel=0.03)


def test_the_price_of_a_cheap_judge_is_that_of_its_scores_without_an_audit() -> None:
    """Costs of audits vary by more than a cheap judge costs, so a difference for each audited score would be noise."""
    chance = random.Random(5)
    past = [
        PricedEvaluation(
            time=number * 60.0,
            conversation=f"c{number}",
            stratum="all",
            weight=Weight(2.0, 2.0),
            score=chance.random(),
            usd=0.0003 + (chance.uniform(0.002, 0.01) if (audited := number % 3 == 0) else 0.0),
            was_audited=audited,
        )
        for number in range(600)
    ]
    day = figures_of(past, ["all"]).day
    assert day.usd[0] / day.arrived[0] == pytest.approx(0.0003)
