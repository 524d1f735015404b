"""The summary of `evalstream check`: what needs attention is in it, and it is short."""

from __future__ import annotations

from typing import Any

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


def test_many_monitors_and_an_unknown_cost_are_said_briefly() -> None:
    lines = summed()
    assert len([line for line in lines if not line.startswith("note ")]) <= 14
    assert "           and 6 more monitors" in lines
    assert any("cost unknown (no price set, none listed)" in line for line in lines)
    assert not any("USD" in line for line in lines)


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
