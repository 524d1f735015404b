"""Alerts where evaluations wait for batches: one on what waits too long, and none on what waits as it should."""

from __future__ import annotations

import asyncio
import subprocess
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batch_server import batch_server
from promtool import run, series, tool
from servers import alertmanager, prometheus, webhook
from service import free_port

from collector.alerting.rules import formats
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import AlertingRule, RuleSet, Timing
from collector.alerting.rules.process import LATE, deferred_groups
from collector.alerting.rules.service import STALE, WEIGHTS
from collector.config.configured import Config
from collector.config.loading import check
from collector.logs.log import Record
from collector.records.json import turn_to_json
from collector.service import evaluate as deferred
from collector.service.app import running
from evaluators.cases import Turn
from evaluators.judges.batches.batch_terms import BatchPace

FAST = Timing(speed=60.0)
PACE = BatchPace(first_look=0.1, longest_look=0.2, settled=1.0, first_retry=0.05, patience=float("inf"))


def configured(urgency: str, url: str = "http://127.0.0.1:1/v1", port: int = 0, hook: str | None = None) -> Config:
    steps = {"kind": "g_eval", "evaluation_steps": ["Look."], "evaluation_params": ["input", "actual_output"]}
    return check(
        {
            "log": {"kind": "memory"},
            "receive": {},
            "evaluate": {"gather": 0.2},
            "judges": {"main": {"model": "m", "base_url": url}},
            "evaluators": {"helpful": steps | {"threshold": 0.7}},
            "monitors": {"nightly": {"evaluators": ["helpful"], "urgency": urgency}},
            "export": {"prometheus": {"port": port}},
            "alerts": {"webhook": hook},
        },
        "test.yaml",
    )


def only(rules: RuleSet, *names: str) -> RuleSet:
    """The alerts of these names, once a minute."""
    alerts = [each for each in rules.alerts() if each.name in names]
    groups = [replace(each, rules=tuple(alerts), interval=60.0) for each in rules.groups[:1]]
    return replace(rules, groups=tuple(groups))


def fires(alert: str, minute: int, *severities: str) -> dict[str, Any]:
    samples = [{"labels": f'{{severity="{each}"}}', "value": 1} for each in severities]
    expr = f'count by (severity) (ALERTS{{alertname="{alert}",alertstate="firing"}})'
    return {"expr": expr, "eval_time": f"{minute}m", "exp_samples": samples}


def test_what_waits_for_longer_than_a_batch_takes_warns_and_for_longer_than_two_pages(tmp_path: Path) -> None:
    """An hour is a minute here: a process whose oldest evaluation gets older, beside one that has young ones."""
    rules = only(rules_of(configured("hours"), FAST), LATE)
    ages = [60.0 * minute for minute in range(80)]
    inputs = [
        series("evalstream_deferred_oldest_seconds", ages, instance="a"),
        series("evalstream_deferred_oldest_seconds", [60.0] * 80, instance="b"),
    ]
    expected = [
        fires(LATE, 25), fires(LATE, 30, "warning"), fires(LATE, 49, "warning"), fires(LATE, 53, "page"),
        fires(LATE, 79, "page"),
    ]  # fmt: skip
    run(tmp_path, configured("hours"), [{"inputs": inputs, "values": expected}], made=rules)


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(formats.text(formats.prometheus(rules_of(configured("hours")))))
    command = [tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_where_nothing_may_wait_there_is_no_such_alert() -> None:
    assert deferred_groups(configured("now").settings, FAST) == ()
    assert LATE not in {each.name for each in rules_of(configured("now")).alerts()}


@pytest.mark.parametrize(("urgency", "stale"), [("now", ("page",)), ("hours", ())])
def test_scores_that_are_a_day_late_are_stale_only_where_they_should_come_at_once(
    urgency: str, stale: tuple[str, ...], tmp_path: Path
) -> None:
    rules = only(rules_of(configured(urgency)), STALE)
    begun = [10.0 * minute for minute in range(24 * 60)]
    scored = [0.0] * 24 * 60
    labels = {"evaluator": "helpful", "monitor": "nightly"}
    inputs = [
        series("evalstream_evaluations_started_total", begun, **labels),
        series("evalstream_evaluations_total", scored, **labels, outcome="scored"),
    ]
    run(tmp_path, configured(urgency), [{"inputs": inputs, "values": [fires(STALE, 23 * 60, *stale)]}], made=rules)


def test_what_waits_and_never_gets_a_score_is_stale_after_two_days(tmp_path: Path) -> None:
    rules = only(rules_of(configured("hours")), STALE)
    begun = [10.0 * minute for minute in range(54 * 60)]
    inputs = [series("evalstream_evaluations_started_total", begun, evaluator="helpful", monitor="nightly")]
    run(tmp_path, configured("hours"), [{"inputs": inputs, "values": [fires(STALE, 53 * 60, "page")]}], made=rules)


def test_weights_of_late_scores_are_not_held_against_the_traffic_of_now() -> None:
    """Those of a night come in a lump: over six hours they do not add up to the traffic."""
    assert WEIGHTS in {each.name for each in rules_of(configured("now")).alerts()}
    assert WEIGHTS not in {each.name for each in rules_of(configured("hours")).alerts()}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_service_whose_batch_does_not_end_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of half an hour ago, by a clock that is sixty times as fast: it has waited for thirty hours."""
    monkeypatch.setattr(deferred, "PACE", PACE)
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(batch_server(looks=10**9))
        hook = await stack.enter_async_context(webhook())
        port = free_port()
        config = configured("hours", provider.base_url, port, hook.url)
        service = await stack.enter_async_context(running(config, {"evaluate", "export"}))
        rules = rules_of(config, FAST)
        text = formats.text(formats.prometheus(rules))
        manager = await stack.enter_async_context(alertmanager(tmp_path, formats.text(formats.alertmanager(rules))))
        seen = await stack.enter_async_context(prometheus(tmp_path, text, [f"127.0.0.1:{port}"], manager))
        await service.logs.turns.append([turn(number, time.time() - 1800.0) for number in range(6)])
        assert await seen.until('evalstream_evaluations_deferred{state="submitted"} > 0') == 5
        assert await seen.until("evalstream_batches_open > 0") >= 1
        async with asyncio.timeout(120):
            while not hook.firing(alertname=LATE):
                await asyncio.sleep(0.1)
        (warning,) = [each for each in rules.alerts() if each.name == LATE and each.severity == "warning"]
        assert isinstance(warning, AlertingRule)
        told = hook.firing(alertname=LATE)[0]
        assert told["labels"]["severity"] == "warning"
        assert told["annotations"]["runbook_url"].endswith(f"{LATE}.md")
        provider.looks = 1
        await seen.until('sum(evalstream_batches_total{outcome="completed"}) > 0')
        assert await seen.until('sum(evalstream_batch_requests_total{outcome="answered"}) == 5') == 5
        assert await seen.until('sum(evalstream_batch_requests_total{outcome="at_once"})') == 1
        assert await seen.until("sum(evalstream_batches_open) == bool 0") == 1


def turn(number: int, when: float) -> Record:
    made = Turn(turn_id=f"t{number}", conversation_id=f"c{number}", input=f"What is {number}?", actual_output="It.")
    return Record(f"c{number}".encode(), turn_to_json(made), timestamp=when, partition=0)
