"""The gate of continuous integration: pairs, intervals, verdicts, and the reports of them."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import scored

from collector.commands.score.gate import GateResult, as_junit, as_markdown, compare_two, compare_with_base, read_base
from collector.commands.score.runner import mixes_steps
from collector.errors import ConfigError
from evaluators.results import Escalation, Evaluation, Subject
from evaluators.turn.length import Length


def run_of(shift: float, number: int = 60, name: str = "helpful", seed: int = 1) -> list[Evaluation]:
    chance = random.Random(seed)
    easy = [chance.uniform(0.2, 0.7) for _ in range(number)]
    noise = random.Random(str(shift))
    return [
        scored(
            n, evaluator=name, score=min(1.0, max(0.0, level + shift + noise.gauss(0, 0.02))),
            subject=Subject(conversation_id=f"c{n}", turn_id=f"t{n}"),
        )
        for n, level in enumerate(easy)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shift", "tolerance", "lower", "verdict"),
    [
        (-0.1, 0.0, (), "worse"),
        (-0.1, 0.2, (), "alike"),
        (0.1, 0.0, (), "better"),
        (0.1, 0.0, ("helpful",), "worse"),
        (0.0, 0.05, (), "alike"),
    ],
)
def test_the_verdict_is_that_of_the_paired_interval(
    shift: float, tolerance: float, lower: tuple[str, ...], verdict: str
) -> None:
    [result] = compare_with_base(run_of(0.001), run_of(shift), tolerance=tolerance, lower_is_better=lower)
    assert result.verdict == verdict
    assert result.comparison is not None
    assert result.comparison.pairs == 60


def test_what_is_not_known_is_not_called_worse() -> None:
    base, new = run_of(0.001, 4), run_of(-0.01, 4)
    assert compare_with_base(base, new, tolerance=0.0)[0].verdict == "unsure"
    assert compare_with_base(base[:1], new[:1], tolerance=0.0)[0].verdict == "unsure"
    assert compare_with_base([], new, tolerance=0.0)[0].verdict == "no pairs"


def test_scores_of_two_versions_of_an_evaluator_have_no_verdict() -> None:
    """Another evaluator scored the same answers lower: that is a difference of scales, and not of the application."""
    other = [replace(evaluation, evaluator_version="f" * 12) for evaluation in run_of(-0.1)]
    [result] = compare_with_base(run_of(0.001), other, tolerance=0.0)
    assert result.verdict == "other version"
    assert "write both into one configuration and run evalstream score FILE" in result.text
    suite = ET.fromstring(as_junit([result])).find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")


def test_scores_by_other_steps_of_the_judge_have_no_verdict() -> None:
    """Each clean job of continuous integration lets the judge write its steps: the same answers were "worse for sure"."""
    base, new = ([replace(each, details={"steps_hash": "a" * 16}) for each in run_of(shift)] for shift in (0.001, -0.1))
    other = [replace(each, details={"steps_hash": "b" * 16}) for each in new]
    [result] = compare_with_base(base, other, tolerance=0.0)
    assert (result.verdict, result.comparison, result.failure) == ("other steps", None, "")
    assert "write evaluation_steps in the configuration, or keep the file log.path between runs" in result.text
    [result] = compare_with_base(base, [*new[:20], *other[20:]], tolerance=0.0)
    assert (result.verdict, result.comparison and result.comparison.pairs) == ("worse", 20), "pairs of the same steps"


def by(first: str, second: str, escalation: Escalation | None = None) -> dict[str, Any]:
    return {"details": {"judges": [{"steps_hash": first}, {"steps_hash": second}]}, "escalation": escalation}


def test_scores_by_other_steps_of_a_member_of_a_jury_have_no_verdict() -> None:
    """The details of a jury's score have the steps beside each member, and its scores by any steps were compared."""
    base, new = ([replace(each, **by("a", "b")) for each in run_of(shift)] for shift in (0.001, -0.1))
    assert compare_with_base(base, new, tolerance=0.0)[0].verdict == "worse"
    other = [replace(each, **by("a", "c")) for each in new]
    assert compare_with_base(base, other, tolerance=0.0)[0].verdict == "other steps"
    failed = {"judges": [{"steps_hash": "a"}, {"model": "m", "error": "judge_timeout"}]}
    some_failed = [replace(each, details=failed) for each in new]
    assert compare_with_base(base, some_failed, tolerance=0.0)[0].verdict == "worse", "its other member has those steps"


def test_a_jurys_base_without_its_members_steps_has_no_verdict() -> None:
    """Earlier releases noted no steps beside a jury's members, and any new run was compared with their scores."""
    member = {"model": "m", "score": 0.5}
    base = [replace(each, details={"judges": [member, member]}) for each in run_of(0.001)]
    new = run_of(-0.1)
    noted = [replace(each, **by("a", "b")) for each in new]
    assert compare_with_base(base, noted, tolerance=0.0)[0].verdict == "other steps"
    assert compare_with_base(noted, base, tolerance=0.0)[0].verdict == "other steps"
    resumed = [*base[:20], *(replace(each, **by("a", "b")) for each in run_of(0.001)[20:])]
    assert mixes_steps(resumed)
    [result] = compare_with_base(resumed, noted, tolerance=0.0)
    assert (result.verdict, result.comparison and result.comparison.pairs) == ("worse", 40), "pairs of the same steps"
    unwritten = [replace(each, details={"judges": [member, member]}) for each in new]
    assert compare_with_base(base, unwritten, tolerance=0.0)[0].verdict == "worse", "no judge wrote steps"


