"""Monitors with `urgency: hours`: what is refused, what `check` says, and which part of a configuration they are."""

from __future__ import annotations

from typing import Any

import pytest

from collector.commands.check.check import report
from collector.config.configured import Config
from collector.config.loading import check
from collector.config.urgency import LONGEST_WAIT, deferred_part
from collector.errors import ConfigError
from collector.judging.open_judges import judges_in_use
from collector.service.plan_builder import build_unasked_plan

G_EVAL = {"kind": "g_eval", "evaluation_steps": ["Look."], "evaluation_params": ["input"]}
PRICES = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 2.0}


def configured(monitor: dict[str, Any] | None = None, judge: dict[str, Any] | None = None, **rest: Any) -> Config:
    values: dict[str, Any] = {
        "judges": {"mini": {"model": "m", **PRICES, **(judge or {})}, "big": {"model": "b", **PRICES}},
        "evaluators": {
            "helpful": {**G_EVAL, "judge": "mini"},
            "strong": {**G_EVAL, "judge": "big"},
            "exact": {"kind": "exact_match"},
        },
        "monitors": {
            "slow": {"evaluators": ["helpful", "exact"], "urgency": "hours", **(monitor or {})},
            "quick": {"evaluators": ["strong"]},
        },
    }
    return check(values | rest, "my.yaml")


def refused(**changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        configured(**changes)
    return str(error.value)


def test_only_what_asks_a_judge_waits() -> None:
    slow, quick = build_unasked_plan(configured()).monitors
    assert {each.evaluator.name: each.deferred for each in slow.assignments} == {"helpful": True, "exact": False}
    assert not any(each.deferred for each in quick.assignments)
    assert slow.assignments[0].expected_usd == pytest.approx(quick.assignments[0].expected_usd / 2)


def test_the_part_that_waits_opens_no_other_judges() -> None:
    part = deferred_part(configured())
    assert part is not None
    assert list(part.settings.monitors) == ["slow"]
    assert judges_in_use(part) == ["mini"]
    assert deferred_part(configured({"urgency": "now"})) is None


def test_scores_wait_for_their_audits_as_long() -> None:
    audited = {**G_EVAL, "judge": "mini", "audit": {"judge": "big", "share": 0.5}}
    part = deferred_part(
        configured(
            evaluators={"helpful": audited, "exact": {"kind": "exact_match"}, "strong": {**G_EVAL, "judge": "big"}}
        )
    )
    assert part is not None
    audit = part.evaluators["helpful"].audit
    assert audit is not None
    assert audit.patience == LONGEST_WAIT


@pytest.mark.parametrize("api", ["decisions", "systemone"])
def test_a_judge_without_batches_is_refused(api: str) -> None:
    error = refused(judge={"api": api, "base_url": "http://127.0.0.1:1/v1"})
    assert (
        f"monitors.slow.urgency: helpful asks judge mini (api: {api}), which cannot be asked in batches; "
        "write now, or use it in another monitor"
    ) in error


def test_a_fallback_without_batches_is_refused() -> None:
    decider = {"model": "d", "api": "decisions", "base_url": "http://127.0.0.1:1/v1", **PRICES}
    steps = {**G_EVAL, "judge": "mini"}
    judges = {"mini": {"model": "m", **PRICES, "fallback": "decider"}, "decider": decider, "big": {"model": "b"}}
    error = refused(
        judges=judges,
        evaluators={"helpful": steps, "strong": {**G_EVAL, "judge": "big"}, "exact": {"kind": "exact_match"}},
    )
    assert "monitors.slow.urgency: helpful asks judge decider (api: decisions)" in error


def test_what_stores_no_text_is_refused() -> None:
    assert "monitors.slow.urgency: hours stores judges' answers in the log" in refused(store_text=False)


def test_a_monitor_that_asks_nobody_is_refused() -> None:
    assert "monitors.slow.urgency: none of its evaluators asks a judge" in refused(monitor={"evaluators": ["exact"]})


def test_the_plan_says_what_is_expected() -> None:
    text = "\n".join(report(configured(traffic={"spans_per_second": 50})))
    assert "requests gather for 10 min, then go into batches of mini: 50 % cheaper" in text
    assert "up to 864,000 evaluations of all such monitors become due in a day" in text
    assert "it sheds the rest; raise max_deferred, or sample less" in text
    assert "judge mini: 10 requests/s, about 0 in flight" in text
    assert "judge big: 10 requests/s, about 20 in flight" in text
    assert "log.retention is" not in text


def test_a_short_retention_is_named() -> None:
    text = "\n".join(report(configured(log={"retention": "2d"})))
    assert "log.retention is shorter than the three days that an evaluation may wait; set it to 4d or more" in text
