"""System or judge: a judge that changes is named, and one that stays is not blamed."""

from __future__ import annotations

import numpy as np
import pytest

from collector.golden.judge_change import GoldenRun, Suspicion, judge_since

DAY = 86400.0


def run(at: float, scores: np.ndarray) -> GoldenRun:
    return GoldenRun(at, {str(case): float(score) for case, score in enumerate(scores)})


def verdicts(chance: np.random.Generator, cases: int, noise: float, shift: float, looks: int) -> list[str]:
    """Three daily runs of a judge with this noise, then some after its scores moved by `shift`; the verdict after each."""
    true = chance.choice([0.25, 0.5, 0.75, 1.0], cases)

    def asked(at: float, moved: float) -> GoldenRun:
        return run(at, np.clip(true + moved + noise * chance.standard_normal(cases), 0.0, 1.0))

    before = [asked(DAY * day, 0.0) for day in range(3)]
    after = [asked(DAY * 3 + 1800.0 * look, shift) for look in range(looks)]
    return [judge_since([*before, *after[: look + 1]], DAY * 2.5) for look in range(looks)]


@pytest.mark.parametrize(("cases", "noise"), [(20, 0.1), (60, 0.1), (60, 0.0), (200, 0.2)])
def test_a_judge_that_stays_is_blamed_in_fewer_than_two_of_a_hundred_falls(cases: int, noise: float) -> None:
    chance = np.random.default_rng(cases)
    blamed = [any("has changed" in each for each in verdicts(chance, cases, noise, 0.0, 10)) for _ in range(300)]
    assert np.mean(blamed) <= 0.02


@pytest.mark.parametrize(
    ("cases", "noise", "shift"), [(60, 0.1, -0.1), (60, 0.0, -0.02), (20, 0.1, -0.2), (200, 0.1, -0.05)]
)
def test_a_judge_that_changed_is_named_by_one_run(cases: int, noise: float, shift: float) -> None:
    chance = np.random.default_rng(cases)
    named = ["has changed" in verdicts(chance, cases, noise, shift, 1)[0] for _ in range(300)]
    assert np.mean(named) >= 0.95


def test_the_sentence() -> None:
    runs = [run(0.0, np.full(60, 0.8)), run(60.0, np.full(60, 0.8)), run(120.0, np.full(60, 0.5))]
    assert (
        judge_since(runs[:2], 30.0) == "The judge has not changed on 60 golden cases at 00:01 UTC (shift at most 0.00)."
    )
    changed = "The judge has changed: its scores of 60 golden cases at 00:02 UTC moved by -0.30 ± 0.00."
    assert judge_since(runs, 90.0) == changed
    assert judge_since(runs, 500.0) == judge_since(runs, 0.0) == "", "nothing on one side"


def test_it_is_asked_at_once_and_again_while_the_fall_lasts() -> None:
    before = [run(0.0, np.ones(20))]
    assert Suspicion(100.0).asks(before, 200.0)
    asked = [*before, run(200.0, np.ones(20))]
    assert not Suspicion(100.0).asks(asked, 1900.0)
    assert Suspicion(100.0).asks(asked, 2100.0)
    assert Suspicion(100.0, 300.0).asks(asked, 300.0), "as an alert begins"
    assert not Suspicion(100.0, 300.0).asks([*before, run(10_000.0, np.ones(20))], 14_000.0), "half as old as the fall"