def test_steps_of_a_cascades_judges_are_no_other_steps_of_one_judge() -> None:
    """The pairs that are worth most, those of which only one run's score is by the second judge, were left out."""
    sure, doubt = Escalation(reason="sure", probability=0.05), Escalation(reason="doubt", probability=1.0)
    base = [replace(each, **by("a", "b", sure)) for each in run_of(0.001)]
    new = [replace(each, **by("c", "d", doubt)) for each in run_of(-0.1)]
    assert compare_with_base(base, new, tolerance=0.0)[0].verdict == "worse"
    new[0] = replace(new[0], **by("a", "e", sure))
    assert compare_with_base(base, new, tolerance=0.0)[0].verdict == "other steps", "the first judge wrote others"


def test_two_evaluators_of_one_run_are_compared_case_by_case() -> None:
    """Their own intervals overlap, but nearly every case has a lower score by the second."""
    old, new = run_of(0.001, 20), run_of(-0.05, 30, name="strict")
    two = [Length(name=name, maximum=9) for name in ("helpful", "strict")]
    paired, line = compare_two([*old, *new], *two)
    assert paired is not None
    assert line == f"helpful → strict, case by case: {paired.mean}\n"
    assert paired.pairs == 20
    assert paired.mean.difference == pytest.approx(-0.05, abs=0.02)
    assert paired.mean.interval is not None
    assert paired.mean.interval[1] < 0.0
    assert compare_two(old, *two) == (None, "")


def test_of_one_hundred_runs_that_change_nothing_few_are_called_worse() -> None:
    worse = 0
    for seed in range(200):
        chance = random.Random(seed)
        subjects = [Subject(conversation_id=f"c{n}", turn_id=f"t{n}") for n in range(30)]
        base, new = (
            [scored(n, subject=each, score=chance.random()) for n, each in enumerate(subjects)] for _ in range(2)
        )
        worse += compare_with_base(base, new, tolerance=0.0)[0].verdict == "worse"
    assert worse <= 12, "2.5 per cent are 5 of 200"


def test_reports() -> None:
    results = [
        *compare_with_base(run_of(0.001), run_of(-0.1), tolerance=0.0),
        *compare_with_base([], run_of(0.0, name="polite|kind"), tolerance=0.0),
        *compare_with_base(run_of(0.001, name="short"), run_of(0.1, name="short"), tolerance=0.0),
    ]
    suite = ET.fromstring(as_junit(results)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    failure = suite.find("testcase[@name='helpful']/failure")
    assert failure is not None
    assert "worse for sure" in (failure.get("message") or "")
    assert "It names the price" not in as_junit(results).decode(), "no judged text"
    table = as_markdown(results).splitlines()
    assert len(table) == 5
    assert "| polite\\|kind | 0 |" in table[3]
    assert table[2].endswith("| **worse for sure** |"), "the words of the command"


def test_an_evaluator_without_any_score_is_skipped_and_no_word_is_of_a_comparison() -> None:
    """It was a green case, "not compared", though nobody named a base."""
    suite = ET.fromstring(as_junit([GateResult(evaluator="x"), GateResult(evaluator="y", scored=1, mean=0.5)]))[0]
    assert [[(part.tag, part.get("message") or part.text) for part in case] for case in suite] == [
        [("skipped", "no score")],
        [("system-out", "mean 0.500 of 1 score")],
    ]


def test_evaluations_that_failed_are_errors_unless_their_evaluator_has_a_worse_verdict() -> None:
    """`errors` was always 0, also if a judge did not answer."""
    failed = "not all could be scored: 2 of 3 failed (judge_timeout)"
    results = [
        GateResult(evaluator="some", scored=1, mean=0.5, failed=failed),
        GateResult(evaluator="all", failed="nothing could be scored: 2 of 2 failed (judge_timeout)"),
        GateResult(evaluator="low", scored=1, mean=0.5, problem="mean 0.5 is below 0.6", failed=failed),
        GateResult(evaluator="good", scored=1, mean=0.5),
    ]
    suite = ET.fromstring(as_junit(results))[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "2", "0"]
    assert [[(part.tag, part.get("message")) for part in case] for case in suite] == [
        [("error", failed)],
        [("error", "nothing could be scored: 2 of 2 failed (judge_timeout)")],
        [("failure", f"mean 0.5 is below 0.6; {failed}")],
        [("system-out", None)],
    ]
    assert f"| some | 1 | 0.500 | **`{failed}`** |" in as_markdown(results)


def test_a_key_in_a_markdown_report_can_be_copied() -> None:
    """Its dots were other characters, so that a copied key was found nowhere."""
    failed = "not all could be scored: 1 of 2 failed; name another model (judges.main.model)"
    table = as_markdown([GateResult(evaluator="x", verdict="other steps", scored=1, mean=0.5, failed=failed)])
    assert "(judges.main.model)`" in table
    assert "keep the file log.path between runs**" in table


def test_a_problem_keeps_its_lines_but_in_xml() -> None:
    """The terminal had \\u000a where a plug-in's error has a line end."""
    failed = GateResult(evaluator="x", problem="the first error: line one\nline two")
    assert failed.failure == "the first error: line one\nline two"
    assert b'message="the first error: line one\\u000aline two"' in as_junit([failed])


def test_a_base_that_is_missing_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--output"):
        read_base(tmp_path / "base.jsonl")
