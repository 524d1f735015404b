"""The generated rules, run by promtool on simulated counters."""

from __future__ import annotations

import asyncio
import json
import math
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from promtool import SERIES, VERSION, configured, estimator, firing, in_use, run, series, tool, traffic
from streams import MEAN, Stream, drop_at, together

from collector.alerting.rules.formats import FORMATS, text
from collector.alerting.rules.generate import rules_hash, rules_of
from collector.alerting.rules.model import AlertingRule, Fact, RecordingRule, RuleGroup
from collector.alerting.rules.series import EARLY, NEW_SCORES, PROCESS_AGE, PROCESS_FRESH, SCORES_INCREASE, WEIGHT_CHECK
from collector.alerting.rules.targets import detector, targets
from collector.commands.init import QUESTIONS, answers_of, configuration
from collector.config.configured import Config
from collector.config.loading import check
from collector.config.settings import CascadeSettings
from collector.export.exporter import ExportContext
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.statistics.bounded_sums import Sums
from collector.statistics.incident import SETTLING_INTERVALS, DropDetector, DropLife, Fall, recovery_threshold
from collector.telemetry.registry import Telemetry
from evaluators import Composite, evaluate
from evaluators.evaluation import make_record
from evaluators.results import Sampling
from evaluators.testing import a_turn
from evaluators.turn.contains import Contains
from evaluators.turn.exact_match import ExactMatch

pytestmark = pytest.mark.timeout(600)  # promtool reckons a day of rules, minute by minute
DAY = 1440
EVERYTHING = ".+"


def detector_of(config: Config) -> DropDetector:
    held = targets(config)
    return detector(held[0], held, config.settings.alerts, 1)


def life_of(config: Config) -> DropLife:
    days = config.settings.alerts.false_recovery_days
    return DropLife(detector_of(config), recovery_threshold(days * 86400.0, 60.0))


def by_plain_reference(config: Config, stream: Stream) -> list[tuple[float, float, Fall | None]]:
    """After each minute, from the sums and without any Prometheus: the evidence, that of a recovery, and the fall."""
    life, path = life_of(config), []
    for minute, sums in enumerate(stream.deltas()):
        life.step(minute, sums)
        path.append((life.evidence, life.recovery, life.fall))
    return path


def first_fall(path: list[tuple[float, float, Fall | None]], start: int, number: int = 1) -> int:
    return next(minute for minute, (*_, fall) in enumerate(path) if minute >= start and fall and fall.number == number)


def in_full(minutes: int, stream: Stream) -> list[dict[str, str]]:
    counts = [count for _, count, _ in stream.totals]
    return [*estimator(stream), *traffic(counts, [0] * (minutes + 1))]


def as_init_writes_it() -> Config:
    answers = answers_of(dict.fromkeys(QUESTIONS), lambda _: "")
    return check(yaml.safe_load(configuration(answers)), "evalstream.yaml")


def with_everything() -> Config:
    """A page, audits, a judge that has to be proven, an objective, a share of a label, segments and a cascade."""
    judge = {"kind": "g_eval", "criteria": "x", "evaluation_params": ["input", "actual_output"], "threshold": 0.77}
    return check(
        {
            "judges": {"main": {"model": "m"}, "strong": {"model": "n"}},
            "cascades": {"both": {"first": "main", "then": "strong"}},
            "evaluators": {
                "helpful": {**judge, "judge": "main"},
                "polite": {**judge, "judge": "main", "audit": {"judge": "strong"}},
                "careful": {**judge, "judge": "both"},
                "outcome": {"kind": "classifier", "question": "?", "labels": {"a": "A.", "b": "B."}, "judge": "main"},
            },
            "monitors": {
                "chatbot": {
                    "evaluators": ["helpful", "polite", "careful", "outcome"],
                    "alerts": {"objectives": {"helpful": 0.88}, "shares": {"outcome": {"b": {"at_most": 0.1}}}},
                }
            },
            "page": {},
            "export": {"prometheus": {"segment_by": "service", "segments": ["web"]}},
            "alerts": {
                "by_segment": True,
                "min_agreement": 0.4,
                "expected_usd_per_hour": 3,
                "heartbeat": "https://x.example",
            },
        },
        "test.yaml",
    )


