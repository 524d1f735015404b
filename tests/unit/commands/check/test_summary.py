"""The summary of `evalstream check`: what needs attention is in it, and it is short."""

from __future__ import annotations

from typing import Any

from collector.alerting.rules.detectability import alert_lines
from collector.commands.check.check import report
from collector.commands.check.summary import summary
from collector.config.loading import check


def summed(**more: Any) -> list[str]:
    values: dict[str, Any] = {
        "judges": {"main": {"model": "m"}},
        "evaluators": {
            f"e{number}": {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"]} for number in range(30)
        },
        "monitors": {f"m{number}": {"evaluators": [f"e{number}"]} for number in range(9)},
        **more,
    }
    config = check(values, "c.yaml")
    return list(summary(config, report(config)))


def test_what_needs_attention_comes_first() -> None:
    lines = summed(monitors={"all": {"evaluators": ["e0"], "references": {"wait": 60}}})
    assert lines[0] == "c.yaml: valid"
    assert lines[1].startswith("note ")
    assert any("references does nothing" in line for line in lines)


def test_a_judge_without_reasons_is_said_to_be_compared_with_nothing() -> None:
    silent = {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"], "reason": "none"}
    lines = summed(evaluators={"silent": silent}, monitors={"all": {"evaluators": ["silent"]}})
    assert any("silent: with `reason: none`" in line for line in lines)


def test_an_audited_evaluator_with_a_threshold_is_not_said_to_have_no_alert() -> None:
    """Its alert is on its audits: `no score alert: e0 (no threshold written, no target)` was untrue."""
    judged = {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"]}
    audited = {**judged, "judge": "main", "audit": {"judge": "strong"}}
    more = {
        "judges": {"main": {"model": "m"}, "strong": {"model": "n"}},
        "evaluators": {"e0": {**audited, "threshold": 0.6}, "e1": audited, "e2": {**judged, "judge": "main"}},
        "monitors": {"all": {"evaluators": ["e0", "e1", "e2"]}},
    }
    lines = summed(**more)
    assert "alerts     if a mean or share gets worse than its target: e0:audit 0.6" in lines
    assert "           no score alert: e1, e1:audit and e2 (no threshold written, no target)" in lines
    details = [line for line in alert_lines(check({**more}, "c.yaml")) if "no score alert" in line]
    assert [line.split()[1] for line in details] == ["all/e1:", "all/e1:audit:", "all/e2:"]


def test_an_alert_on_a_share_is_named() -> None:
    """`no score alert: topic` alone sounded as if the target of the share were ignored."""
    topic = {
        "kind": "classifier",
        "question": "What about?",
        "labels": {"billing": "money", "other": "else"},
        "evaluation_params": ["input"],
        "judge": "main",
    }
    lines = summed(
        judges={"main": {"model": "m"}}, evaluators={"topic": topic},
        monitors={"all": {"evaluators": ["topic"], "alerts": {"shares": {"topic": {"other": {"at_most": 0.3}}}}}},
    )  # fmt: skip
    assert "alerts     if a mean or share gets worse than its target: topic=other 0.3" in lines
    assert "           no score alert: topic (no threshold written, no target)" in lines


def test_targets_that_differ_between_monitors_name_these() -> None:
    """`exact 0.8, exact 0.9`: nobody could tell which was which."""
    uses = {"evaluators": ["exact", "same"]}
    lines = summed(
        evaluators={"exact": {"kind": "exact_match"}, "same": {"kind": "exact_match", "threshold": 0.5}},
        monitors={"a": {**uses, "alerts": {"targets": {"exact": 0.8}}}, "b": {**uses, "alerts": {"targets": {"exact": 0.9}}}, "c": uses},
    )  # fmt: skip
    assert "alerts     if a mean or share gets worse than its target: a/exact 0.8, same 0.5, b/exact 0.9" in lines
    assert "           no score alert: c/exact (no threshold written, no target)" in lines


def test_many_monitors_and_an_unknown_cost_are_said_briefly() -> None:
    lines = summed()
    assert len([line for line in lines if not line.startswith("note ")]) <= 14
    assert "           and 6 more monitors" in lines
    assert any("cost unknown (no price set, no list price)" in line for line in lines)
    assert not any("USD" in line for line in lines)


G_EVAL = {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"]}


def test_each_evaluator_has_its_own_share_and_boosts_are_said() -> None:
    lines = summed(
        monitors={"m0": {"evaluators": ["e0", {"name": "e1", "sample": 0.1}], "boost": {"negative_feedback": 3}}}
    )
    assert "monitor    m0: every turn; judged by e0 in all conversations, by e1 in 10 % of conversations" in lines
    boosted = "sampled more often: negative feedback × 3 (judge calls and costs here do not include this; means are"
    assert any(boosted in line for line in lines)


def test_two_monitors_that_use_one_evaluator_pay_once_and_the_guess_is_said() -> None:
    judge = {"model": "m", "usd_per_million_input_tokens": 1, "usd_per_million_output_tokens": 0}
    several = {"all": {"evaluators": ["e"]}, "tenth": {"sample": 0.1, "evaluators": ["e"]}}
    lines = summed(judges={"main": judge}, evaluators={"e": G_EVAL}, monitors=several)
    guess = "assuming 1,500 tokens in and 200 out per evaluation"
    assert any(
        f"≈ 1,000 judge calls, ≈ 1.50 USD ({guess}) for 1,000 turns, if all monitors match them" in line
        for line in lines
    )


def test_the_cost_is_that_of_calls_so_far_where_there_are_any() -> None:
    judge = {"model": "m", "usd_per_million_input_tokens": 1, "usd_per_million_output_tokens": 0}
    values = {"judges": {"main": judge}, "evaluators": {"e": G_EVAL}, "monitors": {"all": {"evaluators": ["e"]}}}
    lines = list(summary(check(values, "c.yaml"), [], {"e": (0.5, 1000)}))
    assert any(
        "≈ 0.50 USD (by calls since the start, with the same share skipped) for 1,000 matching turns" in line
        for line in lines
    )


def test_a_cluster_has_one_line_and_a_retention_that_is_not_near_none() -> None:
    config = check({"evaluators": {"r": {"kind": "refusal"}}, "monitors": {"m": {"evaluators": ["r"]}}}, "c.yaml")
    details = [
        "           v: does not exist yet",
        "           now unknown (no broker answers)", "           now unknown (no broker answers)",
        "retention  unknown at h:1: no broker answers", "retention  t: g has used less than 25% of retention.ms",
        "retention  u: g has used more than 50% of retention.ms", "           2 records are deleted already", "           raise it",
        "traffic    none",
    ]  # fmt: skip
    lines = list(summary(config, details))
    assert lines[1:5] == ["kafka      not checked: no broker answers", *details[5:8]]
    assert lines[5].startswith("receive")
