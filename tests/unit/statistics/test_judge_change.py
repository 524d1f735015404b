"""System or judge: a judge that changes is named, and one that stays is not blamed."""

from __future__ import annotations

import numpy as np
import pytest

from collector.statistics.judge_change import GoldenRun, SingleCaseTest, Suspicion, judge_since

DAY = 86400.0


def run(at: float, scores: np.ndarray) -> GoldenRun:
    return GoldenRun(at, {str(case): float(score) for case, score in enumerate(scores)})


def verdicts(chance: np.random.Generator, cases: int, noise: float, shift: float, looks: int) -> list[bool]:
    """Three daily runs of a judge with this noise, then some after its scores moved by `shift`; whether it is said to have changed after each."""
    true = chance.choice([0.25, 0.5, 0.75, 1.0], cases)

    def asked(at: float, moved: float) -> GoldenRun:
        return run(at, np.clip(true + moved + noise * chance.standard_normal(cases), 0.0, 1.0))

    before = [asked(DAY * day, 0.0) for day in range(3)]
    after = [asked(DAY * 3 + 1800.0 * look, shift) for look in range(looks)]
    said = (judge_since([*before, *after[: look + 1]], DAY * 2.5) for look in range(looks))
    return [verdict is not None and verdict.has_changed for verdict in said]


@pytest.mark.parametrize(("cases", "noise"), [(20, 0.1), (60, 0.1), (60, 0.0), (200, 0.2)])
def test_a_judge_that_stays_is_blamed_in_fewer_than_two_of_a_hundred_falls(cases: int, noise: float) -> None:
    chance = np.random.default_rng(cases)
    blamed = [any(verdicts(chance, cases, noise, 0.0, 10)) for _ in range(300)]
    assert np.mean(blamed) <= 0.02


@pytest.mark.parametrize(
    ("cases", "noise", "shift"), [(60, 0.1, -0.1), (60, 0.0, -0.02), (20, 0.1, -0.2), (200, 0.1, -0.05)]
)
def test_a_judge_that_changed_is_named_by_one_run(cases: int, noise: float, shift: float) -> None:
    chance = np.random.default_rng(cases)
    named = [verdicts(chance, cases, noise, shift, 1)[0] for _ in range(300)]
    assert np.mean(named) >= 0.95


def sentence(runs: list[GoldenRun], since: float) -> str | None:
    verdict = judge_since(runs, since)
    return verdict and verdict.sentence


def test_the_sentence() -> None:
    runs = [run(0.0, np.full(60, 0.8)), run(60.0, np.full(60, 0.8)), run(120.0, np.full(60, 0.5))]
    same = "The judge has not changed: 60 golden cases, scored again at 00:01 UTC, moved by at most 0.01."
    assert sentence(runs[:2], 30.0) == same
    changed = "The judge has changed: 60 golden cases, scored again at 00:02 UTC, moved by -0.30 (95 %: ± 0.00)."
    assert sentence(runs, 90.0) == changed
    assert judge_since(runs, 500.0) is judge_since(runs, 0.0) is None, "nothing on one side"


def test_a_judge_that_was_repaired_since_is_the_cause_all_the_same() -> None:
    """The next run acquitted it, while the alert on its fall was still on."""
    runs = [run(0.0, np.full(60, 0.8)), run(60.0, np.full(60, 0.5)), run(120.0, np.full(60, 0.8))]
    was = "The judge had changed: 60 golden cases, scored again at 00:01 UTC, moved by -0.30 (95 %: ± 0.00)."
    assert sentence(runs, 30.0) == f"{was} The newest run finds no change."
    assert sentence([runs[0], run(40.0, np.full(60, 0.8)), *runs[1:]], 30.0) == f"{was} The newest run finds no change."
    later = "The judge has not changed: 60 golden cases, scored again at 01:00 UTC, moved by at most 0.01."
    hour = [runs[0], run(40.0, np.full(60, 0.8)), run(1900.0, np.full(60, 0.5)), run(3600.0, np.full(60, 0.8))]
    assert sentence(hour, 30.0) == later, "too late"


LATER = (
    "The judge had not changed when the scores fell: 60 golden cases, scored again at 00:05 UTC, moved by at most 0.01. "
    "It has changed since: at 00:08 UTC they had moved by -0.20 (95 %: ± 0.00)."
)


@pytest.mark.parametrize(
    ("scores", "detected_at", "begin"),
    [
        ((0.8, 0.8, 0.6), 240.0, LATER),
        ((0.8, 0.8, 0.6), 360.0, "The judge has changed: 60 golden cases, scored again at 00:08 UTC"),
        ((0.6, 0.8, 0.6), 240.0, "The judge has changed: 60 golden cases, scored again at 00:08 UTC"),
        ((0.8, 0.8, 0.8), 240.0, "The judge has not changed: 60 golden cases, scored again at 00:08 UTC"),
    ],
)
def test_a_judge_that_changes_after_a_fall_was_found_is_not_its_cause(
    scores: tuple[float, ...], detected_at: float, begin: str
) -> None:
    """Runs at 2 and 5 min found no change; the text forgot them after the one at 8 min, and blamed the judge.

    A run before the fall was found says nothing: the scores may have fallen after it. Nor does a repair in between.
    """
    runs = [run(minute * 60.0, np.full(60, score)) for minute, score in zip((0, 2, 5, 8), (0.8, *scores), strict=True)]
    verdict = judge_since(runs, 60.0, detected_at=detected_at)
    assert verdict is not None
    assert verdict.sentence.startswith(begin)
    assert (verdict.beside_a_fall(lower_is_better=False)[0] == "later") == (begin == LATER)


