"""What a past evaluation would cost now: its tokens at the prices of today's judge."""

from dataclasses import replace
from typing import Any

import pytest
from evaluation_samples import scored

from collector.config.configured import Config
from collector.config.loading import check
from collector.service.plan_builder import evaluator_version_in, usd_again
from evaluators.results import Usage

PAST = scored(evaluator="helpful", cost_usd=0.000256)
"""400 and 60 tokens at 0.4 and 1.6 US dollars."""


def asking(judge: str, audit: dict[str, Any] | None = None, **prices: float) -> Config:
    judges = {
        name: {"model": name, "usd_per_million_input_tokens": of, "usd_per_million_output_tokens": 4 * of, **prices}
        for name, of in (("mini", 0.4), ("strong", 4.0))
    }
    helpful: dict[str, Any] = {"kind": "g_eval", "evaluation_params": ["input", "actual_output"], "criteria": "Good?"}
    values = {
        "judges": judges, "juries": {"both": {"judges": ["mini", "strong"]}},
        "evaluators": {"helpful": {**helpful, "judge": judge, **({"audit": audit} if audit else {})}}, "monitors": {"helpdesk": {"evaluators": ["helpful"]}},
    }  # fmt: skip
    return check(values, "my.yaml")


@pytest.mark.parametrize(("judge", "expected"), [("mini", 0.000256), ("strong", 0.00256)])
def test_a_dearer_judge_costs_as_much_as_its_prices_say(judge: str, expected: float) -> None:
    assert usd_again(asking(judge), "helpful", PAST) == pytest.approx(expected)


def test_what_another_evaluator_of_several_judges_paid_says_nothing() -> None:
    jury = asking("both")
    same = replace(PAST, evaluator_version=evaluator_version_in(jury, "helpful"))
    assert usd_again(jury, "helpful", PAST) is None
    assert usd_again(jury, "helpful", same) == PAST.cost_usd


@pytest.mark.parametrize("audited", [False, True])
def test_an_audited_evaluation_costs_its_tokens_and_those_of_its_share_of_audits(*, audited: bool) -> None:
    """1,500 and 200 tokens were assumed, with 400 and 60 known, and --max-usd was set far too high."""
    of = asking("mini", audit={"judge": "strong", "share": 0.3})
    own = PAST
    if audited:  # as many tokens again are the audit's
        noted = {"score": 1.0, "probability": 0.3, "input_tokens": 400, "calls": 1}
        own = replace(PAST, usage=Usage(input_tokens=800, output_tokens=120, calls=2), details={"audit": noted})
    assert usd_again(of, "helpful", own) == pytest.approx(0.000256 + 0.3 * 0.00256)
    same = replace(own, evaluator_version=evaluator_version_in(of, "helpful"))
    assert usd_again(of, "helpful", same) == PAST.cost_usd, "what this version paid"