@pytest.mark.parametrize("name", ["prometheus", "alertmanager"])
@pytest.mark.parametrize("of", [as_init_writes_it, with_everything, configured])
def test_the_tools_of_prometheus_accept_what_is_written(tmp_path: Path, name: str, of: Callable[[], Config]):
    file, render = FORMATS[name]
    path = tmp_path / file
    path.write_text(text(render(rules_of(of()))))
    command = {
        "prometheus": [tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal"],
        "alertmanager": [tool("amtool"), "check-config"],
    }[name]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("minutes", [DAY // 8, pytest.param(DAY, marks=pytest.mark.long)])
def test_in_control_for_a_day_nothing_fires(tmp_path: Path, minutes: int):
    stream = Stream(per_minute=100 / 60, seed=3).run(minutes)
    silent = [firing(minute, EVERYTHING) for minute in range(60, minutes, 30)]
    run(tmp_path, configured(objectives={"helpful": 0.85}), [{"inputs": in_full(minutes, stream), "alerts": silent}])


@pytest.mark.long
def test_a_drop_of_a_fifth_is_paged_within_the_predicted_time(tmp_path: Path):
    """100 an hour, from 0.80 to 0.60: simulations say 1.3 h for the evidence and 0.8 h for the test of the mean."""
    config = configured()
    stream = Stream(per_minute=100 / 60, mean=drop_at(360, 0.2), seed=5).run(600)
    dropped = {"alertname": "EvalstreamScoreDropped", "severity": "page"}
    found = 360 + 180
    evidence_at = first_fall(by_plain_reference(config, stream), 360)
    assert evidence_at < found
    case = {
        "inputs": in_full(600, stream),
        "alerts": [
            *(firing(minute, EVERYTHING) for minute in range(60, 361, 30)),
            *(firing(minute, EVERYTHING, dropped) for minute in (evidence_at + LATE, found)),
        ],
        "values": [_falls(found, 1)],
    }
    run(tmp_path, config, [case])


def _falls(minute: int, count: int, alert: str = "EvalstreamScore.*") -> dict[str, object]:
    """So many alerts on scores fire, of whatever labels."""
    known = f'count(ALERTS{{alertname=~"{alert}",alertstate="firing"}}) or vector(0)'
    return {"expr": known, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": count}]}


@pytest.mark.long
def test_one_fall_is_one_alert_however_many_windows_show_it(tmp_path: Path):
    """It was nine: a warning and a page for each of four windows, and the detector's. It stays the same alert from the
    first test that finds it to the recovery; only a further fall is another one."""
    levels = ((60, MEAN), (160, 0.4), (330, 0.9))
    stream = Stream(per_minute=4, mean=lambda now: next(m for end, m in levels if now < end), seed=7).run(330)
    config = configured(objectives={"helpful": 0.88})
    path = by_plain_reference(config, stream)
    begin = next(minute for minute, (*_, fall) in enumerate(path) if fall)
    falls = {fall.number for *_, fall in path if fall}
    over = [
        {
            "expr": 'count(evalstream:score_miss{evaluator="helpful"} > 4)',
            "eval_time": "150m",
            "exp_samples": [{"labels": "{}", "value": 4}],
        },
        {
            "expr": 'count(count_over_time(ALERTS{alertname=~"EvalstreamScore.*|EvalstreamPass.*",severity="page"}[5h]))',
            "eval_time": "330m",
            "exp_samples": [{"labels": "{}", "value": len(falls)}],
        },
    ]
    at_once = [_falls(minute, 1, "EvalstreamScore.*|EvalstreamPass.*") for minute in (begin + LATE, 90, 120, 159)]
    run(
        tmp_path, config, [{"inputs": in_full(330, stream), "values": [_falls(59, 0), *at_once, *over, _falls(329, 0)]}]
    )


@pytest.mark.long
def test_one_step_is_one_fall_and_its_level_is_the_one_after_it(tmp_path: Path):
    """It was two alerts: the first level was a mix of before and after, and its correction counted as a further fall."""
    levels = ((60, 0.9), (61, 0.75), (62, 0.5), (120, 0.2))
    stream = Stream(per_minute=60, mean=lambda now: next(m for end, m in levels if now < end), seed=3).run(120)
    path = by_plain_reference(configured(), stream)
    assert {fall.number for *_, fall in path if fall} == {1}
    told = {
        "expr": 'count(count_over_time(ALERTS{alertname="EvalstreamScoreDropped"}[2h]))',
        "eval_time": "120m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }
    level = is_near("evalstream:drop_level", 0.2, 119)
    level["expr"] = str(level["expr"]).replace("0.0001", "0.03")
    values = [told, level, *life_in_rules(path, 3)]
    summary = "helpful of chatbot: the mean score is below its target of 0.77: it fell from 0.899 to 0.2"
    description = (
        "The mean fell between 1970-01-01 01:01:00 +0000 UTC and 1970-01-01 01:03:00 +0000 UTC, from 0.899 to 0.2. "
        "No part of the traffic is known to explain it. "
        "The mean of helpful (chatbot) over the last hour, which may have scores from before the fall, is 0.675 (95 %: ± 0.013), "
        "from 3630 effective conversations; its target is 0.77. More than 4 standard errors on the wrong side of the target: the mean "
        "of 15m (0.211), 1h (0.675), 6h (0.732), 24h (0.732). The alert ends once the mean is surely nearer to its "
        "target than to the level to which it fell, and within 0.1 of its target."
    )
    run(
        tmp_path,
        configured(),
        [{"inputs": in_full(120, stream), "values": values, "texts": [page(80, 1, summary, description)]}],
    )


@pytest.mark.long
def test_what_a_process_found_about_a_fall_is_said_until_the_alert_ends(tmp_path: Path):
    """After a restart, or once the process saw the end before Prometheus, the text said: "No part of the traffic is known
    to explain it" and nothing of the judge. A fall that comes later is told without what was found about this one."""
    levels = ((60, 0.9), (90, 0.3), (180, 0.95), (230, 0.3))
    stream = Stream(per_minute=60, mean=lambda now: next(m for end, m in levels if now < end), seed=3).run(230)
    path = by_plain_reference(configured(), stream)
    ended = next(minute for minute, (*_, fall) in enumerate(path) if minute > 90 and not fall)
    again = next(minute for minute, (*_, fall) in enumerate(path) if minute >= 180 and fall)
    of = {"evaluator": "helpful", "monitor": "chatbot"}
    version = of | {"evaluator_version": VERSION}
    found = [
        series("evalstream_drop_explained_ratio", "_x64 0.9x4 _ 0x20", **of, slice="region=eu-west", instance="a"),
        series("evalstream_drop_explained_ratio", "_x75 0.8x4", **of, slice="region=eu-west", instance="b"),
        series("evalstream_judge_moved", "_x64 0.02x4", **version, verdict="unchanged", instance="a"),
    ]
    text = 'evalstream:drop_cause{{slice="region=eu-west"}} == {0} and on () evalstream:judge_verdict == 0.02'
    values = [
        {"expr": text.format(share), "eval_time": f"{minute}m", "exp_samples": [
            {"labels": 'evalstream:drop_cause{evaluator="helpful", monitor="chatbot", slice="region=eu-west"}', "value": share}
        ]}
        for share, minute in ((0.9, 68), (0.9, 74), (0.8, 78), (0.8, ended - 1))
    ]  # fmt: skip
    gone = [
        {"expr": "evalstream:drop_cause or evalstream:judge_verdict", "eval_time": f"{minute}m", "exp_samples": []}
        for minute in (ended + LATE, again + LATE)
    ]
    run(tmp_path, configured(), [{"inputs": [*in_full(230, stream), *found], "values": [*values, *gone]}])


@pytest.mark.long
def test_an_alert_that_begins_minutes_after_another_says_nothing_of_the_causes_of_that(tmp_path: Path):
    """The second page named the part of the first fall, though the process said that no part explained this one."""

    def stream_until(recovered: int) -> tuple[Stream, list[tuple[float, float, Fall | None]]]:
        levels = ((60, 0.9), (90, 0.3), (recovered, 0.95), (recovered + 20, 0.1))
        stream = Stream(per_minute=60, mean=lambda now: next(m for end, m in levels if now < end), seed=3)
        stream = stream.run(recovered + 20)
        return stream, by_plain_reference(configured(), stream)

    _, path = stream_until(150)
    ended = next(minute for minute, (*_, fall) in enumerate(path) if minute > 90 and not fall)
    stream, path = stream_until(ended)
    again = next(minute for minute, (*_, fall) in enumerate(path) if minute > ended and fall)
    assert again - ended <= 4
    of = {"evaluator": "helpful", "monitor": "chatbot", "slice": "region=eu-west", "instance": "a"}
    found = series("evalstream_drop_explained_ratio", f"_x64 0.9x{ended - 66} 0x30", **of)
    gone = {"expr": "evalstream:drop_cause", "exp_samples": []}
    held = {
        "labels": 'evalstream:drop_cause{evaluator="helpful", monitor="chatbot", slice="region=eu-west"}',
        "value": 0.9,
    }
    values = [
        {"expr": "evalstream:drop_cause", "eval_time": f"{ended - 1}m", "exp_samples": [held]},
        *({**gone, "eval_time": f"{minute}m"} for minute in (again, again + LATE)),
    ]
    run(tmp_path, configured(), [{"inputs": [*in_full(ended + 20, stream), found], "values": values}])


def test_a_bound_is_never_rounded_to_a_value_that_makes_it_false(tmp_path: Path):
    """A judge whose scores moved by at most 0.0244 "moved by at most 0.024"."""
    rules = rules_of(configured())
    alert = next(rule for rule in rules.alerts() if rule.name == "EvalstreamScoreBelowTarget")
    of = {"monitor": "chatbot", "evaluator": "helpful", "evaluator_version": VERSION, "segment": "all"}
    bounds = {"lowest": 0.6789, "highest": 0.7432, "doubt": 0.1234, "unchanged": 0.0244}
    facts = {word: alert.facts[word] for word in bounds}
    rule = replace(alert, expr="sum by (monitor, evaluator, evaluator_version, segment) (made)", description="".join(
        f"{{{word}}}" for word in bounds
    ), facts=facts, summary="s", labels={})  # fmt: skip
    inputs = [series("made", "1x5", **of)] + [
        series(facts[word].series, f"{value}x5", **{name: of[name] for name in facts[word].by}, **facts[word].labels)
        for word, value in bounds.items()
    ]
    description = (
        "With any scores for the cases that have none, the mean of the last hour would be between 0.67 and 0.75. "
        "Missing or doubtful scores may have moved the mean by at most 0.13. "
        "The judge has not changed: the same cases, scored again, moved by at most 0.03. "
    )
    shown = {"exp_labels": of | {"severity": "warning"}, "exp_annotations": {
        "summary": "s", "description": description, "runbook_url": f"deploy/runbooks/{alert.name}.md"
    }}  # fmt: skip
    texts = [{"eval_time": "3m", "alertname": alert.name, "exp_alerts": [shown]}]
    made = replace(rules, groups=(RuleGroup("bounds", 60.0, (rule,)),))
    run(tmp_path, configured(), [{"inputs": inputs, "texts": texts}], made=made)


def page(minute: int, fall: int, summary: str, description: str) -> dict[str, object]:
    """The page of a fall with its texts, as promtool expects it."""
    expected = {
        "exp_labels": {**SERIES, "alertname": "EvalstreamScoreDropped", "severity": "page", "fall": str(fall)},
        "exp_annotations": {
            "summary": summary,
            "description": description,
            "runbook_url": "deploy/runbooks/EvalstreamScoreDropped.md",
        },
    }
    expected["exp_labels"].pop("segment", None)
    return {"eval_time": f"{minute}m", "alertname": "EvalstreamScoreDropped", "exp_alerts": [expected]}


FOUND = "The drop detector, which adds up evidence over time, found this"


def _told(minute: int, fall: int, since: str, levels: str, mean: str, windows: str) -> dict[str, object]:
    description = (
        f"{since}{f', {levels}. ' if since else ''}No part of the traffic is known to explain it. The mean of helpful "
        f"(chatbot) over the last hour, which may have scores from before the fall, is {mean} effective conversations; "
        f"its target is 0.77. {windows}. The alert ends once the mean is surely nearer to its target than to the "
        "level to which it fell, and within 0.1 of its target."
    )
    fell = f": it fell {levels}" if levels else ""
    return page(minute, fall, f"helpful of chatbot: the mean score is below its target of 0.77{fell}", description)


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "text"),
    [
        (0.6, ("The mean is below its target, and was before. ", "", "0.504")),
        (
            0.74,
            (
                "The mean fell between 1970-01-01 00:04:00 +0000 UTC and 1970-01-01 00:07:00 +0000 UTC",
                "from 0.731 to 0.482",
                "0.531",
            ),
        ),
    ],
)
def test_a_mean_that_was_never_near_its_target_has_not_fallen(
    tmp_path: Path, before: float, text: tuple[str, str, str]
):
    stream = Stream(per_minute=60, mean=lambda now: before if now < 5 else 0.5, seed=3).run(30)
    begin, levels, mean = text
    windows = ", ".join(f"{window} ({mean})" for window in ("1h", "6h", "24h"))
    windows = f"More than 4 standard errors on the wrong side of the target: the mean of 15m (0.498), {windows}"
    alert = _told(29, 1, begin if levels else "", levels, f"{mean} (95 %: ± 0.017), from 1795", windows)
    if not levels:
        shown = alert["exp_alerts"][0]["exp_annotations"]  # type: ignore[index]
        shown["description"] = f"{begin}{shown['description']}"
    run(tmp_path, configured(), [{"inputs": in_full(30, stream), "texts": [alert]}])


@pytest.mark.long
def test_a_page_of_a_second_fall_says_nothing_of_the_first(tmp_path: Path):
    """It told the time and the level of the first fall, as a window showed the second before the detector did. And it said
    "from 0.812": the mean of a day with the first fall, where the usual mean is 0.9, as the page and `diagnose` say."""
    levels = ((60, 0.9), (75, 0.3), (110, 0.9), (160, 0.72))
    stream = Stream(per_minute=60, mean=lambda now: next(m for end, m in levels if now < end), seed=3).run(145)
    path = by_plain_reference(configured(), stream)
    evidence_at = first_fall(path, 110, number=2)
    assert evidence_at == 134
    first, second = (
        f"The mean fell between 1970-01-01 {earliest}:00 +0000 UTC and 1970-01-01 {latest}:00 +0000 UTC"
        for earliest, latest in (("01:00", "01:02"), ("01:51", "02:10"))
    )
    windows = "More than 4 standard errors on the wrong side of the target: the mean of 15m"
    texts = [
        _told(63, 1, first, "from 0.891 to 0.335 so far", "0.871 (95 %: ± 0.0079), from 3604", FOUND),
        _told(evidence_at - 3, 2, "", "", "0.8 (95 %: ± 0.01), from 3620", f"{windows} (0.726)"),
        _told(
            evidence_at + LATE,
            2,
            second,
            "to 0.71 so far",
            "0.825 (95 %: ± 0.01), from 3609",
            f"{windows} (0.706)",
        ),
        _told(144, 2, second, "to 0.719", "0.804 (95 %: ± 0.01), from 3610", f"{windows} (0.723)"),
    ]
    run(tmp_path, configured(), [{"inputs": in_full(145, stream), "texts": texts}])


def test_a_level_that_a_roll_back_came_to_before_it_was_settled_stays_so_far(tmp_path: Path):
    """It was told as settled, from five minutes of which three were after the roll-back."""
    levels = ((60, 0.9), (64, 0.3), (80, 0.8))
    stream = Stream(per_minute=60, mean=lambda now: next(m for end, m in levels if now < end), seed=3).run(80)
    path = by_plain_reference(configured(), stream)
    paged = [minute for minute, (*_, fall) in enumerate(path) if fall]
    assert len(paged) > SETTLING_INTERVALS
    settled = [is_near("evalstream:drop_settled", 0, minute + LATE) for minute in paged[1:]]
    run(tmp_path, configured(), [{"inputs": in_full(80, stream), "values": [*settled, *life_in_rules(path, 3)]}])


def test_the_evidence_of_a_target_that_was_restored_begins_no_fall(tmp_path: Path):
    """A test of the alert, ended at once, paged again, "to NaN so far". A lower target has fewer bets, and Prometheus keeps
    the series of a rule that is gone until it has evaluated the other rules once: the bets that are left were evidence."""
    of = {"evaluator": "helpful", "monitor": "chatbot", "evaluator_version": VERSION}
    assert 7.2 not in detector_of(configured()).bets
    left = series("evalstream:drop_log_e", "_x30 20 stale", **of, **{"lambda": "7.2"})
    inputs = [*in_full(60, Stream(per_minute=60, mean=lambda _: 0.9, seed=3).run(60)), left]
    values = [_falls(minute, 0, ".+Dropped") for minute in (30, 31, 40)]
    run(tmp_path, configured(), [{"inputs": inputs, "values": [*values, is_near("evalstream:drop_falls", 0, 30)]}])


@pytest.mark.long
def test_a_test_of_an_alert_is_no_fall_of_the_day(tmp_path: Path):
    """The first fall after a test with a raised target paged as the second of its incident."""
    at_the_test = "(time() > bool 600) * (time() < bool 1200)"

    def tested(rule: RecordingRule | AlertingRule) -> RecordingRule | AlertingRule:
        name = rule.record if isinstance(rule, RecordingRule) else ""
        more = {"evalstream:drop_target": "0.2 * ", "evalstream:drop_falls": ""}.get(name)
        return rule if more is None else replace(rule, expr=f"({rule.expr}) + {more}{at_the_test}")

    of = rules_of(configured())
    past = replace(of, groups=tuple(replace(group, rules=tuple(map(tested, group.rules))) for group in of.groups))
    stream = Stream(per_minute=60, mean=lambda now: 0.9 if now < 60 else 0.3, seed=3).run(80)
    fired = 'count by (fall) (count_over_time(ALERTS{alertname="EvalstreamScoreDropped",alertstate="firing"}[80m]))'
    first = {"expr": fired, "eval_time": "79m", "exp_samples": [{"labels": '{fall="1"}', "value": 1}]}
    run(tmp_path, configured(), [{"inputs": in_full(80, stream), "values": [first]}], made=past)


def test_no_text_says_nan(tmp_path: Path):
    alert = AlertingRule(
        name="Low", expr="low > 0", severity="page", summary="{mean}", description="fell{sofar}",
        facts={"mean": Fact("mean", ("of",)), "sofar": Fact("mean", ("of",), only="unless low > 5", phrase=" to {}")},
    )  # fmt: skip
    rules = replace(rules_of(configured()), groups=(RuleGroup("of", 60.0, (alert,)),))
    labels = {"alertname": "Low", "of": "a", "severity": "page"}
    texts = [
        {"eval_time": f"{minute}m", "alertname": "Low", "exp_alerts": [{"exp_labels": labels, "exp_annotations": {
            "summary": summary, "description": description, "runbook_url": f"{rules.runbooks}/Low.md"
        }}]} for minute, summary, description in ((1, "0.5", "fell to 0.5"), (2, "?", "fell"))
    ]  # fmt: skip
    inputs = [series("low", "1 1 1", of="a"), series("mean", "0.5 0.5 NaN", of="a")]
    run(tmp_path, configured(), [{"inputs": inputs, "texts": texts}], made=rules)


@pytest.mark.long
def test_alerts_of_a_version_that_is_replaced_end(tmp_path: Path):
    """They went on for a day; another replica that still runs the version keeps them."""
    stream = Stream(per_minute=4, mean=drop_at(60, 0.6), seed=5).run(120)
    info = {"evaluator": "helpful", "monitor": "chatbot", "scope": "turn", "better": "higher", "job": "evalstream"}

    def described(first: str, second: str) -> list[dict[str, str]]:
        return [
            series("evalstream_evaluator_info", first, **info, evaluator_version=VERSION, instance="a"),
            series("evalstream_evaluator_info", second, **info, evaluator_version="newer", instance="a"),
        ]

    replaced, both = described("1+0x109 0+0x60", "_x110 1+0x60"), described("1+0x170", "_x110 1+0x60")
    killed = described("1+0x109 0+0x3 stale", "_x110 1+0x3 stale")  # then nothing is scraped
    page = {"alertname": "EvalstreamScoreDropped", "severity": "page"}
    counted = in_full(120, stream)
    for more, after in ((replaced, ()), (both, (page,)), (killed, ())):
        alerts = [
            firing(109, page["alertname"], page),
            *(firing(at, page["alertname"], *after) for at in (112, 117, 119)),
        ]
        run(tmp_path, configured(), [{"inputs": [*counted, *more], "alerts": alerts}])


LABELS = "{" + ",".join(f'{key}="{value}"' for key, value in SERIES.items() if key != "segment") + "}"


def is_near(name: str, value: float, minute: int) -> dict[str, object]:
    """A series of the rules has a value, to four decimals."""
    expected = [{"labels": LABELS, "value": 1}]
    return {
        "expr": f"abs(last_over_time({name}[1h]) - {value:.10f}) < bool 0.0001",
        "eval_time": f"{minute}m",
        "exp_samples": expected,
    }


LATE = 2
"""Minutes from a minute's number to the rules' value of it: it ends one later, and rules read what was scraped 10 s ago."""


def life_in_rules(path: list[tuple[float, float, Fall | None]], every: int) -> Iterator[dict[str, object]]:
    for minute in range(every, len(path) - 1, every):
        evidence, recovery, fall = path[minute]
        yield is_near("evalstream:drop_evidence", evidence, minute + LATE)
        yield is_near("evalstream:recovery_evidence", recovery, minute + LATE)
        yield is_near("evalstream:drop_falls", fall.number if fall else 0, minute + LATE)
        if fall is not None:
            yield is_near("evalstream:drop_level", fall.level, minute + LATE)
            for name, number in (("since", fall.since), ("earliest", fall.earliest), ("latest", fall.latest)):
                yield is_near(f"evalstream:drop_{name}", (number + 1) * 60.0, minute + LATE)
            yield is_near("evalstream:drop_mean", fall.mean, minute + LATE)


def incidents(minute: int) -> float:
    """A drop, a recovery, a second drop that becomes deeper, and a recovery."""
    levels = ((60, MEAN), (110, 0.5), (190, MEAN), (280, 0.6), (350, 0.2), (440, 0.85))
    return next(mean for end, mean in levels if minute < end)


@pytest.mark.parametrize(
    ("per_minute", "weight", "turns", "speed"),
    [pytest.param(4.0, 1.0, 1, 1, marks=pytest.mark.long), (4.0, 10.0, 3, 2)],
)
def test_the_life_of_an_alert_in_rules_is_that_of_the_plain_code(
    tmp_path: Path, per_minute: float, weight: float, turns: int, speed: int
):
    """To four decimals, minute by minute, weighted or not, over two incidents and their recoveries. At twice the rate they
    are over in half the time."""
    config = configured()
    minutes = 440 // speed
    stream = Stream(per_minute, mean=lambda now: incidents(now * speed), weight=weight, turns=turns, seed=7).run(
        minutes
    )
    path = by_plain_reference(config, stream)
    numbers = [fall.number if fall else 0 for *_, fall in path]
    assert [number for number, _ in groupby(numbers)] == [0, 1, 0, 2, 3, 0]
    run(
        tmp_path,
        config,
        [{"inputs": in_full(minutes, stream), "values": list(life_in_rules(path, 7 // speed))}],
    )


def test_the_panel_of_the_evidence_has_no_gap_at_a_restart_of_the_only_process(tmp_path: Path):
    """For the minutes of the restart, and two more, nothing was drawn, although the detector goes on where it was."""
    before, after = (estimator(Stream(2.0, seed=seed).run(20)) for seed in (11, 12))
    restarted = [
        {**first, "values": f"{first['values']} stale _ _ {then['values']}"}
        for first, then in zip(before, after, strict=True)
    ]
    board = json.loads((Path(__file__).parents[2] / "deploy/grafana/dashboards/evalstream-quality.json").read_text())
    (panel,) = (each for each in board["panels"] if each["title"] == "Evidence of a drop")
    drawn = panel["targets"][0]["expr"].replace("$monitor", "chatbot").replace("$evaluator", "helpful")
    is_there = {"expr": f"count({drawn})", "exp_samples": [{"labels": "{}", "value": 1}]}
    values = [{**is_there, "eval_time": f"{minute}m"} for minute in range(5, 40)]
    run(tmp_path, configured(), [{"inputs": restarted, "values": values}])


@pytest.mark.long
@pytest.mark.parametrize(("good", "earliest", "latest"), [(0, 60, 64), (1, 61, 65)])
def test_the_times_of_a_fall_cover_the_minutes_that_a_restart_left_out(
    tmp_path: Path, good: int, earliest: int, latest: int
):
    """Killed after minute 60, with samples of the rules at 61 and 64. Of a fall at 63 the alert said that it began by 62."""
    before = Stream(60.0, mean=lambda _minute: 0.9, seed=3).run(60)
    after = Stream(60.0, mean=lambda minute: 0.9 if minute < good else 0.3, seed=4).run(20)
    restarted = [
        {**first, "values": f"{first['values']} stale {then['values']}"}
        for first, then in zip(estimator(before), estimator(after), strict=True)
    ]
    times = [("earliest", earliest), ("latest", latest)]
    values = [is_near(f"evalstream:drop_{name}", minute * 60.0, 75) for name, minute in times]
    run(tmp_path, configured(), [{"inputs": restarted, "values": values}])


@pytest.mark.long
@pytest.mark.parametrize(("mean", "seed"), [(0.9, 3), (0.78, 3), (0.78, 6)])
def test_the_times_of_a_fall_cover_the_minutes_without_scores_before_it(tmp_path: Path, mean: float, seed: int):
    """The last good scores came in minute 49, the first bad ones in 70. The fall was said to have begun after 69."""
    good = Stream(30.0, mean=lambda _minute: mean, seed=seed).run(50)
    bad = Stream(30.0, mean=lambda _minute: 0.3, seed=4).run(12)
    bad.scores[:0] = [[]] * 70
    config, stream = configured(), together(good, bad)
    path = by_plain_reference(config, stream)
    fall = path[-1][-1]
    assert fall is not None
    assert fall.earliest <= 49 < fall.latest == 71
    run(tmp_path, config, [{"inputs": in_full(82, stream), "values": list(life_in_rules(path, 7))}])


@pytest.mark.long
def test_a_replica_that_restarts_fires_nothing_and_is_left_out_of_the_sums(tmp_path: Path):
    """Two replicas; one loses its counters at minute 200 and begins again, the other goes on."""
    one, other = Stream(2.0, seed=11).run(400), Stream(2.0, seed=12).run(400)
    again = Stream(2.0, seed=13).run(200)
    restarted = Stream(2.0)
    restarted.totals = other.totals[:200] + again.totals
    restarted.evidence = other.evidence[:200] + again.evidence
    counts = [count for _, count, _ in one.totals]
    of_other = [count for _, count, _ in restarted.totals]
    inputs = [
        *estimator(one),
        *estimator(restarted, "b"),
        *traffic(counts, [0] * 401),
        *traffic(of_other, [0] * 401, "b"),
    ]
    deltas = one.deltas()

    def delta_is(minute: int, sums: Sums) -> dict[str, object]:
        labels = ",".join(f'{key}="{value}"' for key, value in SERIES.items() if key != "segment")
        sample = {"labels": f"evalstream:evidence_wy:delta{{{labels}}}", "value": sums.wy}
        return {"expr": "evalstream:evidence_wy:delta", "eval_time": f"{minute}m", "exp_samples": [sample]}

    case = {
        "inputs": inputs,
        "alerts": [firing(minute, EVERYTHING) for minute in range(60, 400, 5)],
        "values": [
            delta_is(198 + LATE, deltas[198] + other.deltas()[198]),
            delta_is(199 + LATE, deltas[199]),
            delta_is(204 + LATE, deltas[204] + again.deltas()[4]),
        ],
    }
    run(tmp_path, configured(), [case])


@pytest.mark.long
def test_what_was_begun_without_scores_is_stale_and_where_nothing_was_it_is_not(tmp_path: Path):
    stream = Stream(2.0, seed=2).run(120)
    stream.totals += [stream.totals[-1]] * 120
    going_on = [2.0 * minute for minute in range(241)]
    stopped = [min(2.0 * minute, 240.0) for minute in range(241)]
    stale = {"alertname": "EvalstreamStale", "severity": "page"}
    cases = [
        {
            "inputs": [*estimator(stream), *traffic(going_on, [0] * 241)],
            "alerts": [firing(120, "EvalstreamStale"), firing(137, "EvalstreamStale", stale)],
        },
        {
            "inputs": [*estimator(stream), *traffic(stopped, [0] * 241)],
            "alerts": [firing(minute, "EvalstreamStale") for minute in (120, 137, 200, 239)],
        },
        {  # sampled for another evaluator, of which more is judged
            "inputs": [*estimator(stream), *traffic(going_on, [0] * 241, begun=stopped)],
            "alerts": [firing(minute, "EvalstreamStale") for minute in (120, 137, 200, 239)],
        },
    ]
    run(tmp_path, configured(), cases)


def test_a_service_that_is_gone_has_interval_by_its_own_name_only(tmp_path: Path):
    down = {"alertname": "EvalstreamDown", "severity": "page"}
    run(tmp_path, configured(), [{"inputs": [series("up", "0x30")], "alerts": [firing(20, EVERYTHING, down)]}])


def test_a_stage_that_no_process_runs_is_missed_by_the_others(tmp_path: Path):
    def up(**minutes: str) -> list[dict[str, str]]:
        stages = [series("evalstream_stage_up", values, stage=stage) for stage, values in minutes.items()]
        return [*stages, series("evalstream_build_info", "1x60")]

    missing = {"alertname": "EvalstreamStageDown", "severity": "page"}
    whole = dict.fromkeys(("receive", "assemble", "export"), "1x60")
    cases = [
        {
            "inputs": up(**whole, evaluate="1x20 stale"),
            "alerts": [firing(20, EVERYTHING), firing(30, EVERYTHING, missing)],
        },
        {  # moved to another process: its series ends, another begins
            "inputs": [
                *up(**whole, evaluate="1x20 stale"),
                series("evalstream_stage_up", "_x22 1x38", stage="evaluate", pod="b"),
            ],
            "alerts": [firing(minute, EVERYTHING) for minute in (20, 30, 60)],
        },
        {  # of the version before, which does not say its stages
            "inputs": [series("evalstream_build_info", "1x60")],
            "alerts": [firing(30, EVERYTHING)],
        },
    ]
    run(tmp_path, configured(), cases)


def test_rules_of_another_configuration_are_noticed(tmp_path: Path):
    config = configured()
    outdated = {"alertname": "EvalstreamRulesOutdated", "severity": "warning"}
    cases = [
        {
            "inputs": [series("evalstream_rules_info", "1x30", hash=rules_hash(config))],
            "alerts": [firing(29, "EvalstreamRulesOutdated")],
        },
        {
            "inputs": [series("evalstream_rules_info", "1x30", hash="0123456789ab")],
            "alerts": [firing(29, "EvalstreamRulesOutdated", outdated)],
        },
    ]
    run(tmp_path, config, cases)


def test_a_configuration_that_is_refused_or_not_taken_is_noticed(tmp_path: Path):
    def processes(numbers: str, refused: str = "0x60") -> list[dict[str, str]]:
        return [
            series("evalstream_configuration_number", "2x20 3x40", pod="a"),
            series("evalstream_configuration_number", numbers, pod="b"),
            series("evalstream_configuration_refused", "0x60", pod="a"),
            series("evalstream_configuration_refused", refused, pod="b"),
        ]

    names = "EvalstreamConfigurationBehind|EvalstreamConfigurationRefused"
    behind = {"alertname": "EvalstreamConfigurationBehind", "severity": "warning"}
    refused = {"alertname": "EvalstreamConfigurationRefused", "severity": "warning"}
    cases = [
        {  # it comes seconds later
            "inputs": processes("2x21 3x39"),
            "alerts": [firing(minute, names) for minute in (20, 25, 40, 59)],
        },
        {
            "inputs": processes("2x45 3x15"),
            "alerts": [firing(20, names), firing(25, names), firing(35, names, behind), firing(50, names)],
        },
        {
            "inputs": processes("2x60", "0x20 1x25 0x15"),
            "alerts": [firing(25, names), firing(35, names, refused)],
        },
    ]
    run(tmp_path, configured(), cases)


@pytest.mark.long
def test_weights_twice_too_large_are_noticed_and_right_ones_are_not(tmp_path: Path):
    """A tenth is judged, at weight 10; recorded as 20 the weights stand for twice the traffic."""
    sampled = Stream(1.0, weight=10.0, seed=4).run(400)
    counts = [count for _, count, _ in sampled.totals]
    population = [*traffic(counts, [9 * count for count in counts]), in_use("1x400")]
    wrong = Stream(1.0, weight=20.0, seed=4).run(400)
    hung = Stream(1.0, weight=10.0, seed=4).run(250)
    hung.totals, hung.evidence = hung.totals + hung.totals[-1:] * 150, hung.evidence + hung.evidence[-1:] * 150
    coming, served = counts, [count for _, count, _ in hung.totals]
    of = {"monitor": "chatbot", "evaluator": "helpful"}
    waiting = [
        series("evalstream_evaluations_due_total", [10.0 * count for count in coming], **of, origin="matched"),
        series("evalstream_evaluations_ended_total", [9.0 * count for count in coming], **of, outcome="sampled_out"),
        series("evalstream_evaluations_ended_total", served, **of, outcome="scored"),
    ]
    # a budget lowers the rate to a hundredth just before the judge hangs: one that waits stands for a hundred turns
    few = [served[min(minute, 250)] + max(0.0, count - counts[250]) / 10.0 for minute, count in enumerate(coming)]
    heavy = [100.0 * (count - done) for count, done in zip(few, served, strict=True)]
    light = [
        series("evalstream_evaluations_due_total", few, **of, origin="matched"),
        series("evalstream_evaluations_ended_total", served, **of, outcome="scored"),
        series("evalstream_evaluations_waiting_weight", heavy, **of),
    ]
    inconsistent = {"alertname": "EvalstreamWeightsInconsistent", "severity": "warning"}
    cases = [
        {
            "inputs": [*estimator(sampled), *population],
            "alerts": [firing(minute, EVERYTHING) for minute in (120, 240, 399)],
        },
        {
            "inputs": [*estimator(wrong), *population],
            "alerts": [firing(399, "EvalstreamWeightsInconsistent", inconsistent)],
        },
        {  # the judge hangs from minute 250 on: what waits for it has no weight yet
            "inputs": [*estimator(hung), *traffic(coming, [9 * count for count in coming]), in_use("1x400"), *waiting],
            "alerts": [firing(minute, "EvalstreamWeightsInconsistent") for minute in (249, 300, 350, 399)],
        },
        {
            "inputs": [*estimator(hung), *traffic(coming, [9 * count for count in coming]), in_use("1x400"), *light],
            "alerts": [firing(minute, "EvalstreamWeightsInconsistent") for minute in (249, 300, 350, 399)],
        },
    ]
    run(tmp_path, configured(sample=0.1), cases)


def test_weights_are_compared_with_turns_from_while_the_evaluator_was_in_use_only(tmp_path: Path):
    """An evaluator that was added was compared with the turns before it: "the means are wrong", for up to six hours."""
    turns = series("evalstream_turns_total", "0+2x800", monitor="chatbot", outcome="sampled", instance="a")
    conversations = series("evalstream:score_n_eff", "1000x800", **SERIES, window="6h")
    inconsistent = {"alertname": "EvalstreamWeightsInconsistent", "severity": "warning"}
    rules = rules_of(configured())
    rules = replace(rules, groups=tuple(group for group in rules.groups if group.name == "evalstream-service"))

    def counted(values: str, instance: str = "a") -> list[dict[str, str]]:
        return [series("evalstream_evaluation_weight_total", values, **SERIES, instance=instance)]

    def case(inputs: list[dict[str, str]], fires: Sequence[int] = (), quiet: Sequence[int] = ()) -> dict[str, object]:
        name = inconsistent["alertname"]
        return {
            "inputs": [turns, conversations, in_use("1x800", "polite"), *inputs],
            "alerts": [*(firing(at, name) for at in quiet), *(firing(at, name, inconsistent) for at in fires)],
        }

    cases = [
        case([*counted("_x200 0+2x600"), in_use("_x200 1x600")], quiet=(210, 250, 300, 400, 555, 565, 700)),
        # taken out for two hours, and added again
        case([*counted("0+2x200 400x120 402+2x480"), in_use("1x200 0x120 1x480")], quiet=range(210, 800, 40)),
        case([*counted("0+2x200 400x600"), in_use("1x200 0x600")], quiet=range(210, 800, 40)),
        # wrong weights are found at once in a monitor that begins, and in what was added once it has its six hours
        case([*counted("0+4x800"), in_use("1x800")], fires=(60, 300, 500, 800)),
        case([*counted("_x200 0+4x600"), in_use("_x200 1x600")], quiet=(250,), fires=(565, 800)),
        # a process that begins anew
        case([*counted("0+4x100 stale"), *counted("_x101 0+4x600", "b"), in_use("1x800")], fires=(60, 300, 500)),
    ]
    run(tmp_path, configured(), cases, made=rules)


def test_a_budget_at_whose_rate_chance_picked_none_makes_no_weights_inconsistent(tmp_path: Path):
    """1,200 turns at a rate of 0.002 expect two picks of weight 500. None came: "the means are wrong"."""
    config = configured()
    inconsistent = {"alertname": "EvalstreamWeightsInconsistent", "severity": "warning"}
    inputs = [
        series("evalstream_turns_total", "0+10x360", monitor="chatbot", outcome="sampled", instance="a"),
        series("evalstream:score_n_eff", "1000x360", **SERIES, window="6h"),
        series("evalstream_evaluations_total", "0+10x240 2400x120", **SERIES, outcome="scored", instance="a"),
        in_use("1x360"),
    ]
    none_picked = series("evalstream_evaluation_weight_total", "0+10x240 2400x120", **SERIES, instance="a")
    twice = series("evalstream_evaluation_weight_total", "0+20x360", **SERIES, instance="a")
    lowered, half_the_time, steady = (
        series("evalstream_budget_factor", values, monitor="chatbot", instance="a")
        for values in ("1x200 NaN 1x39 0.002x120", "1x180 0.05x180", "0.4x360")  # NaN: a start without partitions
    )
    rules = rules_of(config)
    rules = replace(rules, groups=tuple(group for group in rules.groups if group.name == "evalstream-service"))
    cases = [
        {"inputs": [*inputs, *more], "alerts": [firing(359, inconsistent["alertname"], *fires)]}
        for more, fires in (
            ((none_picked, lowered), []),
            ((none_picked,), [inconsistent]),
            ((twice, steady), [inconsistent]),
            ((none_picked, steady), [inconsistent]),
            ((twice, half_the_time), [inconsistent]),
        )
    ]
    run(tmp_path, config, cases, made=rules)


def test_a_gates_weights_are_consistent(tmp_path: Path):
    """Its skips were counted beside the scores that stand for them: 1.8 times the traffic, "the means are wrong"."""
    totals = asyncio.run(_weights_of_a_gate(360))
    inconsistent = {"alertname": "EvalstreamWeightsInconsistent", "severity": "warning"}
    inputs = [
        series("evalstream_turns_total", "0+10x360", monitor="chatbot", outcome="sampled", instance="a"),
        series("evalstream:score_n_eff", "600x360", **SERIES, window="6h"),
        in_use("1x360"),
    ]
    rules = rules_of(configured())
    rules = replace(rules, groups=tuple(group for group in rules.groups if group.name == "evalstream-service"))
    cases = [
        {
            "inputs": [*inputs, series("evalstream_evaluation_weight_total", counted, **SERIES, instance="a")],
            "alerts": [firing(minute, inconsistent["alertname"], *fires) for minute in (120, 359)],
        }
        for counted, fires in ((totals, []), ([1.7 * each for each in totals], [inconsistent]))
    ]
    run(tmp_path, configured(), cases, made=rules)


async def _weights_of_a_gate(minutes: int) -> list[float]:
    """The sum of a gate's weights after each minute, from the exporter: 10 turns, sampled at 0.3, a tenth selected."""
    short = Contains(name="short", search_text="a", threshold=1.0)
    gate = Composite(name="helpful", of=(short, ExactMatch(name="same")), combine="if", share=0.25)
    context = ExportContext(telemetry=Telemetry(), evaluators=())
    exporter = PrometheusExporter(PrometheusSettings(), context)
    generate_latest(context.telemetry.registry)
    drawing, totals = random.Random(131), [0.0]
    for minute in range(minutes):
        for number in (each for each in range(10) if drawing.random() < 0.3):
            answer = "a" if number else "b"
            turn = a_turn(turn_id=f"{minute}-{number}", actual_output=answer, expected_output="b")
            record = make_record(
                gate, turn, await evaluate(gate, turn), evaluation_id=f"{minute}-{number}", evaluator_version=VERSION,
                monitor="chatbot", sampling=Sampling(probability=0.3),
            )  # fmt: skip
            await exporter.export([record])
        seen = context.telemetry.registry.get_sample_value("evalstream_evaluation_weight_total", SERIES)
        totals.append(seen or 0.0)
    return totals


def test_a_new_evaluator_whose_use_no_step_of_a_range_has_seen_is_not_compared(tmp_path: Path):
    """The steps of a range are a minute apart: before the first one, an evaluator's weights were 0.06 of the traffic."""
    config = configured()
    rules = (rule for group in rules_of(config).groups for rule in group.rules)
    [expr] = (rule.expr for rule in rules if isinstance(rule, RecordingRule) and rule.record == WEIGHT_CHECK)
    inputs = [
        series("evalstream_turns_total", "0+2x400", monitor="chatbot", outcome="sampled", instance="a"),
        series("evalstream_evaluation_weight_total", "_x202 0+2x200", **SERIES, instance="a"),
        in_use("1x400", "polite"), in_use("_x202 1x200"),
    ]  # fmt: skip
    coarse = expr.replace("[6h:]", "[6h:5m]")
    assert coarse != expr
    run(
        tmp_path,
        config,
        [{"inputs": inputs, "values": [{"expr": coarse, "eval_time": "204m", "exp_samples": []}]}],
    )


@pytest.mark.long
def test_a_conversation_that_outweighs_all_others_is_noticed(tmp_path: Path):
    """Two conversations of 150 turns; and a sixth of the weight of others that is left out."""
    crowd, loops = Stream(1.0, seed=4).run(400), Stream(0.1, turns=150, seed=10).run(20)
    assert sum(map(len, loops.scores)) == 300
    clipped = series("evalstream_estimator_clipped_total", [0.2 * minute for minute in range(401)], **SERIES)
    dominated = {"alertname": "EvalstreamMeanDominated", "severity": "warning"}
    cases = [
        {"inputs": estimator(crowd), "alerts": [firing(399, "EvalstreamMeanDominated")]},
        {
            "inputs": [*estimator(crowd), clipped],
            "alerts": [firing(399, "EvalstreamMeanDominated", dominated)],
        },
        {"inputs": estimator(loops), "alerts": [firing(19, "EvalstreamMeanDominated", dominated)]},
    ]
    run(tmp_path, configured(), cases)


@pytest.mark.long
def test_weights_of_conversations_are_held_against_the_conversations_there_were(tmp_path: Path):
    """A fifth of 10 conversations a minute is judged as a whole; at weight 5 that is right, at weight 10 it is not."""
    config = check(
        {
            "judges": {"main": {"model": "m"}},
            "evaluators": {"helpful": {"kind": "completeness", "judge": "main", "threshold": 0.77}},
            "monitors": {"chatbot": {"evaluators": ["helpful"], "sample": 0.2}},
        },
        "test.yaml",
    )
    population = series("evalstream_conversations_total", [10.0 * minute for minute in range(401)], monitor="chatbot")
    inconsistent = {"alertname": "EvalstreamWeightsInconsistent", "severity": "warning"}
    cases = [
        {
            "inputs": [*estimator(Stream(2.0, weight=weight, seed=9).run(400)), population, in_use("1x400")],
            "alerts": [firing(399, "EvalstreamWeightsInconsistent", *expected)],
        }
        for weight, expected in ((5.0, []), (10.0, [inconsistent]))
    ]
    run(tmp_path, config, cases)


def test_an_evaluator_that_only_skips_what_it_cannot_judge_is_not_stale(tmp_path: Path):
    """Turns without what it needs: it is at work. Shed turns: it is not.

    Nor is it at a budget's hard cap, which has an alert of its own, unless few of the evaluations were skipped for that.
    """
    coming = [2.0 * minute for minute in range(121)]
    labels = {**SERIES, "instance": "a", "outcome": "skipped"}
    stale = {"alertname": "EvalstreamStale", "severity": "page"}
    cases = [
        {
            "inputs": [
                *traffic(coming, [0] * 121),
                series("evalstream_evaluations_total", [part * at for at in coming], **labels, reason=reason),
            ],
            "alerts": [firing(100, "EvalstreamStale", *expected)],
        }
        for reason, part, expected in (
            ("missing_field", 1.0, []),
            ("shed", 1.0, [stale]),
            ("over_budget", 0.9, []),
            ("over_budget", 0.1, [stale]),
        )
    ]
    run(tmp_path, configured(), cases)


def test_a_single_drop_is_seen_and_ends(tmp_path: Path):
    """Its series begins at 1, which is no increase to Prometheus."""
    one = series("evalstream_drops_total", "_x20 1x60", stage="receive", reason="unreadable")
    dropped = {"alertname": "EvalstreamDrops", "severity": "warning"}
    alerts = [firing(19, "EvalstreamDrops"), firing(25, "EvalstreamDrops", dropped), firing(60, "EvalstreamDrops")]
    run(tmp_path, configured(), [{"inputs": [one], "alerts": alerts}])


def test_records_that_retention_deletes_alert_and_so_do_those_that_are_next(tmp_path: Path):
    """A first loss, and a backlog whose age passes half of its topic's retention; a log that never deletes is silent."""
    labels = {"consumer": "evaluate", "log": "turns"}
    first = series("evalstream_records_lost_total", "_x20 7428x60", **labels, reason="retention")
    lost = {"alertname": "EvalstreamRecordsLost", "severity": "page"}
    alerts = [firing(19, lost["alertname"]), firing(25, lost["alertname"], lost), firing(60, lost["alertname"])]
    age = [60.0 * minute for minute in range(121)]
    needed = [series("evalstream_oldest_needed_seconds", age, consumer=each, log=each) for each in ("turns", "labels")]
    ends = [
        series("evalstream_log_retention_seconds", " ".join([limit] * 121), log=log)
        for log, limit in (("turns", "7200"), ("labels", "Inf"))
    ]
    near = {"alertname": "EvalstreamRetentionNear", "severity": "page"}
    before = [firing(59, near["alertname"]), firing(62, near["alertname"], near)]
    run(
        tmp_path,
        configured(),
        [{"inputs": [first], "alerts": alerts}, {"inputs": [*needed, *ends], "alerts": before}],
    )


def without_the_heavy_ones() -> Stream:
    """A sampler before us keeps all errors, of mean 0.3, and a twentieth of the rest, none of which comes at the end.

    The last quarter of an hour has a mean of 0.3 from as many effective conversations as an alert needs.
    """
    errors = Stream(2.5, mean=lambda _: 0.3, seed=31).run(400)
    rest = Stream(0.5, mean=lambda _: 0.95, weight=20.0, seed=32).run(385)
    return together(errors, rest)


@pytest.mark.long
def test_a_window_from_which_the_heavy_conversations_are_missing_pages_nobody(tmp_path: Path):
    """By its own scores it would be eight standard errors below its target."""
    stream = without_the_heavy_ones()
    last = stream.window(15)
    assert last.sums.n_eff >= 30
    assert (0.77 - last.sums.mean) / last.sums.stderr > 6
    weights = [total.w for total, _, _ in stream.totals]
    inputs = [*estimator(stream), *traffic(weights, [0] * len(weights))]
    run(tmp_path, configured(), [{"inputs": inputs, "alerts": [firing(400, "Evalstream.*")]}])


def test_standard_errors_in_rules_are_those_of_the_plain_code(tmp_path: Path):
    stream = without_the_heavy_ones()
    day = stream.window(DAY)
    near = [
        {
            "expr": f'abs(evalstream:score_stderr{{window="{window}"}} - {stream.window(minutes).stderr(day):.10f}) < bool 0.0001',
            "eval_time": "400m",
            "exp_samples": [{"labels": LABELS[:-1] + f',window="{window}"}}', "value": 1}],
        }
        for window, minutes in (("15m", 15), ("1h", 60), ("6h", 360), ("24h", DAY))
    ]
    run(tmp_path, configured(), [{"inputs": in_full(400, stream), "values": near}])


def test_the_mean_of_an_evaluator_that_was_just_added_is_that_of_its_scores(tmp_path: Path):
    """Each sum was extrapolated by a factor of its own: 40 scores counted as 70, and their mean of 0.8 was 0.69."""
    w = [25.0, 45.0, 65.0]
    passing = [0.0, 16.0, 32.0]
    numbers = dict(zip(("w", "wy", "w2", "w2y", "w2y2"), (w, passing, w, passing, passing), strict=True))
    inputs = [
        series(f"evalstream_estimator_{name}_total", "_x10 " + " ".join(f"{each:g}" for each in of), **SERIES)
        for name, of in numbers.items()
    ]
    of = f'{{evaluator="{SERIES["evaluator"]}",window="15m"}}'
    expected = {f"evalstream:score_mean{of}": 0.8, f"evalstream:score_n_eff{of}": 40.0}
    values = [
        {"expr": f"sum(round({expr}, 0.001))", "eval_time": "13m", "exp_samples": [{"labels": "{}", "value": value}]}
        for expr, value in expected.items()
    ]
    run(tmp_path, configured(), [{"inputs": inputs, "values": values}])


def counted(
    values: str, instance: str = "a", segment: str = "all", began: str = "", **labels: str
) -> list[dict[str, str]]:
    """The scores of a process, and when it began."""
    of = {"instance": instance, "job": "evalstream", **labels}
    scores = series("gen_ai_evaluation_score_count", values, **SERIES | of | {"segment": segment})
    return [scores, *([series("evalstream_start_timestamp_seconds", began, **of)] if began else [])]


@pytest.mark.parametrize(
    ("inputs", "grown"),
    [
        (counted("_x80 30+2x20", began="_x80 4790x20"), 30 + 40),  # a process that has just begun
        (counted("0+2x100", began="60x100") + counted("_x90 12+1x10", segment="new"), 120 + 12 + 10),
        (
            counted("_x80 30+2x5 4+2x12", began="_x80 4790x5 5150x12"),
            30 + (10 + 4 + 24) * 1.05,
        ),  # it restarts soon after; increase() extrapolates
        (counted("_x80 30+2x5 stale", began="_x80 4790x5 stale"), 30 + 10 * 1.2),  # it ends soon after
        (counted("_x60 0+2x10 stale _x7 6+2x20", began="_x60 3590x10 stale _x7 4670x20"), 20 + 6 + 42),  # down for long
        (counted("0+2x70 9+2x29", began="60x70 4255x29"), 60 + 9 + 58),  # it begins anew at the same address
        (counted("_x60 0+2x10 9+2x29", began="_x60 3590x10 4255x29"), 20 + 9 + 58),
        (counted("_x80 30+2x20"), 40),  # a version that does not say when it began
        (counted("_x80 5000+2x20", began="_x80 -36000x20"), 40),  # Prometheus has lost its data
        (counted("0+2x20 _x60 442+2x19", began="60x20 _x60 60x19"), 38),  # not scraped for an hour
        (  # its address is changed
            counted("_x60 0+2x10 stale", began="_x60 3590x10 stale")
            + counted("_x71 42+2x29", instance="b", began="_x71 3590x29"),
            21 + 58,
        ),
        (  # every target gets one more label
            counted("_x60 0+2x10 stale", began="_x60 3590x10 stale")
            + counted("_x71 42+2x29", began="_x71 3590x29", cluster="x"),
            21 + 58,
        ),
    ],
)
def test_scores_from_before_a_first_scrape_are_in_the_windows_and_old_ones_are_not(
    tmp_path: Path, inputs: list[dict[str, str]], grown: float
):
    """30 scores from before the first scrape were in no window. The whole value of an old counter is no growth."""
    rules = rules_of(configured())
    [scores] = (group for group in rules.groups if group.name == "evalstream-scores")
    names = (PROCESS_AGE, PROCESS_FRESH, NEW_SCORES, EARLY["gen_ai_evaluation_score_count"], SCORES_INCREASE)
    needed = tuple(rule for rule in scores.rules if isinstance(rule, RecordingRule) and rule.record in names)
    rules = replace(rules, groups=(replace(scores, rules=needed),))
    expr = f'round(sum({SCORES_INCREASE}{{window="1h"}}), 1)'
    values = [{"expr": expr, "eval_time": "100m", "exp_samples": [{"labels": "{}", "value": round(grown)}]}]
    run(tmp_path, configured(), [{"inputs": inputs, "values": values}], made=rules)


def test_scores_from_before_a_first_scrape_leave_the_windows_though_prometheus_was_down(tmp_path: Path):
    """For eight minutes, soon after the process began: an hour later, the 30 counted again for as long."""
    rules = rules_of(configured())
    [scores] = (group for group in rules.groups if group.name == "evalstream-scores")
    needed = tuple(rule for rule in scores.rules if isinstance(rule, RecordingRule) and rule.record == SCORES_INCREASE)
    early = EARLY["gen_ai_evaluation_score_count"]
    of = {**SERIES, "instance": "a", "job": "evalstream", "early": "yes"}
    inputs = [*counted("_x10 30+2x9 _x8 66+2x60"), series(early, "_x10 30x9 _x8 30x60", **of)]
    again = {"expr": f'sum({SCORES_INCREASE}{{window="1h"}}) > 120', "eval_time": "86m", "exp_samples": []}
    made = replace(rules, groups=(replace(scores, rules=needed),))
    run(tmp_path, configured(), [{"inputs": inputs, "values": [again]}], made=made)


def test_failures_leave_bounds_of_the_mean_of_all(tmp_path: Path):
    """One of eleven fails: the mean of all lies within a share of 1/11."""
    stream = Stream(per_minute=10, mean=lambda _: 0.5, seed=9).run(100)
    failed = series(
        "evalstream_evaluations_total", [n * 1.0 for n in range(101)], outcome="failed", reason="x", **SERIES
    )
    mean = "evalstream:score_mean{window='1h'}"
    width = "evalstream:score_highest - evalstream:score_lowest"
    values = [
        {"expr": f"abs({expr}) < bool 0.02", "eval_time": "90m", "exp_samples": [{"labels": labels, "value": 1}]}
        for expr, labels in (
            (f"{width} - {1 / 11:.6f}", LABELS.replace("}", ',window="1h"}')),
            (f"evalstream:score_lowest - {mean} * (1 - {1 / 11:.6f})", LABELS.replace("}", ',window="1h"}')),
        )
    ]
    run(tmp_path, configured(), [{"inputs": [*in_full(100, stream), failed], "values": values}])


def test_too_many_unscored_are_noticed(tmp_path: Path):
    stream = Stream(2.0, seed=6).run(200)
    labels = {**SERIES, "instance": "a", "job": "evalstream"}
    failing = [0.5 * minute for minute in range(201)]
    failed = series("evalstream_evaluations_total", failing, **labels, outcome="failed", reason="judge_timeout")
    unscored = {"alertname": "EvalstreamUnscored", "severity": "warning"}
    run(
        tmp_path,
        configured(),
        [{"inputs": [*in_full(200, stream), failed], "alerts": [firing(150, "EvalstreamUnscored", unscored)]}],
    )


@pytest.mark.parametrize("scored", [True, False])
def test_failures_that_were_made_again_with_a_score_no_longer_count(tmp_path: Path, scored: bool):
    """`rejudge` after a quarter of an hour of failures; in vain, they still count."""
    stream = Stream(2.0, seed=6).run(100)
    labels = {**SERIES, "instance": "a", "job": "evalstream"}
    failing = [float(min(minute, 60) - min(minute, 45)) for minute in range(101)]
    failed = series("evalstream_evaluations_total", failing, **labels, outcome="failed", reason="judge_reply_invalid")
    again = [replaced(11 * scored, minute=64, age="0m"), replaced(4 * scored, minute=64, age="15m")]
    kept = [] if scored else [{"alertname": "EvalstreamUnscored", "severity": "warning"}]
    alerts = [firing(minute, "EvalstreamUnscored", *kept) for minute in (85, 95, 100)]
    run(tmp_path, configured(), [{"inputs": [*in_full(100, stream), failed, *again], "alerts": alerts}])


def replaced(number: int, *, minute: int, age: str) -> dict[str, str]:
    counts = [1.0 * number * (each > minute) for each in range(121)]
    return series(
        "evalstream_evaluations_replaced_total", counts, evaluator="helpful", monitor=SERIES["monitor"], age=age
    )


@pytest.mark.parametrize("age", ["a day", "45m"])
def test_old_failures_that_are_made_again_hide_no_present_ones(tmp_path: Path, age: str):
    """`rejudge` of what failed yesterday took as many from the failures of the hour, and the alert ended."""
    stream = Stream(2.0, seed=6).run(120)
    labels = {**SERIES, "instance": "a", "job": "evalstream"}
    failing = [0.5 * max(0, minute - 45) for minute in range(121)]
    failed = series("evalstream_evaluations_total", failing, **labels, outcome="failed", reason="judge_timeout")
    again, of = [100.0 * (minute > 80) for minute in range(121)], {"evaluator": "helpful", "monitor": SERIES["monitor"]}
    made = [
        series("evalstream_evaluations_due_total", again, **of, origin="retried"),
        series("evalstream_evaluations_backfilled_total", again, **SERIES, outcome="scored"),
        replaced(100 if age == "45m" else 0, minute=80, age="45m"),
    ]
    unscored = {"alertname": "EvalstreamUnscored", "severity": "warning"}
    alerts = [
        firing(minute, "EvalstreamUnscored", unscored) for minute in ((79, 118) if age == "45m" else (79, 90, 118))
    ]
    run(tmp_path, configured(), [{"inputs": [*in_full(120, stream), failed, *made], "alerts": alerts}])


def test_what_replaced_failures_that_have_left_the_hour_hides_no_present_ones(tmp_path: Path):
    """Failures of minute 10, made again at 24, were taken from those of after minute 70 until 84; the share was absent."""
    stream = Stream(2.0, seed=6).run(120)
    labels = {**SERIES, "instance": "a", "job": "evalstream"}
    failing = [300.0 * (minute > 10) + 0.5 * max(0, minute - 60) for minute in range(121)]
    failed = series("evalstream_evaluations_total", failing, **labels, outcome="failed", reason="judge_timeout")
    share = "evalstream:unscored_share"
    values = [
        {
            "expr": f"count({share}) and max({share}) <= 0.2",
            "eval_time": at,
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for at in ("30m", "74m", "80m")
    ]
    unscored = {"alertname": "EvalstreamUnscored", "severity": "warning"}
    alerts = [firing(60, "EvalstreamUnscored"), firing(95, "EvalstreamUnscored", unscored)]
    again = replaced(300, minute=24, age="0m")
    run(
        tmp_path, configured(), [{"inputs": [*in_full(120, stream), failed, again], "alerts": alerts, "values": values}]
    )


def test_a_judge_that_limits_every_request_is_unavailable(tmp_path: Path):
    """Its breaker stays closed, as the endpoint works; with some answers it is only slow."""

    def requests(judge: str, result: str, a_minute: float) -> dict[str, str]:
        counts = [a_minute * minute for minute in range(21)]
        return series("evalstream_judge_requests_total", counts, judge=judge, result=result)

    inputs = [
        *(requests("full", "judge_rate_limited", 30.0), requests("full", "ok", 0.0)),
        *(requests("busy", "judge_rate_limited", 30.0), requests("busy", "ok", 3.0)),
    ]
    unavailable = {"alertname": "EvalstreamJudgeUnavailable", "severity": "page"}  # one of the two
    run(tmp_path, configured(), [{"inputs": inputs, "alerts": [firing(15, unavailable["alertname"], unavailable)]}])


def test_a_judge_that_is_unavailable_has_its_cause_in_the_alert(tmp_path: Path):
    """The text named four causes and an "or", while the results name one; and 13 requests were 25: a result's counter
    begins with its first requests, and `increase()` left these out."""
    name = "EvalstreamJudgeUnavailable"
    counts = {"ok": "0+9x10 90x20", "judge_timeout": "0 3x30", "judge_denied": "_x10 4 6+2x20"}
    inputs = [
        series("evalstream_judge_requests_total", count, judge="main", result=result, instance=instance)
        for result, count in counts.items()
        for instance in ("a", "b")
    ]
    inputs.append(series("evalstream_judge_breaker_state", "0x10 1x20", judge="main", state="open"))
    inputs += [series("evalstream_start_timestamp_seconds", "0x30", instance=instance) for instance in ("a", "b")]
    annotations = {
        "summary": "main: the judge is unavailable, or refuses every request",
        "description": "main answers no question. Its endpoint refuses the key, the model or the account (judge_denied: about "
        "48 requests in a quarter of an hour). Evaluations wait; the log of the service says what to correct.",
        "runbook_url": f"deploy/runbooks/{name}.md",
    }
    alert = {"exp_labels": {"severity": "page", "judge": "main"}, "exp_annotations": annotations}
    text = {"eval_time": "20m", "alertname": name, "exp_alerts": [alert]}
    run(tmp_path, configured(), [{"inputs": inputs, "texts": [text]}])


GOLDEN = {"evaluator": "helpful", "evaluator_version": "v", "judge": "main"}


def warned(minutes: int, per_minute: float) -> dict[str, list[dict[str, str]]]:
    """What makes each warning on trust fire, beside so many scores a minute."""
    labels = {**SERIES, "instance": "a", "job": "evalstream"}
    failing = [0.065 * per_minute * minute for minute in range(minutes + 1)]
    return {
        "EvalstreamUnscored": [
            series("evalstream_evaluations_total", failing, **labels, outcome="failed", reason="judge_timeout")
        ],
        "EvalstreamJudgeShift": [
            series("evalstream_golden_shift", f"-0.06x{minutes}", **GOLDEN),
            series("evalstream_golden_shift_stderr", f"0.005x{minutes}", **GOLDEN),
        ],
    }


@pytest.mark.long
@pytest.mark.parametrize("warning", ["EvalstreamUnscored", "EvalstreamJudgeShift"])
def test_a_warning_silences_what_it_explains_and_no_more(tmp_path: Path, warning: str):
    """A mean 0.05 below its target is explained by 6 % that is unscored, or by a judge that is 0.06 stricter. A mean
    that falls to 0.3 is not: it pages."""
    dropped = {"alertname": "EvalstreamScoreDropped", "severity": "page"}
    fallen = Stream(2.0, mean=lambda now: 0.3 if now >= 300 else 0.85, seed=21).run(420)
    a_little = Stream(8.0, mean=lambda _: 0.72, seed=22).run(420)
    for of in (fallen, a_little):
        case = {
            "inputs": [*in_full(420, of), *warned(420, of.per_minute)[warning]],
            "alerts": [firing(290, warning, {"alertname": warning, "severity": "warning"})],
        }
        case["alerts"] += [firing(419, "EvalstreamScore.*", *([dropped] if of is fallen else []))]
        run(tmp_path, configured(), [case])


def test_the_fall_of_the_detector_is_that_of_the_alert_while_no_warning_fires(tmp_path: Path):
    """Brackets were missing around what a warning explains: windows alone began the alert, of a second fall."""
    stream = Stream(60.0, mean=lambda now: 0.7 if now >= 60 else 0.85, seed=24).run(110)
    found = first_fall(by_plain_reference(configured(), stream), 60)
    of_another = "evalstream:drop_falls > 0 unless on () evalstream:score_fall == 1"
    values = [{"expr": of_another, "eval_time": f"{minute}m", "exp_samples": []} for minute in range(found + 1, 110, 4)]
    alerts = [firing(found + 2, "EvalstreamScoreDropped", {"alertname": "EvalstreamScoreDropped", "severity": "page"})]
    run(tmp_path, configured(), [{"inputs": in_full(110, stream), "values": values, "alerts": alerts}])


def test_a_judge_that_was_repaired_explains_the_scores_of_its_time_and_a_restart_forgets_no_shift(tmp_path: Path):
    """A restart took the shift away for a minute, and a repair for good: both paged for what the judge had done."""
    of = Stream(8.0, mean=lambda now: 0.55 if 60 <= now < 120 else 0.85, seed=23).run(180)
    moved = [
        series("evalstream_golden_shift", "0x60 -0.3x28 stale _x1 -0.3x28 0x60", **GOLDEN),
        series("evalstream_golden_shift_stderr", "0.005x88 stale _x1 0.005x89", **GOLDEN),
    ]
    warned = {"alertname": "EvalstreamJudgeShift", "severity": "warning"}
    quiet = [firing(minute, "EvalstreamScore.*") for minute in (75, 91, 105, 121, 124, 132, 150, 179)]
    shifts = [firing(minute, "EvalstreamJudgeShift", warned) for minute in (75, 91, 105)]
    run(tmp_path, configured(), [{"inputs": [*in_full(180, of), *moved], "alerts": [*quiet, *shifts]}])


def test_a_fall_that_the_judge_made_does_not_page_as_the_judge_is_repaired(tmp_path: Path):
    """Four minutes of bad scores raised an alert and ended; then the judge was stricter for a while. As its shift ended,
    the bad scores of before were still in all windows, and the alert began: of scores that were good again."""
    of = Stream(150.0, mean=lambda now: 0.45 if 180 <= now < 184 or 190 <= now < 193 else 0.85, seed=31).run(225)
    moved = [
        series("evalstream_golden_shift", "0x191 -0.4x2 0x40", **GOLDEN),
        series("evalstream_golden_shift_stderr", "0.005x225", **GOLDEN),
    ]
    of_scores, of_judge = "EvalstreamScoreDropped", "EvalstreamJudgeShift"
    alerts = [
        firing(183, of_scores, {"alertname": of_scores, "severity": "page"}),
        firing(193, of_judge, {"alertname": of_judge, "severity": "warning"}),
        *(firing(minute, of_scores) for minute in range(188, 225)),
    ]
    found = {
        "expr": "count(evalstream:drop_falls == 2)",
        "eval_time": "195m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }
    case = {"inputs": [*in_full(225, of), *moved], "alerts": alerts, "values": [found]}
    run(tmp_path, configured(), [case])


def test_a_fall_just_after_one_that_the_judge_made_pages_though_all_windows_hold_the_doubt_of_before(tmp_path: Path):
    """The detector found it and the page had it, but every window overlapped the incident, and none was looked at."""
    means = ((60, 0.85), (70, 0.45), (82, 0.85), (95, 0.45))
    of = Stream(150.0, mean=lambda now: next(mean for end, mean in means if now < end), seed=31).run(95)
    moved = [
        series("evalstream_golden_shift", "0x60 -0.4x8 0x40", **GOLDEN),
        series("evalstream_golden_shift_stderr", "0.005x105", **GOLDEN),
    ]
    dropped = {"alertname": "EvalstreamScoreDropped", "severity": "page"}
    alerts = [
        *(firing(minute, "EvalstreamScoreDropped") for minute in range(62, 82)),
        *(firing(minute, "EvalstreamScoreDropped", dropped) for minute in range(86, 94)),
    ]
    inside = [
        {"expr": f"count({expr})", "eval_time": "86m", "exp_samples": [{"labels": "{}", "value": value}]}
        for expr, value in (("evalstream:window_overlaps_incident", 4), ("evalstream:window_doubt > 0", 3))
    ]
    case = {"inputs": [*in_full(95, of), *moved], "alerts": alerts, "values": inside}
    run(tmp_path, configured(), [case])


def begun_again(written: dict[str, str], minute: int) -> dict[str, str]:
    """The series of a counter whose process starts again after a minute."""
    numbers = [float(each) for each in written["values"].split()] if "x" not in written["values"] else []
    again = [each - numbers[minute] if at > minute else each for at, each in enumerate(numbers)]
    return {**written, "values": " ".join(f"{each:.10g}" for each in again)} if numbers else written


def test_what_explains_a_fall_outlives_a_restart(tmp_path: Path):
    """In the interval without growth nothing explained the fall, and the alert that began then stayed."""
    of = Stream(60.0, mean=lambda now: 0.466 if 300 <= now < 335 else 0.761 if now < 300 else 0.8, seed=7).run(344)
    moved = [
        series("evalstream_golden_shift", "0x299 -0.3x31 0x20", **GOLDEN),
        series("evalstream_golden_shift_stderr", "0.005x344", **GOLDEN),
    ]
    inputs = [*(begun_again(each, 333) for each in in_full(344, of)), *moved]
    quiet = [firing(minute, "EvalstreamScoreDropped") for minute in range(333, 344)]
    run(tmp_path, configured(), [{"inputs": inputs, "alerts": quiet}])


@pytest.mark.long
def test_without_a_warning_the_little_drop_pages(tmp_path: Path):
    little = Stream(8.0, mean=lambda _: 0.72, seed=22).run(420)
    dropped = {"alertname": "EvalstreamScoreDropped", "severity": "page"}
    run(
        tmp_path,
        configured(),
        [{"inputs": in_full(420, little), "alerts": [firing(419, "EvalstreamScoreDropped", dropped)]}],
    )


def test_the_judge_has_interval_apart_from_the_application(tmp_path: Path):
    golden = {"evaluator": "helpful", "evaluator_version": "v", "judge": "main"}
    shift = {"alertname": "EvalstreamJudgeShift", "severity": "warning"}
    error = series("evalstream_golden_shift_stderr", "0.01x60", **golden)
    still = series("evalstream_golden_shift", "0.03x60", **golden)
    moved = series("evalstream_golden_shift", "-0.08x60", **golden)
    cases = [
        {"inputs": [still, error], "alerts": [firing(30, "EvalstreamJudgeShift")]},
        {"inputs": [moved, error], "alerts": [firing(30, "EvalstreamJudgeShift", shift)]},
    ]
    run(tmp_path, configured(), cases)


def test_a_budget_of_errors_that_burns_too_fast_warns(tmp_path: Path):
    """Three quarters fail for an hour, the objective leaves 12 %: every window that has filled by half shows it. The
    mean has a target that it keeps, so that its fall is no alert already."""
    stream = Stream(5.0, mean=lambda now: 0.25 if now >= 200 else MEAN, seed=8).run(400)
    burning = {"alertname": "EvalstreamPassBudgetBurn", "severity": "warning"}
    alerts = [firing(199, "EvalstreamPassBudgetBurn"), firing(262, "EvalstreamPassBudgetBurn", burning)]
    config = configured(objectives={"helpful": 0.88}, targets={"helpful": 0.1})
    run(tmp_path, config, [{"inputs": in_full(400, stream), "alerts": alerts}])


def test_where_lower_is_better_a_rise_is_bad():
    up = DropDetector(target=0.3, threshold=10.0, lower_is_better=True)
    mirrored = DropDetector(target=0.7, threshold=10.0)
    for w, wy in ((3.0, 2.5), (3.0, 0.1), (1.0, 1.0)):
        sums = Sums(w, wy, w, wy, wy)
        opposite = Sums(w, w - wy, w, w - wy, w - wy)
        for bet in up.bets:
            assert math.isclose(up.log_gain_bound(bet, sums), mirrored.log_gain_bound(bet, opposite), abs_tol=1e-12)


def test_the_corrected_mean_of_a_cascade_and_its_error(tmp_path: Path):
    """10 scores of weight 1 a minute with a corrected mean of 0.6 at a share of 0.1, so a shift of 9."""
    plain = configured()
    cascade = {"careful": CascadeSettings(first="main", then="other", share=0.1)}
    config = replace(plain, settings=plain.settings.model_copy(update={"cascades": cascade}))
    per_minute = {
        "estimator_w": 10,
        "estimator_w2": 20,
        "corrected_wy": 96,
        "corrected_w2y": 190,
        "corrected_w2y2": 2000,
    }
    inputs = [series(f"evalstream_{name}_total", f"0+{rate}x120", **SERIES) for name, rate in per_minute.items()]
    names = {key: value for key, value in SERIES.items() if key != "segment"}
    inputs.append(series("evalstream_corrected_shift", "9x120", **names))
    squares = 60 * (2000 - 2 * 9.6 * 190 + 9.6**2 * 20)
    expected = {"evalstream:score_corrected_mean": 0.6, "evalstream:score_corrected_stderr": math.sqrt(squares) / 600}
    values = [
        {
            "expr": f'abs({name}{{window="1h"}} - {value}) < bool 0.0001',
            "eval_time": "100m",
            "exp_samples": [{"labels": LABELS.replace("}", ',window="1h"}'), "value": 1}],
        }
        for name, value in expected.items()
    ]
    run(tmp_path, config, [{"inputs": inputs, "values": values}])
