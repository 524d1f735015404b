"""Unit tests of rules as promtool runs them: input series out of simulated streams, expectations, and the run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from streams import Stream, values

from collector.alerting.rules import drops
from collector.alerting.rules.formats import prometheus, text
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import AlertingRule, RecordingRule, RuleSet
from collector.alerting.rules.scores import COUNTERS
from collector.config.configured import Config
from collector.config.loading import check

VERSION = "0123456789ab"
FRUGAL = {"GOMAXPROCS": "1", "GOGC": "400"}
"""promtool with one thread and less frequent garbage collection: a quarter less CPU, for 75 MB more memory."""
SERIES = {"evaluator": "helpful", "evaluator_version": VERSION, "monitor": "chatbot", "segment": "all"}


def tool(name: str) -> str:
    """Where a tool of Prometheus' is; without it the test is skipped, under CI it fails."""
    found = shutil.which(name)
    if found is None:
        missing = f"{name} is missing (apt install prometheus prometheus-alertmanager)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return found


def configured(*, sample: float = 1.0, **alerts: Any) -> Config:
    """One monitor with one evaluator of a judge's, held to 0.77."""
    return check(
        {
            "judges": {"main": {"model": "m"}},
            "evaluators": {
                "helpful": {
                    "kind": "g_eval",
                    "criteria": "Does it help?",
                    "evaluation_params": ["input", "actual_output"],
                    "threshold": 0.77,
                }
            },
            "monitors": {"chatbot": {"evaluators": ["helpful"], "sample": sample, "alerts": alerts}},
        },
        "test.yaml",
    )


def series(name: str, numbers: Sequence[float] | str, **labels: str) -> dict[str, str]:
    written = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{written}}}", "values": numbers if isinstance(numbers, str) else values(numbers)}


def estimator(stream: Stream, instance: str = "a") -> list[dict[str, str]]:
    """What a replica that counted the stream would have been scraped for."""
    labels = {**SERIES, "instance": instance, "job": "evalstream"}
    counters = [
        series(name, [getattr(total, key) for total, _, _ in stream.totals], **labels) for key, name in COUNTERS.items()
    ]
    counters += [
        series(name, [getattr(total, key) for total in stream.evidence], **labels)
        for key, name in drops.COUNTERS.items()
    ]
    passed = [passed for _, _, passed in stream.totals]
    failed = [total.w - ok for (total, _, ok) in stream.totals]
    scored = [count for _, count, _ in stream.totals]
    weight = "evalstream_verdict_weight_total"
    return [
        *counters,
        series(weight, passed, **labels, verdict="pass"),
        series(weight, failed, **labels, verdict="fail"),
        series("evalstream_verdicts_total", scored, **labels, verdict="pass"),
        series("evalstream_evaluations_total", scored, **labels, outcome="scored"),
        series("gen_ai_evaluation_score_count", scored, **labels),
        series("evalstream_evaluation_weight_total", [total.w for total, _, _ in stream.totals], **labels),
    ]


def traffic(
    sampled: Sequence[float],
    sampled_out: Sequence[float],
    instance: str = "a",
    *,
    begun: Sequence[float] | None = None,
) -> list[dict[str, str]]:
    """What a monitor did with turns; without `begun` its evaluator took up every one that was sampled."""
    labels = {"monitor": "chatbot", "instance": instance}
    return [
        series("evalstream_turns_total", sampled, **labels, outcome="sampled"),
        series("evalstream_turns_total", sampled_out, **labels, outcome="sampled_out"),
        series(
            "evalstream_evaluations_started_total", sampled if begun is None else begun, **labels, evaluator="helpful"
        ),
        series("evalstream_build_info", "1x" + str(len(sampled) - 1), version="1"),
    ]


def in_use(values: str, evaluator: str = "helpful") -> dict[str, str]:
    """When an evaluator of turns is in use: 1."""
    of = {"evaluator": evaluator, "evaluator_version": VERSION, "monitor": "chatbot", "instance": "a"}
    return series("evalstream_evaluator_info", values, **of, scope="turn", better="higher")


def _name(rule: RecordingRule | AlertingRule) -> str:
    return rule.record if isinstance(rule, RecordingRule) else rule.name


def rules_behind(rules: RuleSet, expressions: Iterable[str]) -> RuleSet:
    """The rules that the series and alerts of these expressions are made of, also those that a regular expression names."""
    every = [rule for group in rules.groups for rule in group.rules]
    read = {_name(rule): set[str]() for rule in every}

    def named_in(text: str) -> set[str]:
        patterns = re.findall(r'alertname=~"([^"]*)"', text)
        matching = {name for name in read for pattern in patterns if re.fullmatch(pattern, name)}
        return matching | read.keys() & re.findall(r"[\w:]+", text)

    for rule in every:
        read[_name(rule)] |= named_in(str(rule))
    behind, further = set[str](), named_in(" ".join(expressions))
    while further:
        behind |= further
        further = set[str]().union(*(read[name] for name in further)) - behind
    groups = (
        replace(group, rules=tuple(each for each in group.rules if _name(each) in behind)) for group in rules.groups
    )
    return replace(rules, groups=tuple(group for group in groups if group.rules))


def firing(minute: int, alert: str, *labels: Mapping[str, str]) -> dict[str, Any]:
    """At a minute these alerts of a name fire and no others of it; annotations are looked at elsewhere."""
    return {"minute": minute, "alert": alert, "labels": [dict(each) for each in labels]}


def run(folder: Path, config: Config, cases: Sequence[Mapping[str, Any]], *, made: RuleSet | None = None) -> None:
    """Run cases of `inputs`, `alerts` (see `firing`) and `values` (expression, minute, expected samples).

    `texts` are promtool's own `alert_rule_test`.

    Alerts are compared through the series ALERTS, which holds their labels without their texts. Only the rules run that
    the cases look at: most time goes to the rules of falls, which most other rules do not read.
    """
    tests: list[dict[str, Any]] = []
    for case in cases:
        expressions: list[dict[str, Any]] = list(case.get("values", []))
        for each in case.get("alerts", []):
            expr = (
                f'count by (alertname, severity, window) (ALERTS{{alertname=~"{each["alert"]}",alertstate="firing"}})'
            )
            samples = [{"labels": _labels(labels), "value": 1} for labels in each["labels"]]
            expressions.append({"expr": expr, "eval_time": f"{each['minute']}m", "exp_samples": samples})
        tests.append(
            {
                "interval": "1m",
                "input_series": case["inputs"],
                "promql_expr_test": expressions,
                "alert_rule_test": list(case.get("texts", [])),
            }
        )
    looked_at = [each["expr"] for test in tests for each in test["promql_expr_test"]]
    looked_at += [each["alertname"] for test in tests for each in test["alert_rule_test"]]
    rules, written = folder / "rules.yml", rules_behind(made or rules_of(config), looked_at)
    rules.write_text(text(prometheus(written)))
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        # else in any order, and texts would show the means of this minute or of the one before
        "group_eval_order": [group.name for group in written.groups],
        "tests": tests,
    }
    path = folder / "tests.yml"
    path.write_text(yaml.safe_dump(document, width=1_000_000))
    command = [tool("promtool"), "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **FRUGAL})
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"
