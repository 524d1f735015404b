from types import SimpleNamespace

from hypothesis import given, strategies as st

from collector.evaluate.plan import Monitor
from collector.evaluate.sampling.draw import draw


@given(st.text(), st.text(min_size=1, max_size=30))
def test_depends_on_nothing_but_salt_and_unit(unit: str, salt: str) -> None:
    assert draw(salt, unit) == draw(salt, unit)
    assert 0.0 <= draw(salt, unit) < 1.0


def test_the_share_is_the_rate_and_a_lower_rate_is_a_subset() -> None:
    units = [f"conversation-{n}" for n in range(20_000)]
    tenth = {unit for unit in units if draw("s", unit) < 0.1}
    fifth = {unit for unit in units if draw("s", unit) < 0.2}
    assert tenth < fifth
    assert abs(len(tenth) - 2_000) < 130  # three standard deviations
    assert abs(len(fifth) - 4_000) < 170


def test_another_salt_is_another_sample() -> None:
    units = [f"conversation-{n}" for n in range(2_000)]
    one = {unit for unit in units if draw("one", unit) < 0.5}
    two = {unit for unit in units if draw("two", unit) < 0.5}
    assert 350 < len(one & two) < 650


def test_the_draw_is_part_of_the_contract() -> None:
    assert draw("evalstream", "sess-larkspur-7341") == 0.19832734280006037


def test_rate_reduction_and_boost_multiply_up_to_certainty() -> None:
    monitor, assignment = Monitor("m", (), {}, rate=0.5), SimpleNamespace(rate=None)
    assert monitor.probability(assignment, 0.25, 4.0) == 0.5
    assert monitor.probability(assignment, 1.0, 4.0) == 1.0


def test_of_a_long_salt_the_first_64_bytes_count() -> None:
    assert draw("s" * 64, "unit") == draw("s" * 65, "unit") != draw("s" * 63, "unit")
