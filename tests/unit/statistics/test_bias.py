"""Biases of a judge: planted ones are named with their size, and nothing where there is none."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from collector.statistics.bias import JudgedPair, biases


def pairs(
    chance: np.random.Generator, *, number: int = 300, per_token: float = 0.0, german: float = 0.0
) -> list[JudgedPair]:
    """Pass or fail by people, a judge on five levels, three turns a conversation that are alike, German ones longer."""
    made: list[JudgedPair] = []
    for conversation in range(number // 3):
        is_german, alike = chance.random() < 0.3, 0.15 * chance.standard_normal()
        model = str(chance.choice(["m-1", "m-2", "m-3"]))
        for _ in range(3):
            tokens = 150.0 + 100.0 * is_german + 120.0 * chance.exponential()
            human = float(chance.random() < 0.7)
            noise = alike + 0.2 * chance.standard_normal()
            judge = 0.2 + 0.6 * human + noise + per_token * (tokens - 300.0) + german * is_german
            labels = frozenset({("language", "de" if is_german else "en"), ("model", model)})
            weight = float(chance.choice([1.0, 4.0]))
            made.append(JudgedPair(float(np.clip(judge, 0, 1)), human, weight, str(conversation), tokens, labels))
    return made


def test_nothing_is_named_where_nothing_biases() -> None:
    chance = np.random.default_rng(1)
    named = [bool(biases(pairs(chance, number=240)).named) for _ in range(200)]
    assert np.mean(named) <= 0.035, "2 % are meant, and three standard errors of so few runs are 3 %"


def noisy(
    chance: np.random.Generator, number: int, flips: float, *, graded: bool, wrong: float, better: float = 0.0
) -> list[JudgedPair]:
    """A judge that errs by chance alone; support answers are longer and better, and people err, too."""
    made: list[JudgedPair] = []
    for place in range(number):
        category = str(chance.choice(["support", "geography", "arithmetic"]))
        good = chance.random() < {"support": 0.8, "geography": 0.6, "arithmetic": 0.5}[category] + better
        tokens = 450.0 + 8.0 * good + 8.0 * (category == "support") + 3.0 * chance.standard_normal()
        verdict = float(good != (chance.random() < flips))
        judge = float(np.clip(0.15 + 0.7 * verdict + 0.15 * chance.standard_normal(), 0, 1)) if graded else verdict
        human = float(good != (chance.random() < wrong))
        made.append(JudgedPair(judge, human, 1.0, str(place), tokens, frozenset({("category", category)})))
    return made


@pytest.mark.parametrize("tail", ["one", "cauchy", "lognormal"])
@pytest.mark.parametrize("number", [75, 300])
def test_a_few_long_prompts_accuse_no_judge(number: int, tail: str) -> None:
    """One prompt of 632 tokens among those of 464 named a bias in 39 to 45 % of such runs, a Cauchy tail in 11 %."""
    chance = np.random.default_rng(7)

    def tokens(place: int) -> float:
        if tail == "one":
            return 464.0 + float(chance.integers(-1, 2)) if place else 632.0
        if tail == "cauchy":
            return 300.0 + 100.0 * abs(float(chance.standard_cauchy()))
        return 500.0 * float(np.exp(1.2 * chance.standard_normal()))

    named = 0
    for _ in range(60):
        run = noisy(chance, number, 0.15, graded=True, wrong=0.0)
        labelled = [replace(pair, tokens=tokens(place), labels=frozenset()) for place, pair in enumerate(run)]
        named += bool(biases(labelled).named)
    assert named <= 4, "2 % are meant"


@pytest.mark.parametrize("wrong", [0.0, 0.05])
@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("flips", [0.05, 0.2, 0.35])
def test_a_judge_that_is_merely_noisy_is_not_accused(flips: float, graded: bool, wrong: float) -> None:
    chance = np.random.default_rng(5)
    named = [bool(biases(noisy(chance, 150, flips, graded=graded, wrong=wrong)).named) for _ in range(40)]
    assert sum(named) <= 3, "2 % are meant"


@pytest.mark.parametrize("better", [-0.4, 0.0, 0.2])
def test_eight_wrong_labels_of_a_hundred_accuse_no_judge(better: float) -> None:
    """In 29 to 76 % of such runs the judge was said to prefer longer prompts, the more often the rarer one verdict is."""
    chance = np.random.default_rng(11)
    runs = (noisy(chance, 400, 0.05, graded=False, wrong=0.08, better=better) for _ in range(60))
    assert sum(bool(biases(run).named) for run in runs) <= 3, "2 % are meant"


def graded(
    chance: np.random.Generator, *, number: int = 200, means: tuple[float, float] = (0.5, 0.5),
    spreads: tuple[float, float] = (0.2, 0.2), noise: float = 0.05, wrong: float = 0.0, bias: float = 0.0,
) -> list[JudgedPair]:  # fmt: skip
    """A judge that scores the quality itself, of which people say only whether it is good (0.6), of two groups."""
    made: list[JudgedPair] = []
    for place in range(number):
        group = place % 2
        quality = float(np.clip(chance.normal(means[group], spreads[group]), 0, 1))
        judge = float(np.clip(quality + bias * group + noise * chance.standard_normal(), 0, 1))
        good = (quality >= 0.6) != (chance.random() < wrong)
        labels = frozenset({("group", "ab"[group])})
        made.append(JudgedPair(judge, float(good), 1.0, str(place), None, labels))
    return made


@pytest.mark.parametrize("noise", [0.05, 0.2])
@pytest.mark.parametrize(
    ("means", "spreads", "wrong"),
    [((0.5, 0.5), (0.25, 0.08), 0.0), ((0.7, 0.7), (0.25, 0.08), 0.0), ((0.45, 0.65), (0.2, 0.2), 0.08)],
)
def test_answers_of_one_label_that_differ_in_quality_accuse_no_judge(
    means: tuple[float, float], spreads: tuple[float, float], wrong: float, noise: float
) -> None:
    """In 14 to 90 % of such runs the judge was called biased: its score is finer than people's verdict."""
    chance = np.random.default_rng(13)
    runs = (graded(chance, means=means, spreads=spreads, noise=noise, wrong=wrong) for _ in range(50))
    assert sum(bool(biases(run).named) for run in runs) <= 3, "2 % are meant"