@pytest.mark.parametrize(
    ("after", "lower_is_better", "word", "end"),
    [
        (0.5, False, "changed", "± 0.00)."),
        (0.5, True, "better", "Better scores explain no fall."),
        (0.9, False, "better", "Better scores explain no fall."),
        (0.9, True, "changed", "± 0.00)."),
        (0.8, True, "unchanged", "at most 0.01."),
    ],
)
def test_a_judge_that_changed_for_the_better_is_no_cause(
    after: float, lower_is_better: bool, word: str, end: str
) -> None:
    verdict = judge_since([run(0.0, np.full(60, 0.8)), run(120.0, np.full(60, after))], 60.0)
    assert verdict is not None
    said, text = verdict.beside_a_fall(lower_is_better=lower_is_better)
    assert said == word
    assert text.endswith(end)


def test_a_run_shortly_before_the_fall_is_not_taken_for_the_judge_as_it_was() -> None:
    """When scores began to fall is an estimate: the newest run before it was by the changed judge already."""
    runs = [run(0.0, np.full(60, 0.8)), run(2.9 * DAY, np.full(60, 0.5)), run(3.1 * DAY, np.full(60, 0.5))]
    verdict = judge_since(runs, 3.0 * DAY)
    assert verdict is not None
    assert verdict.has_changed
    assert verdict.shift == pytest.approx(-0.3)


@pytest.mark.parametrize("incident", [0.6, 1.0])
def test_a_judge_that_was_repaired_before_the_fall_has_not_changed(incident: float) -> None:
    """No run was made between its repair and the fall: the runs before were averaged, so it seemed to have moved."""
    before = [run(60.0 * minute, np.full(60, score)) for minute, score in enumerate((0.8, 0.8, 0.8, incident))]
    verdict = judge_since([*before, run(900.0, np.full(60, 0.8))], 600.0)
    assert verdict is not None
    assert (verdict.has_changed, verdict.shift) == (False, pytest.approx(0.0, abs=0.01))


def trips(chance: np.random.Generator, noise: float, shift: float, number: int, runs: int = 3) -> int:
    """After how many single cases of a set of 60 the sum trips; `number` if it does not."""
    true = chance.choice([0.25, 0.5, 0.75, 1.0], 60)

    def scores(moved: float) -> np.ndarray:
        return np.clip(true + moved + noise * chance.standard_normal(60), 0.0, 1.0)

    known, drip = [run(DAY * day, scores(0.0)) for day in range(runs)], SingleCaseTest()
    for asked in range(number):
        drip.add(str(asked % 60), float(scores(shift)[asked % 60]), known)
        if drip.has_tripped:
            return asked + 1
    return number


@pytest.mark.parametrize(("noise", "least"), [(0.1, 60), (0.05, 120), (0.0, 600)])
def test_single_cases_of_a_judge_that_stays_seldom_ask_for_a_run(noise: float, least: int) -> None:
    chance = np.random.default_rng(1)
    assert np.median([trips(chance, noise, 0.0, 600) for _ in range(60)]) >= least


@pytest.mark.parametrize(("noise", "shift", "most"), [(0.1, -0.1, 15), (0.1, -0.3, 4), (0.0, -0.1, 15), (0.1, 0.3, 6)])
def test_a_few_single_cases_see_a_judge_that_changed(noise: float, shift: float, most: int) -> None:
    chance = np.random.default_rng(2)
    assert np.median([trips(chance, noise, shift, 600) for _ in range(60)]) <= most


def test_after_a_run_the_single_cases_are_compared_with_that_run() -> None:
    before, after = run(0.0, np.full(60, 0.8)), run(DAY, np.full(60, 0.5))
    drip = SingleCaseTest(began=DAY)
    for case in range(60):
        drip.add(str(case), 0.5, [before, after])
    assert not drip.has_tripped


def test_it_is_asked_at_once_and_again_while_the_fall_lasts() -> None:
    before = [run(0.0, np.ones(20))]
    assert Suspicion(100.0).asks(before, 200.0)
    asked = [*before, run(200.0, np.ones(20))]
    assert not Suspicion(100.0).asks(asked, 1900.0)
    assert Suspicion(100.0).asks(asked, 2100.0)
    assert Suspicion(100.0, 300.0).asks(asked, 300.0), "as an alert begins"
    assert not Suspicion(100.0, 300.0).asks([*before, run(10_000.0, np.ones(20))], 14_000.0), "half as old as the fall"
