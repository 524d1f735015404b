"""Means and intervals of what was scored from files."""

import json
from dataclasses import replace

import pytest
from evaluation_samples import bare, failed, scored

from collector.commands.replay.comparison import EvaluationPair, compare
from collector.commands.score.configuration import without_file
from collector.commands.score.score import (
    ScoreOptions,
    ScoreSummary,
    _advice,
    _problems,
    as_json,
    as_table,
    below,
    summarize,
)
from evaluators.results import ErrorDetail, Usage


def test_the_interval_of_independent_scores_is_the_plain_one() -> None:
    scores = [0.2, 0.4, 0.6, 0.8, 1.0, 0.5]
    summary = summarize(bare(n, score, f"c{n}") for n, score in enumerate(scores))["helpful"]
    mean = sum(scores) / 6
    deviation = (sum((score - mean) ** 2 for score in scores) / 5) ** 0.5
    assert summary.mean == pytest.approx(mean)
    assert summary.error == pytest.approx(deviation / 6**0.5)
    assert summary.pass_share == pytest.approx(4 / 6)


def test_scores_of_one_conversation_do_not_count_as_independent() -> None:
    alone = summarize(bare(n, n % 2, f"c{n}") for n in range(20))["helpful"]
    together = summarize(bare(n, n % 2, f"c{n % 2}") for n in range(20))["helpful"]
    assert alone.mean == together.mean == 0.5
    assert together.error == pytest.approx(0.5)
    assert alone.error == pytest.approx(0.1147, abs=1e-4)


def test_failures_are_no_scores() -> None:
    summary = summarize([bare(1, 1.0), bare(2, None), bare(3, None, outcome="skipped", error=None)])["helpful"]
    assert (summary.scored, dict(summary.failed), summary.mean) == (1, {"judge_timeout": 1}, 1.0)
    assert summary.interval == pytest.approx((0.05, 1.0)), "one conversation says hardly anything"


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("judge_rate_limited", "; set judges.main.requests_per_minute to the endpoint's limit"),
        ("judge_timeout", "; raise judges.main.timeout, or name a faster model"),
        ("judge_unavailable", "; check base_url, model and api_key of judges.main"),
        ("internal_error", "; mend the evaluator's code: its pytest shows the traceback"),
    ],
)
def test_a_remedy_fits_its_failure(kind: str, remedy: str) -> None:
    """At a rate limit and after a timeout the address, the model and the key are right; so they are for faulty code."""
    assert _advice(kind, "HTTP 429", "main") == remedy


def test_without_a_file_the_remedy_names_the_variables() -> None:
    """It named judges.main, which nobody had written."""
    config = without_file(["answer_relevancy"], None, {"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"})
    error = ErrorDetail(type="judge_denied", message="HTTP 401")
    summaries = summarize([replace(bare(1, None), evaluator="answer_relevancy", error=error)])
    [(_, fields)] = _problems(config, summaries, ScoreOptions(paths=()), ())
    assert fields["failed"].endswith("; check OPENAI_BASE_URL, OPENAI_MODEL and OPENAI_API_KEY")


def test_skips_have_their_reasons() -> None:
    """A CSV whose column had another name was all skipped, with exit status 0 and no word of the reason."""
    reasons = ["missing_field: expected_output"] * 2 + ["incomplete: redacted"]
    by_evaluator = summarize(
        bare(n, None, outcome="skipped", error=None, reason=reason) for n, reason in enumerate(reasons)
    )
    table = as_table(by_evaluator)
    assert "2 missing_field: expected_output" in table
    assert "1 incomplete: redacted" in table
    [plain] = json.loads(as_json(by_evaluator)).values()
    assert plain["skipped"] == 3
    assert plain["skip_reasons"] == {"missing_field: expected_output": 2, "incomplete: redacted": 1}


def test_a_cost_that_is_not_known_of_all_is_said_to_be_a_part() -> None:
    """A cascade whose second judge has no price looked as dear as its first judge alone."""
    summary = summarize(scored(n, cost_usd=0.02 if n else None) for n in range(4))
    [plain] = json.loads(as_json(summary)).values()
    assert (plain["cost_usd"], plain["unpriced"]) == (pytest.approx(0.06), 1)
    assert "at least 0.060 USD" in " ".join(as_table(summary).split())


def test_what_an_open_breaker_sheds_has_no_unknown_cost() -> None:
    """No request was made, and the total was "at least 0.06 USD"."""
    shed = failed(9, cost_usd=None, usage=Usage(), error=ErrorDetail(type="judge_shed", message=""))
    lost = failed(8, cost_usd=None)
    [plain] = json.loads(as_json(summarize([*(scored(n, cost_usd=0.02) for n in range(3)), shed]))).values()
    assert (plain["cost_usd"], plain["unpriced"]) == (pytest.approx(0.06), 0)
    [plain] = json.loads(as_json(summarize([scored(1, cost_usd=0.02), lost]))).values()
    assert plain["unpriced"] == 1


def test_nothing_scored_has_no_mean() -> None:
    assert ScoreSummary().mean is None
    assert ScoreSummary().pass_share is None
    assert '"mean":null' in as_json({"x": ScoreSummary()})
    assert "–" in as_table({"x": ScoreSummary()})


def test_where_lower_is_better_the_line_is_turned_round() -> None:
    summary = summarize([bare(1, 0.2)])["helpful"]
    assert below(summary, 0.9)
    assert not below(summary, 0.2)
    assert below(summary, 0.9, lower_is_better=True)
    assert not below(summary, 0.8, lower_is_better=True)
    assert '"direction":"lower_is_better"' in as_json({"refusal": summary}, {"refusal"})


def test_the_mean_is_rounded_as_in_a_comparison() -> None:
    """One output said 0.641 in the table, and 0.640 beside the difference."""
    evaluations = [bare(n, score, f"c{n}") for n, score in enumerate([0.7, 0.05, 0.05, 0.05])]
    comparison = compare([EvaluationPair(one, one) for one in evaluations])
    assert comparison is not None
    summary = summarize(evaluations)
    assert summary["helpful"].mean == comparison.mean.old == 0.2125
    assert f" {comparison.mean.cells[0]} " in as_table(summary)
