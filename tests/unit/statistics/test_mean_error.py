from __future__ import annotations

import math

from collector.statistics.bounded_sums import Sums
from collector.statistics.mean_error import WindowSums

DAY = WindowSums(Sums(w=400.0, wy=320.0, w2=400.0, w2y=320.0, w2y2=320.0), 400)


def test_a_window_as_the_day_has_the_error_of_its_own_scores():
    assert math.isclose(DAY.stderr(DAY), DAY.sums.stderr)
    assert math.isclose(DAY.stderr(WindowSums()), DAY.sums.stderr)


def test_equal_scores_are_no_surer_than_their_number_by_the_days_variance():
    """30 scores of 0.5 agree with each other; on this day a score has a standard deviation of 0.4."""
    equal = WindowSums(Sums(w=30.0, wy=15.0, w2=30.0, w2y=15.0, w2y2=7.5), 30)
    assert equal.sums.stderr < 0.002
    assert math.isclose(equal.stderr(DAY), math.sqrt((0.16 + 1e-4) / 30))


def test_what_differs_more_than_the_day_has_its_own_error():
    wide = WindowSums(Sums(w=30.0, wy=15.0, w2=30.0, w2y=15.0, w2y2=15.0), 30)
    assert wide.stderr(DAY) == wide.sums.stderr > math.sqrt(0.16 / 30)


def test_missing_weight_makes_a_mean_less_sure():
    """As many scores as ever, a tenth of the weight: the error grows tenfold, as what is missing had nine tenths."""
    light = WindowSums(Sums(w=3.0, wy=0.9, w2=0.3, w2y=0.09, w2y2=0.09), 30)
    assert math.isclose(light.stderr(DAY), 10 * math.sqrt((0.16 + 1e-4) / 30))
