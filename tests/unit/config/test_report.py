"""What `check` says of a configuration."""

from __future__ import annotations

import re
from typing import Any

import pytest
from configurations import checked

from collector.commands.check.check import report
from collector.commands.check.summary import summary
from collector.service.open_logs import NAMES
from collector.service.plan_builder import known_usd


@pytest.mark.parametrize("link", [None, {"services": ["*"]}], ids=["unlinked", "linked"])
def test_every_topic_is_named_that_is_opened(link: dict[str, list[str]] | None) -> None:
    """Whoever makes topics or grants access to them reads it there."""
    config = checked(
        {"exact": {"kind": "exact_match"}},
        log={"kind": "kafka", "kafka": {"bootstrap_servers": ["b:9092"], "prefix": "p"}},
        assemble={"link": link},
    )
    [line] = [line for line in report(config) if line.startswith("logs")]
    assert all(f"p.{name}," in line for name in NAMES)
    assert ("p.unlinked," in line) == (link is not None)


@pytest.mark.parametrize("instance", [{}, {"group_instance_id": "one"}], ids=["unnamed", "named"])
def test_a_process_without_a_name_is_noticed_before_its_partitions_move(instance: dict[str, str]) -> None:
    kafka = {"bootstrap_servers": ["b:9092"], "prefix": "p", **instance}
    config = checked({"exact": {"kind": "exact_match"}}, log={"kind": "kafka", "kafka": kafka})
    [line] = [line for line in report(config) if line.startswith("logs")]
    assert line.endswith("; no group_instance_id: partitions move at each restart") == (not instance)


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        ({}, True),
        ({"api_key": "none"}, True),
        ({"api_key": "sk-something"}, False),
        ({"base_url": "http://127.0.0.1:8000/v1"}, False),
        ({"headers": {"api-key": "x"}}, False),
    ],
    ids=["left out", "none", "a key", "this machine", "a header"],
)
def test_a_judge_without_a_key_is_noticed_before_it_refuses(judge: dict[str, Any], said: bool) -> None:
    config = checked(
        {"good": {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"]}},
        judges={"main": {"model": "m", **judge}},
    )
    [line] = [line for line in report(config) if line.startswith("judge")]
    assert line.endswith("; no api_key") is said


@pytest.mark.parametrize(
    ("threshold", "line"),
    [
        ({}, "labels: good (passes), half, bad (fails)"),
        ({"threshold": 0.7}, "labels: good, half, bad"),  # it decides
    ],
)
def test_it_says_which_labels_pass(threshold: dict[str, float], line: str) -> None:
    labels = {"good": "Fine.", "half": {"meaning": "So so.", "score": 0.5}, "bad": {"meaning": "No.", "pass": False}}
    config = checked(
        {"right": {"kind": "classifier", "question": "?", "labels": labels, **threshold}},
        monitor={"alerts": {"objectives": {"right": 0.9}}},
        judges={"main": {"model": "m"}},
    )
    assert line in [line.strip() for line in report(config)]


def test_a_planned_rate_is_named_with_its_error_and_calls_are_those_of_all() -> None:
    config = checked(
        {"good": {"kind": "g_eval", "evaluation_steps": ["?"], "evaluation_params": ["input"]}},
        monitor={"sample": "auto", "standard_error": 0.03},
        judges={"main": {"model": "m"}},
    )
    lines = list(report(config))
    [line] = [line for line in lines if line.startswith("monitor")]
    assert "a day's mean needs for a standard error of 0.03; the figures below suppose all conversations" in line
    assert any("1,000 judge calls per 1,000 matching turns" in line for line in lines)


def test_what_a_budget_pays_for_is_named_at_the_turns_that_are_expected() -> None:
    prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 4.0}
    config = checked(
        {"good": {"kind": "g_eval", "evaluation_steps": ["?"], "evaluation_params": ["input"]}},
        monitor={"budget": {"usd_per_hour": 1.5}, "alerts": {"turns_per_hour": 14000}},
        judges={"main": {"model": "m", **prices}},
    )
    [line] = [line for line in report(config) if "the budget pays for" in line]
    cost, share = re.findall(r"([\d.]+) USD an hour; the budget pays for ([\d.]+)%", line)[0]
    assert float(cost) == pytest.approx(14000 * (known_usd(config, "good") or 0.0), abs=0.01)
    assert float(share) == pytest.approx(150 / float(cost), abs=0.06)


@pytest.mark.parametrize(
    ("sample", "of_turns", "of_conversations"),
    [(0.5, "500", "0.5 calls and their cost"), (1, "1,000", "1 call and its cost")],
)
def test_calls_for_conversations_are_named_beside_those_for_turns(
    sample: float, of_turns: str, of_conversations: str
) -> None:
    """They were in no number, so a judge was asked more often than `check` said."""
    evaluators = {
        "good": {"kind": "g_eval", "evaluation_steps": ["?"], "evaluation_params": ["input"]},
        "polite": {"kind": "conversational_g_eval", "evaluation_steps": ["?"]},
    }
    config = checked(evaluators, monitor={"sample": sample}, judges={"main": {"model": "m"}})
    more = f"1,000 matching turns; each conversation adds ≈ {of_conversations}"
    assert f"           ≈ {of_turns} judge calls per {more}" in list(report(config))
    assert f"≈ {of_turns} judge calls for {more}" in "\n".join(summary(config, []))
