"""Which versions are compared, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
from release_traffic import BEGAN, Traffic, rules

from collector.alerting.releases.comparison import Pair
from collector.alerting.releases.hourly_scores import HOUR, MOST_SCOPES, MOST_VALUES, ComparedAttribute
from collector.statistics.bounded_sums import Sums
from collector.statistics.confidence_sequence import radius


def test_a_version_that_comes_later_is_compared_with_the_one_before_side_by_side():
    traffic = Traffic()
    for hour in range(30):
        traffic.hour(hour, "1.0", 40)
        if hour >= 6:
            traffic.hour(hour, "1.1", 40, mean=0.5)
    (found,) = traffic.at(30)
    assert (found.baseline, found.version, found.started) == ("1.0", "1.1", BEGAN + 6 * HOUR)
    assert found.difference is not None
    assert found.difference.method == "in the same hours"
    assert found.difference.low < -0.3 < found.difference.high < 0
    assert found.is_worse
    assert found.state == "worse"
    (turned,) = traffic.at(30, rules(lower=frozenset({"helpful"})))
    assert not turned.is_worse
    assert turned.state == "better"


def test_nothing_is_said_of_one_that_is_as_good():
    traffic = Traffic()
    for hour in range(60):
        traffic.hour(hour, "1.0", 60)
        if hour >= 6:
            traffic.hour(hour, "1.1", 60)
    (found,) = traffic.at(60)
    assert found.difference is not None
    assert found.difference.low < 0 < found.difference.high
    assert not found.is_worse


def test_one_that_replaces_the_other_at_once_is_compared_with_the_same_hours_of_the_week_before():
    traffic = Traffic()
    for hour in range(190):
        traffic.hour(hour, "1.0" if hour < 176 else "1.1", 40, mean=0.8 if hour < 176 else 0.5)
    (found,) = traffic.at(190)
    assert found.difference is not None
    assert found.difference.method == "week before"
    assert found.is_worse
    assert found.conversations[0] == pytest.approx(found.conversations[1], rel=0.1), "of the hours that are compared"


def test_without_a_week_before_nothing_tells_the_version_from_the_time_of_day():
    traffic = Traffic()
    for hour in range(40):
        traffic.hour(hour, "1.0" if hour < 26 else "1.1", 40, mean=0.8 if hour < 26 else 0.5)
    (found,) = traffic.at(40)
    assert found.difference is not None
    assert found.difference.estimate == pytest.approx(-0.3, abs=0.1)
    assert (found.difference.method, found.state, found.is_worse) == ("day before", "untold", False)
    assert found.is_candidate, "it took over all of the traffic, and the mean fell then"
    steady = Traffic()
    for hour in range(40):
        steady.hour(hour, "1.0" if hour < 26 else "1.1", 40, mean=0.8)
    (found,) = steady.at(40)
    assert not found.is_candidate


def test_what_time_alone_may_change_is_not_the_releases():
    """A fall of 0.02 that is certain is not enough against the week before; side by side it would be."""
    traffic = Traffic()
    for hour in range(190):
        traffic.hour(hour, "1.0" if hour < 170 else "1.1", 100, mean=0.8 if hour < 170 else 0.775, same=True)
    (found,) = traffic.at(190)
    assert found.difference is not None
    assert found.difference.high < 0
    assert not found.is_worse
    (strict,) = traffic.at(190, rules(drift=0.0))
    assert strict.is_worse
    states = [traffic.at(190, rules(lower=frozenset({"helpful"}), drift=drift))[0].state for drift in (0.03, 0.0)]
    assert states == ["alike", "better"], "it was never better by less than 0.03, whatever the configuration says"


def said_to_be_worse(period: float, size: float, fall: float, streams: int, start: int = 168) -> tuple[float, float]:
    """Shares of releases at once, with 1,000 scores an hour, that are said to be worse, and whose interval misses.

    The mean has a wave of `size` with a period in hours, and falls by `fall` with the release. A look each sixth hour.
    """
    chance, worse, misses = np.random.default_rng(int(period)), 0, 0
    for stream in range(streams):
        hours = np.arange(start + 168)
        number = chance.poisson(1000, len(hours)).astype(float)
        mean = 0.8 + size * np.sin(2 * np.pi * (hours + stream * period / streams) / period) - fall * (hours >= start)
        scores = number * mean + np.sqrt(number * 0.073) * chance.standard_normal(len(hours))
        squares = number * (0.073 + mean**2)
        rows = zip(number.tolist(), scores.tolist(), squares.tolist(), strict=True)
        sums = [Sums(n, y, n, y, yy) for n, y, yy in rows]
        was_worse = was_missed = False
        for now in range(start + 1, start + 168, 6):
            pair = Pair(dict(enumerate(sums[:start])), {hour: sums[hour] for hour in range(start, now)}, start)
            shown, tested = pair.difference(0.05), pair.difference(0.01)
            assert shown is not None
            assert tested is not None
            was_worse |= tested.has_interval and tested.high < -0.03
            was_missed |= shown.has_interval and not shown.low <= -fall <= shown.high
        worse, misses = worse + was_worse, misses + was_missed
    return worse / streams, misses / streams


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("streams", [8, pytest.param(200, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("period", "size"), [(24, 0.02), (24, 0.04), (24, 0.06), (168, 0.04), (168, 0.06)])
def test_waves_of_a_day_or_a_week_are_no_fault_of_a_release(period: float, size: float, streams: int) -> None:
    worse, misses = said_to_be_worse(period, size, 0.0, streams)
    print(f"period {period} h, ±{size}: worse {worse:.1%}, the interval misses {misses:.1%} of {streams}")
    assert worse <= 0.01
    assert misses <= 0.05 + 0.5 / streams
    assert said_to_be_worse(period, size, 0.0, 4, start=48) == (0.0, 0.0), "no week before: nothing is said"


def test_a_fall_is_found_under_waves() -> None:
    assert said_to_be_worse(24, 0.06, 0.06, 8)[0] == 1.0


def test_versions_that_were_there_from_the_beginning_are_no_releases():
    traffic = Traffic()
    for hour in range(10):
        for version in ("1.0", "1.1"):
            traffic.hour(hour, version, 20)
    assert traffic.at(10) == []


def test_named_values_are_compared_with_the_first_from_the_beginning():
    arm = ComparedAttribute("arm", values=("control", "a", "b"))
    traffic = Traffic(arm)
    for hour in range(10):
        for each, mean in (("control", 0.8), ("a", 0.8), ("b", 0.4), ("unnamed", 0.1)):
            traffic.hour(hour, "1.0", 20, mean=mean, arm=each)
    found = traffic.at(10, rules(arm))
    assert all(each.beside for each in found)
    assert [(each.baseline, each.version, each.is_worse) for each in found] == [
        ("control", "a", False),
        ("control", "b", True),
    ]


def test_versions_of_another_service_are_another_place():
    traffic = Traffic()
    for hour in range(10):
        traffic.hour(hour, "1.0", 20)
        traffic.hour(hour, "7.0", 20, service="desk")
        if hour > 5:
            traffic.hour(hour, "7.1", 20, service="desk")
    (found,) = traffic.at(10)
    assert (found.place.within, found.baseline, found.version) == ("desk", "7.0", "7.1")


def test_partitions_add_up_in_whatever_order_they_are_read():
    whole, parted = Traffic(), Traffic(partitions=3)
    for traffic in (whole, parted):
        for hour in range(20):
            traffic.hour(hour, "1.0", 30)
            if hour >= 6:
                traffic.hour(hour, "1.1", 30, mean=0.6)
    (one,), (three,) = whole.at(20), parted.at(20)
    parted.parts.reverse()
    (again,) = parted.at(20)
    assert one.difference is not None
    assert three.difference is not None
    assert again.difference is not None
    assert again.difference.estimate == pytest.approx(three.difference.estimate, abs=1e-9)
    # weights are bounded by what each partition knows of them
    assert three.difference.estimate == pytest.approx(one.difference.estimate, abs=0.02)


def test_a_comparison_ends_when_its_version_is_gone_or_a_week_old():
    traffic = Traffic()
    for hour in range(8):
        traffic.hour(hour, "1.0", 20)
        if hour >= 5:
            traffic.hour(hour, "1.1", 20)
    assert len(traffic.at(8)) == 1
    assert traffic.at(8 + 24) == []
    for hour in range(8, 8 + 8 * 24):
        traffic.hour(hour, "1.0", 1)
        traffic.hour(hour, "1.1", 1)
    assert len(traffic.at(5 + 7 * 24 - 1)) == 1
    assert traffic.at(5 + 7 * 24) == []


def test_invented_versions_take_no_place_from_real_ones_and_memory_is_bounded():
    traffic = Traffic()
    for hour in range(10):
        traffic.hour(hour, "1.0", 20)
        for number in range(100):
            traffic.hour(hour, f"invented-{hour}-{number}", 1)
        if hour >= 5:
            traffic.hour(hour, "1.1", 20)
    (part,) = traffic.parts
    assert {len(each) for each in part.places.values()} <= set(range(MOST_VALUES + 1))
    assert [(each.baseline, each.version) for each in traffic.at(10)] == [("1.0", "1.1")]
    for number in range(1000):
        traffic.hour(10, "1.0", 1, service=f"service-{number}")
    assert len(part.places) == MOST_SCOPES
    part.forget(BEGAN + 30 * 86400.0)
    assert not part.places


def test_the_radius_is_the_formula_and_grows_like_a_standard_error():
    assert radius(12.0, 0.05) == pytest.approx((16 * 7.3777589) ** 0.5, rel=1e-6)  # log(16 / 4 / 0.05²)
    assert radius(400.0, 0.05) / 400**0.5 == pytest.approx(3.27, abs=0.05)
