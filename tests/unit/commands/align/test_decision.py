"""The decision over labels, candidates and verdicts: a planted clause gains, and labels that follow nothing do not."""

from __future__ import annotations

import random

import pytest

from collector.commands.align.gain import (
    TrainingTrial,
    can_show_a_gain,
    chosen,
    holdout_test,
    training_trial,
)
from collector.commands.align.reading import LabelledSubject, Parts, consistent, split
from evaluators.cases import Turn

CANDIDATES = 8


def labelled(number: int, *, passes: bool, weight: float = 1.0) -> LabelledSubject:
    turn = Turn(turn_id=f"t{number}", conversation_id=f"c{number // 2}", actual_output=f"answer {number * 7919}")
    return LabelledSubject(
        name=f"line {number}",
        case=turn,
        conversation=f"c{number // 2}",
        material={"actual_output": turn.actual_output},
        passes=passes,
        weight=weight,
        at_random=True,
    )


def decide(
    subjects: list[LabelledSubject], chance: random.Random, planted: dict[str, bool] | None = None
) -> bool | None:
    """Whether a gain is claimed, by the steps of the command; None where these labels are too few for one.

    Candidates pass at random: some what the evaluator passes but for a part, some a share of all, one everything.
    """
    parts = split(consistent(subjects).subjects, 0.5)
    before = {each.name: chance.random() < 0.7 for each in subjects}
    if not can_show_a_gain(parts, before):
        return None
    candidates = [
        {name: chance.random() < share if chance.random() < changed else known for name, known in before.items()}
        for share, changed in ((1.0, 1.0), (1.0, 0.5), (0.0, 0.3), *[(chance.random(), 0.4)] * (CANDIDATES - 3))
    ]
    if planted is not None:
        candidates.append(planted)
    training = parts.training
    trials = [
        training_trial(training, before, {each.name: verdicts[each.name] for each in training})
              for verdicts in candidates]  # fmt: skip
    best = chosen(trials)
    return best is not None and holdout_test(parts, before, candidates[best]).gained


@pytest.mark.long
def test_on_labels_that_follow_nothing_a_gain_is_claimed_in_at_most_one_of_twenty_runs() -> None:
    """480 runs with 8 candidates each: labels of any share that pass, weights 1 to 4, two labels a conversation."""
    chance = random.Random(17)
    claims: list[bool] = []
    while len(claims) < 480:
        good = chance.choice((0.5, 0.7, 0.9))
        subjects = [
            labelled(n, passes=chance.random() < good, weight=chance.choice((1.0, 2.0, 4.0)))
            for n in range(chance.choice((100, 160)))
        ]
        claim = decide(subjects, chance)
        if claim is not None:
            claims.append(claim)
    assert sum(claims) <= 0.05 * len(claims), f"{sum(claims)} claims"


def test_a_clause_that_labels_follow_gains() -> None:
    chance = random.Random(5)
    gains = 0
    for _ in range(20):
        subjects = [labelled(n, passes=chance.random() < 0.6) for n in range(160)]
        right = {each.name: each.passes is (chance.random() > 0.05) for each in subjects}
        gains += bool(decide(subjects, chance, right))
    assert gains >= 18


def made_trial(good: list[tuple[bool, bool]], bad: list[tuple[bool, bool]]) -> TrainingTrial:
    pairs = [(True, each) for each in good] + [(False, each) for each in bad]
    part = [labelled(2 * n, passes=passes) for n, (passes, _) in enumerate(pairs)]
    before = {each.name: (old is each.passes) for each, (_, (old, _)) in zip(part, pairs, strict=True)}
    after = {each.name: (new is each.passes) for each, (_, (_, new)) in zip(part, pairs, strict=True)}
    return training_trial(part, before, after)


def test_the_first_of_the_best_is_chosen_and_none_where_nothing_gains() -> None:
    same = made_trial([(True, True), (False, False)], [(True, True)])
    better = made_trial([(True, True), (False, True)], [(True, True)])
    worse = made_trial([(True, False), (False, False)], [(True, True)])
    assert chosen([same, worse]) is None
    assert chosen([]) is None
    assert chosen([worse, better, better]) == 1


def test_a_candidate_that_scores_too_little_is_not_chosen() -> None:
    part = [labelled(2 * n, passes=n % 2 == 0) for n in range(40)]
    before = {each.name: False for each in part}
    after = {each.name: each.passes for each in part[:36]}
    made = training_trial(part, before, after)
    assert made.answered == pytest.approx(0.9)
    assert chosen([made]) is None
    assert not holdout_test(Parts((), tuple(part), at_random=False), before, after).gained
