"""What a past evaluation would cost now: its tokens at the prices of today's judge."""

from dataclasses import replace
from typing import Any

import pytest
from evaluation_samples import scored

from collector.config.configured import Config
from collector.config.loading import check
from collector.service.plan_builder import evaluator_version_in, usd_again

PAST = scored(evaluator="helpful", cost_usd=0.000256)
"""400 and 60 tokens at 0.4 and 1.6 US dollars."""


def asking(judge: str, **prices: float) -> Config:
    judges = {
        name: {"model": name, "usd_per_million_input_tokens": of, "usd_per_million_output_tokens": 4 * of, **prices}
        for name, of in (("mini", 0.4), ("strong", 4.0))
    }
    helpful: dict[str, Any] = {"kind": "g_eval", "evaluation_params": ["input", "actual_output"], "criteria": "Good?"}
    values = {
        "judges": judges, "juries": {"both": {"judges": ["mini", "strong"]}},
        "evaluators": {"helpful": {**helpful, "judge": judge}}, "monitors": {"helpdesk": {"evaluators": ["helpful"]}},
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
