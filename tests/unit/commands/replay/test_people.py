"""Whose verdicts people share more often: pairs of which a side has no verdict."""

from __future__ import annotations

from collections.abc import Hashable
from io import StringIO

import pytest
from evaluation_samples import scored
from rich.console import Console

from collector.calibration.labels import HumanLabel
from collector.commands.replay.comparison import EvaluationPair, compare
from collector.commands.replay.people import compare_with_people
from collector.commands.replay.replay import EvaluatorComparison, ReplayReport, as_text, compared_evaluators
from collector.past.evaluations import key_of
from collector.statistics.agreement import ScoreScale


def test_a_label_that_decides_nothing_agrees_with_nobody() -> None:
    """It counted as passed, by its score of 0.5."""
    pairs = [
        EvaluationPair(scored(n, score=0.5, passed=None if n < 5 else False), scored(n, score=1.0, passed=True))
        for n in range(20)
    ]
    labels: dict[Hashable, HumanLabel] = {
        key_of(pair.old): HumanLabel(0.0, 1.0, "all", probability=1.0) for pair in pairs
    }
    found = compare_with_people(pairs, labels, ScoreScale(by_label=True))
    assert (found.labels, found.undecided) == (15, 5)
    assert found.agreement is not None
    assert (found.agreement.old, found.agreement.new) == (0.0, pytest.approx(1.0))
    said = "People (15 labels, without 5 whose pair lacks a verdict) agree with neither side"
    assert found.verdict.startswith(said)
    few = compare_with_people(pairs[:12], labels, ScoreScale(by_label=True))
    assert "people labelled 7 of these pairs, without 5 whose pair lacks a verdict, and 10 are" in few.verdict


@pytest.mark.parametrize("all_in_use", [True, False])
def test_without_an_interval_from_helps_only_if_the_old_version_judged_more(*, all_in_use: bool) -> None:
    """Scores of other versions, which --from brings too, are left out: the remedy did not help."""
    pairs = [EvaluationPair(scored(1, score=0.2), scored(1, score=0.8))]
    old, new = compared_evaluators((pair.old, pair.new) for pair in pairs)
    people = compare_with_people(pairs, {}, ScoreScale())
    of = EvaluatorComparison(old=old, new=new, comparison=compare(pairs), people=people, no_score={})
    report = ReplayReport(
        comparisons=(of,), other_versions=12, all_in_use=all_in_use, unscored=(), gone=0, left=0, spent_usd=0.0
    )
    text = StringIO()
    as_text(report, Console(file=text, width=300))
    assert (
        "that the old version judged; begin earlier with --from, if the old version judged more then."
        in text.getvalue()
    )
    assert ("rejudge --what all has these answers scored" in text.getvalue()) is all_in_use
    assert ("so no command scores these answers by it" in text.getvalue()) is not all_in_use