def test_a_judge_that_prefers_a_group_is_named_by_verdicts_too() -> None:
    chance = np.random.default_rng(14)
    alike = sum(bool(biases(graded(chance, bias=0.1)).named) for _ in range(20))
    better = sum(bool(biases(graded(chance, means=(0.45, 0.65), bias=0.2)).named) for _ in range(20))
    assert (alike >= 16, better >= 16) == (True, True)


def test_a_bias_by_length_is_found_and_not_taken_for_the_language_that_is_longer() -> None:
    chance = np.random.default_rng(2)
    reports = [biases(pairs(chance, number=600, per_token=0.0007)) for _ in range(20)]
    lengths = [bias.size for report in reports for bias in report.named if "tokens" in bias.cause]
    assert len(lengths) >= 19
    assert np.mean(lengths) == pytest.approx(0.19, abs=0.04), (
        "0.07 per 100 of 310 tokens, less what the scale's ends take"
    )
    assert sum("language=de" in {bias.cause for bias in report.named} for report in reports) <= 1


def test_a_bias_by_language_is_found() -> None:
    report = biases(pairs(np.random.default_rng(3), number=900, german=0.2))
    assert [bias.cause for bias in report.named] == ["language=de"]
    assert report.looked_at[0] == "prompts of 451 tokens instead of 169"


@pytest.mark.parametrize("tokens", [None, 500.0])
def test_where_lengths_are_unknown_or_constant_it_is_said_that_length_was_not_tested(tokens: float | None) -> None:
    """An endpoint that counts wrong hid a bias by length behind "No bias found"."""
    known = pairs(np.random.default_rng(2), per_token=0.0007)
    assert not any("Length was not tested" in each for each in biases(known).sentences("people"))
    *others, last = biases([replace(pair, tokens=tokens) for pair in known]).sentences("people")
    assert last.startswith("Length was not tested"), others
    assert biases([replace(pair, tokens=tokens) for pair in known[:60]]).sentences("people") == []


def test_few_pairs_and_columns_that_others_make_up_name_nothing() -> None:
    assert biases([]).looked_at == ()
    chance = np.random.default_rng(4)
    doubled = [
        JudgedPair(
            one.judge,
            one.reference,
            one.weight,
            one.conversation,
            None,
            one.labels | {("lang", dict(one.labels)["language"])},
        )
        for one in pairs(chance, number=600, german=0.3)
    ]
    assert len([bias for bias in biases(doubled).named if "de" in bias.cause]) == 1


def test_values_that_each_answer_has_alone_cost_little() -> None:
    """Ids, like `replay_of`, made a column for each answer, and the time grew with the square of the answers."""
    chance = np.random.default_rng(7)
    plain = pairs(chance, number=3_000, german=0.2)
    alone = [replace(pair, labels=pair.labels | {("replay_of", str(at))}) for at, pair in enumerate(plain)]
    began = time.process_time()
    expected = biases(plain)
    took = time.process_time() - began
    assert biases(alone) == expected
    assert time.process_time() - began < 3 * took + 1.0
