"""A replay's arithmetic, against scipy where that has the same, else against what follows from the definition."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from evaluation_samples import START, bare, label
from rich.console import Console

from collector.calibration.labels import HumanLabel
from collector.commands.replay.comparison import EvaluationPair, compare, t975
from collector.commands.replay.people import compare_with_people, labels_of_file, labels_of_page
from collector.commands.replay.replay import (
    EvaluatorComparison,
    ReplayReport,
    as_json,
    as_text,
    compared_evaluators,
    same_verdict_text,
)
from collector.errors import ConfigError
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.past.evaluations import EvaluationFilter, PastEvaluation, key_of, select
from collector.records.json import label_to_json
from collector.statistics.agreement import ScoreScale
from evaluators.results import Sampling

NOW = START


def pair(
    number: int, old: float, new: float, conversation: str | None = None, probability: float = 1.0
) -> EvaluationPair:
    sampling = Sampling(probability=probability)
    return EvaluationPair(bare(number, old, conversation, sampling=sampling), bare(number, new, conversation))


def random_pairs(count: int) -> list[EvaluationPair]:
    chance = random.Random(7)
    return [pair(n, chance.random(), chance.random() ** 2) for n in range(count)]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 10, 30, 1000])
def test_students_distribution(freedom: int) -> None:
    from scipy import stats

    assert t975(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.002)


@pytest.mark.parametrize("count", [2, 3, 40])
def test_single_pairs_give_the_paired_t_interval(count: int) -> None:
    from scipy import stats

    pairs = random_pairs(count)
    found = compare(pairs)
    assert found is not None
    old, new = [each.old.score for each in pairs], [each.new.score for each in pairs]
    wanted = stats.ttest_rel(new, old).confidence_interval(0.95)
    low, high = found.mean.interval or (0.0, 0.0)
    assert low == pytest.approx(max(-1.0, wanted.low), rel=0.01)
    assert high == pytest.approx(min(1.0, wanted.high), rel=0.01)
    assert found.mean.difference == pytest.approx(sum(new) / count - sum(old) / count)
    assert found.rank_correlation == pytest.approx(stats.spearmanr(old, new).statistic)


def test_the_interval_holds_as_often_as_it_says() -> None:
    """Turns of a conversation share their difference: taken as independent, the interval would hold 60 % of the time."""
    chance = random.Random(1)
    held = 0
    for _ in range(400):
        pairs: list[EvaluationPair] = []
        for conversation in range(12):
            shift = chance.choice((-0.3, 0.0, 0.3))
            pairs += [pair(n, 0.5, 0.5 + shift, f"c{conversation}") for n in range(5)]
        found = compare(pairs)
        assert found is not None
        assert found.mean.interval is not None
        held += found.mean.interval[0] <= 0.0 <= found.mean.interval[1]
    assert 0.91 <= held / 400 <= 0.98


def test_rare_samples_weigh_more() -> None:
    found = compare([pair(1, 0.0, 1.0, probability=0.1), pair(2, 0.0, 0.0)])
    assert found is not None
    assert found.weighted
    assert found.mean.new == pytest.approx(10 / 11)


def test_verdicts_and_those_furthest_apart() -> None:
    found = compare([pair(1, 0.9, 0.1), pair(2, 0.4, 0.6), pair(3, 0.7, 0.8), pair(4, 0.2, 0.2)], worst=2)
    assert found is not None
    assert (found.same_verdict, found.to_fail, found.to_pass) == (0.5, 1, 1)
    assert [each.old.evaluation_id for each in found.worst] == ["e1", "e2"]
    assert found.passing is not None
    assert found.passing.difference == 0.0


def test_the_share_of_same_verdicts_is_weighted_like_the_means() -> None:
    found = compare([pair(1, 0.9, 0.9, probability=0.1), pair(2, 0.9, 0.1)])
    assert found is not None
    assert found.same_verdict == pytest.approx(10 / 11)
    said = same_verdict_text(found, found.same_verdict or 0.0)
    assert "90.9% by weight; of 2 pairs, unweighted, 1 from pass to fail, 0 from fail to pass." in said


def test_verdicts_are_of_the_pairs_that_have_one() -> None:
    """One pair without a verdict took the row of all others away."""
    undecided = EvaluationPair(bare(3, 0.5, passed=None), bare(3, 0.9))
    found, decided = (compare([pair(1, 0.9, 0.1), pair(2, 0.9, 0.9), *more]) for more in ([undecided], []))
    assert found is not None
    assert decided is not None
    assert (found.pairs, found.decided) == (3, 2)
    assert found.passing == decided.passing
    assert (found.same_verdict, found.to_fail, found.to_pass) == (0.5, 1, 0)
    sides = compared_evaluators((each.old, each.new) for each in (pair(1, 0.9, 0.1), undecided))
    found = replace(found, weighted=True, rank_correlation=0.386)
    people, text = compare_with_people([], {}, ScoreScale()), StringIO()
    of = EvaluatorComparison(old=sides[0], new=sides[1], comparison=found, people=people, no_score={})
    report = ReplayReport(
        comparisons=(of,), other_versions=0, all_in_use=True, unscored=(), gone=0, left=0, spent_usd=0.0
    )
    as_text(report, Console(file=text, width=300))
    assert "passed (2 with verdicts)" in text.getvalue()
    assert "Rank correlation of the scores, not weighted: 0.386." in text.getvalue(), "beside means that are"
    assert json.loads(as_json(report))["evaluators"][0]["decided"] == 2


def test_people_who_are_divided_agree_half_with_either_side() -> None:
    """As good, they would be with the side that passes more."""
    pairs = [pair(n, 0.1, 0.9) for n in range(10)]
    labels = {key_of(each.old): HumanLabel(0.1, 0.5, "all", by={"ann": (0, 1), "bob": (0, 0)}) for each in pairs}
    found = compare_with_people(pairs, labels, ScoreScale(0.5)).agreement
    assert found is not None
    assert (found.old, found.new) == (0.5, 0.5)


def test_too_little_to_say() -> None:
    assert compare([]) is None
    found = compare([pair(1, 0.1, 0.9, "c"), pair(2, 0.1, 0.9, "c")])
    assert found is not None
    assert found.mean.interval is None
    no_threshold = compare([EvaluationPair(bare(1, 0.3, passed=None), bare(1, 0.4))])
    assert no_threshold is not None
    assert (no_threshold.passing, no_threshold.same_verdict, no_threshold.to_fail) == (None, None, None)


async def test_a_turn_that_two_monitors_judge_is_compared_once_and_the_labels_of_both_count(tmp_path: Path) -> None:
    """`tenth` draws one of ten and judges later. Either may have it labelled: the probability is 1 - 0.5 * 0.5."""
    subject = bare(1, 0.8).subject
    seldom = bare(
        2, 0.8, monitor="tenth", subject=subject, sampling=Sampling(probability=0.1), ended_at=START + timedelta(1)
    )
    often = bare(1, 0.8, monitor="all", subject=subject)
    [found] = select([PastEvaluation(often), PastEvaluation(seldom)], EvaluationFilter(), {}).scored
    assert found.evaluation == often
    [found] = select([PastEvaluation(seldom), PastEvaluation(often)], EvaluationFilter(), {}).scored
    assert found.evaluation == often
    other = bare(3, 0.8, monitor="tenth", sampling=Sampling(probability=0.1))  # which `all` judged, too
    past = [often, seldom, other, bare(4, 0.8, monitor="all", subject=other.subject)]
    log, path, scales = MemoryLog("labels"), tmp_path / "labels.jsonl", {"helpful": ScoreScale(0.5)}
    labels = [
        label(
            label_id=each.evaluation_id, evaluation_id=each.evaluation_id, evaluator="helpful", evaluator_version="v",
            monitor=each.monitor, subject=each.subject, sampling=each.sampling, judge_score=0.8, score=score,
            label_probability=0.5, given_at=each.ended_at, given_by=each.monitor,
        )
        for each, score in ((often, 1.0), (seldom, 0.0), (other, 1.0))
    ]  # fmt: skip
    await log.append([Record(b"k", label_to_json(each)) for each in labels])
    lines = [{"evaluation_id": each.evaluation_id, "human": each.score, "label_probability": 0.5} for each in labels]
    path.write_text("\n".join(map(json.dumps, lines)))
    wanted = {key_of(often): (0.5, 0.75, 1.0), key_of(other): (1.0, 0.75, 1.0)}
    for found_labels in (await labels_of_page(log, past, scales), labels_of_file(path, past, scales)):
        assert {key: (each.human, each.probability, each.weight) for key, each in found_labels.items()} == wanted


def test_a_file_says_which_of_its_labels_are_of_nothing_that_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of mangled ids looked like a file that somebody had filled in half."""
    path, past = tmp_path / "labels.jsonl", [bare(1, 0.8), bare(2, 0.8)]
    scales = {"helpful": ScoreScale(0.5)}
    unknown = [{"evaluation_id": "mangled", "human": True}] * 3
    other = {"evaluation_id": "1", "evaluator": "polite", "human": True}
    path.write_text("\n".join(map(json.dumps, [*unknown, other])))
    with pytest.raises(ConfigError, match="no label is of an answer in the log that helpful scored; name another file"):
        labels_of_file(path, past, scales)
    known = [{"evaluation_id": each.evaluation_id, "human": True} for each in past]
    path.write_text("\n".join(map(json.dumps, [*known, *unknown, other])))
    assert len(labels_of_file(path, past, scales)) == 2
    assert "left out 3 of 5 labels, not of an answer in the log that helpful scored" in capsys.readouterr().err
