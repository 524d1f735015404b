from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from configurations import checked

from collector.alerting.rules import series
from collector.alerting.rules.detectability import (
    MEDIAN,
    NINE_OF_TEN,
    _threshold_lines,
    alert_lines,
    evaluations_until_page,
    smallest_detectable_drop,
)
from collector.alerting.rules.formats import FORMATS, page_address, prometheus, text
from collector.alerting.rules.generate import INHIBITIONS, rules_hash, rules_of
from collector.alerting.rules.model import AlertingRule, RecordingRule
from collector.alerting.rules.promql import duration, quoted
from collector.alerting.rules.targets import detector, targets
from collector.alerting.rules.write import render, write
from collector.config.configured import AuditSettings, Config
from collector.config.loading import check
from collector.config.settings import CascadeSettings
from collector.errors import ConfigError
from collector.page.settings import PageSettings
from collector.telemetry import series as telemetry

ROOT = Path(__file__).parents[4]


def configured(alerts: dict[str, Any] | None = None, **monitor: Any) -> Config:
    return check(
        {
            "evaluators": {
                "exact": {"kind": "exact_match", "threshold": 0.77},
                "free": {"kind": "exact_match"},
            },
            "monitors": {"chatbot": {"evaluators": ["exact", "free"], "alerts": monitor}},
            "alerts": {"expected_usd_per_hour": 3, **(alerts or {})},
        },
        "test.yaml",
    )


def audited(config: Config) -> Config:
    """The same with an audit of one evaluator."""
    free = replace(config.evaluators["free"], audit=AuditSettings(judge="strong"))
    return replace(config, evaluators={**config.evaluators, "free": free})


def deferred(config: Config) -> Config:
    """The same with evaluations that may wait."""
    monitors = {name: each.model_copy(update={"urgency": "hours"}) for name, each in config.settings.monitors.items()}
    return replace(config, settings=config.settings.model_copy(update={"monitors": monitors}))


def all_alerts(config: Config) -> list[AlertingRule]:
    return list(rules_of(config).alerts())


def test_every_alert_has_a_runbook_and_every_runbook_an_alert():
    asked = {"heartbeat": "https://switch.example", "min_agreement": 0.4}
    config = deferred(audited(configured(asked, objectives={"exact": 0.9}, targets={"free": 0.7})))
    named = {alert.name for alert in all_alerts(config)}
    pages = {path.stem for path in (ROOT / "deploy" / "runbooks").glob("Evalstream*.md")}
    assert named == pages
    listed = (ROOT / "deploy" / "runbooks" / "README.md").read_text()
    assert all(f"{name}.md" in listed for name in named)


def test_no_alert_of_grafana_reads_what_only_prometheus_writes():
    """Prometheus writes ALERTS of its own rules; alerts that Grafana manages are in no series."""
    files = render(configured(objectives={"exact": 0.9}), ["grafana"])
    assert "EvalstreamScoreDropped" in files["evalstream.grafana-alerts.yml"]
    assert "ALERTS" not in files["evalstream.grafana-alerts.yml"]


def test_texts_show_labels_that_the_rule_itself_adds():
    """Prometheus fills texts in from the labels of the expression: those of the rule would be empty."""
    rules = rules_of(configured(objectives={"exact": 0.9}))
    written = [alert for group in FORMATS["prometheus"][1](rules)["groups"] for alert in group["rules"]]
    for alert in [each for each in written if "alert" in each]:
        shown = set(re.findall(r"\$labels\.([a-z_]+)", " ".join(alert["annotations"].values())))
        assert not shown & set(alert["labels"]), alert["alert"]
    [stale] = [
        each for each in written if each.get("alert") == "EvalstreamStale" and each["labels"]["evaluator"] == "exact"
    ]
    assert stale["annotations"]["summary"].startswith("exact of chatbot: ")


def test_rules_are_outdated_when_a_target_or_a_name_changes():
    evaluator = {"kind": "exact_match", "threshold": 0.77}
    renamed = check({"evaluators": {"same": evaluator}, "monitors": {"chatbot": {"evaluators": ["same"]}}}, "test.yaml")
    hashes = [rules_hash(each) for each in (configured(), configured(targets={"exact": 0.8}), renamed)]
    assert len(set(hashes)) == 3
    assert rules_hash(configured()) == hashes[0]
    assert hashes[0] in text(FORMATS["prometheus"][1](rules_of(configured())))


def test_a_heartbeat_is_called_every_minute_and_tells_nobody_else():
    rules = rules_of(configured({"heartbeat": "https://switch.example"}))
    routes = FORMATS["alertmanager"][1](rules)
    route = routes["route"]["routes"][0]
    assert (route["receiver"], route["group_interval"], route["repeat_interval"]) == ("heartbeat", "1m", "30s")
    assert routes["receivers"][1]["webhook_configs"][0]["url"] == "https://switch.example"
    assert "EvalstreamWatchdog" in text(FORMATS["prometheus"][1](rules))
    assert "EvalstreamWatchdog" not in text(FORMATS["grafana"][1](rules))
    assert "EvalstreamWatchdog" not in text(FORMATS["prometheus"][1](rules_of(configured())))


def test_rules_name_only_series_that_exist():
    """Ours, those our rules record, and what Prometheus itself makes; in texts of alerts too."""
    declared = {each.name for each in telemetry.all_series()}
    declared |= {f"{each.name}_count" for each in telemetry.all_series() if each.kind == "histogram"}
    recorded = {
        rule.record
        for group in rules_of(configured()).groups
        for rule in group.rules
        if isinstance(rule, RecordingRule)
    }
    recorded |= {
        rule.record
        for group in rules_of(audited(configured())).groups
        for rule in group.rules
        if isinstance(rule, RecordingRule)
    }
    for group in rules_of(audited(configured(objectives={"exact": 0.9}))).groups:
        for rule in group.rules:
            facts = [fact.series for fact in rule.facts.values()] if isinstance(rule, AlertingRule) else []
            for name in [*re.findall(r"\b(?:evalstream|gen_ai)[a-z0-9_:]+", rule.expr), *facts]:
                if name != "evalstream_":
                    assert name in declared | recorded, (name, rule)


def test_every_name_of_the_list_of_series_is_recorded():
    config = audited(configured(objectives={"exact": 0.9}))
    cascades = {"careful": CascadeSettings(first="a", then="b")}
    rules = rules_of(replace(config, settings=config.settings.model_copy(update={"cascades": cascades})))
    recorded = {rule.record for group in rules.groups for rule in group.rules if isinstance(rule, RecordingRule)}
    named = [value for value in vars(series).values() if isinstance(value, str) and value.startswith("evalstream:")]
    named += [*series.EVIDENCE_DELTAS.values(), *series.ESTIMATOR_INCREASES.values()]
    named += [*series.CORRECTED_INCREASES.values(), *series.EARLY.values()]
    assert set(named) == recorded


def test_factors_that_can_never_fire_are_refused():
    burns = [{"long": "1h", "short": "5m", "factor": 14.4}]
    with pytest.raises(ConfigError, match=r"alerts.*14\.4.*0\.88 can never fire.*factor below 8\.33"):
        configured(objectives={"exact": 0.88}, burn_rates=burns)
    configured(objectives={"exact": 0.95}, burn_rates=burns)


def test_a_burn_rate_over_the_week_of_peoples_means_records_nothing_twice():
    """Prometheus logs an error at each evaluation of a second rule that writes the same series."""
    config = configured(objectives={"exact": 0.9}, burn_rates=[{"long": "7d", "short": "6h", "factor": 1.5}])
    paged = config.settings.model_copy(update={"page": PageSettings()})
    recorded = [
        (rule.record, *sorted(rule.labels.items()))
        for group in rules_of(replace(config, settings=paged)).groups
        for rule in group.rules
        if isinstance(rule, RecordingRule)
    ]
    assert (series.PROCESS_FRESH, ("window", series.WEEK)) in recorded
    assert len(recorded) == len(set(recorded))


def test_targets_and_objectives_of_evaluators_that_are_not_there_are_refused():
    with pytest.raises(ConfigError, match=r"monitors\.chatbot\.alerts\.targets.*did you mean 'exact'"):
        configured(targets={"exakt": 0.5})


def test_an_objective_without_a_threshold_is_refused():
    with pytest.raises(ConfigError, match=r"monitors\.chatbot\.alerts\.objectives.*'free' has no threshold"):
        configured(objectives={"free": 0.9})


def test_targets_default_to_thresholds():
    assert [each.mean for each in targets(configured())] == [0.77, None]
    assert [each.mean for each in targets(configured(targets={"exact": 0.6, "free": 0.5}))] == [0.6, 0.5]


def test_a_monitor_can_be_left_out():
    assert targets(configured(enabled=False)) == ()


def test_what_alerts_share_of_false_alarms_falls_with_their_number():
    one, two = configured(), configured(targets={"free": 0.5})
    thresholds = [
        detector(held[0], held, config.settings.alerts, 1).threshold
        for config in (one, two)
        for held in [targets(config)]
    ]
    assert thresholds[1] - thresholds[0] == pytest.approx(0.6931, abs=1e-3)


def test_segments_are_told_apart_when_asked():
    config = checked(
        {"exact": {"kind": "exact_match", "threshold": 0.77}},
        export={"prometheus": {"segment_by": "tenant", "segments": ["a", "b"]}},
        alerts={"by_segment": True},
    )
    text = render(config, ["prometheus"])["evalstream.rules.yml"]
    assert "by (evaluator, evaluator_version, monitor, segment)" in text
    assert "sum by (evaluator, evaluator_version, monitor) " not in text
    assert "The fall is explained by" not in text
    about_scores = [
        rule for rule in all_alerts(config) if rule.name in {"EvalstreamScoreBelowTarget", "EvalstreamScoreDropped"}
    ]
    assert len(about_scores) == 2
    for rule in about_scores:
        assert "{label:monitor}, segment {label:segment}" in rule.summary
        assert "({label:monitor}, segment {label:segment})" in rule.description
        # its causes are parts of the whole monitor: "explained by tier=free" was said of the segment tier=gold
        assert ("causes" in rule.facts, "explained" in rule.description) == (False, False)
        assert "`evalstream diagnose` names the parts of the whole monitor that fell. " in rule.description
    (silenced,) = [each for each in rules_of(config).inhibitions if "EvalstreamScoreDropped" in each.sources]
    assert silenced.equal == ("evaluator", "monitor", "segment"), "a page about one does not silence another's warning"
    assert "segment" not in str(rules_of(configured()).inhibitions)


def test_the_operators_manifest_holds_the_same_groups():
    files = {name: yaml.safe_load(text) for name, text in render(configured(), []).items()}
    assert files["evalstream.prometheusrule.yml"]["spec"]["groups"] == files["evalstream.rules.yml"]["groups"]
    assert files["evalstream.prometheusrule.yml"]["kind"] == "PrometheusRule"


def test_grafana_gets_every_alert_once_and_says_nothing_where_nothing_is_wrong():
    config = configured(objectives={"exact": 0.9})
    document = yaml.safe_load(render(config, ["grafana"])["evalstream.grafana-alerts.yml"])
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len(rules) == len(all_alerts(config))
    assert len({rule["uid"] for rule in rules}) == len({rule["title"] for rule in rules}) == len(rules)
    for rule in rules:
        letters = [query["refId"] for query in rule["data"]]
        assert letters[0] == "A"
        assert rule["condition"] in letters
        assert rule["noDataState"] == "OK"
        used = re.findall(r"\$values\.([A-Z])", str(rule["annotations"]))
        assert set(used) <= set(letters)
        assert "$value " not in str(rule["annotations"])


def test_inhibitions_name_alerts_that_exist():
    named = {alert.name for alert in all_alerts(configured(objectives={"exact": 0.9}))}
    assert {name for each in INHIBITIONS for name in (*each.sources, *each.targets)} <= named


def test_texts_count_one_and_many():
    """EvalstreamRulesOutdated said: "1 processes run a configuration …"."""
    for alert in all_alerts(configured(objectives={"exact": 0.9})):
        assert not re.search(r"(?<![Aa]bout )\{value\} \w+s ", alert.description), alert.name


def test_texts_have_no_place_that_stays_open():
    for alert in all_alerts(configured(objectives={"exact": 0.9})):
        places = re.findall(r"\{(?!label:)([a-z_]+)\}", alert.summary + alert.description)
        assert not re.search(r"(?<![Aa]bout )\{value\} [a-z]+s ", alert.description), "`1 processes run`"
        assert set(places) <= {"value", "count", *alert.facts}, alert.name
        for fact in alert.facts.values():
            assert fact.by


def test_files_are_written_where_asked(tmp_path: Path):
    written = write(configured(), [], tmp_path / "rules")
    rules = [path for path in written if path.parent == tmp_path / "rules"]
    assert {path.name for path in rules} == {name for name, _ in FORMATS.values()}
    assert all(path.read_text().startswith("# Written by") for path in rules)


def test_a_format_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="unknown format 'xml'; choose from alertmanager"):
        render(configured(), ["xml"])


def test_check_says_what_alerts_see():
    lines = list(alert_lines(configured(turns_per_hour=1000)))
    assert "chatbot/exact: target 0.77; at 1,000 evaluations/h a lasting drop to 0.76 pages within " in lines[0]
    assert lines[0].endswith("if all turns of a conversation score alike, only a drop to 0.74 does")
    assert lines.pop(1) == (
        "           example: if the mean is 0.80 and falls to 0.75, the alert pages after about 4.1 h; with a target of 0.79, "
        "after about 1.0 h"
    ), "26 and 7.2 h were measured at a tenth of this traffic: the same ratio"
    assert "chatbot/free: no score alert" in lines[1]
    assert lines[2] == "alerts     chatbot/exact (below 0.77): without a target, the threshold is the target;"
    assert "`evalstream plan targets` proposes one nearer to the mean" in lines[3]
    assert "90 days over 1 series" in lines[4]
    chosen = "\n".join(alert_lines(configured(targets={"exact": 0.8})))
    assert "evalstream plan targets" not in chosen


def test_each_score_without_a_target_is_named_with_its_own() -> None:
    """The target of the first stood for all: "a mean alerts only below 0.60" of a score whose target is 1.00."""
    held = targets(configured())[0]
    lines = list(_threshold_lines([held, replace(held, evaluator="short", mean=1.0)], configured()))
    assert "chatbot/exact (below 0.77), chatbot/short (below 1.00): without a target" in lines[0]


def test_more_judging_sees_smaller_drops():
    held = targets(configured())
    of = detector(held[0], held, configured().settings.alerts, 1)
    gaps = [smallest_detectable_drop(of, number, 4.0, clustered=False) for number in (20, 100, 1000, 10_000)]
    assert gaps[0] == math.inf, "a window needs thirty"
    assert gaps[1] == pytest.approx(12 * gaps[3], rel=0.01)
    assert sorted(gaps, reverse=True) == gaps
    few = smallest_detectable_drop(of, 1000, 4.0, clustered=True)
    assert 2.3 < few / gaps[2] < 2.6, "conversations that are good or bad as a whole tell less"


@pytest.mark.parametrize(
    ("hourly", "mean", "clustered", "half", "most"),
    [
        (20, 0.72, False, 23.13, 43.40),
        (20, 0.67, False, 10.28, 15.50),
        (20, 0.57, False, 4.00, 5.35),
        (100, 0.74, False, 13.87, 20.55),
        (100, 0.72, False, 6.67, 12.40),
        (100, 0.67, False, 2.67, 4.17),
        (100, 0.57, False, 0.75, 0.93),
        (20, 0.72, True, 159.40, 219.78),
        (20, 0.67, True, 48.08, 69.57),
        (20, 0.57, True, 21.02, 25.65),
        (100, 0.72, True, 37.20, 52.13),
        (100, 0.67, True, 13.32, 18.42),
        (100, 0.57, True, 4.52, 5.12),
        (500, 0.74, False, 4.08, 5.67),
        (500, 0.72, False, 1.25, 2.80),
        (500, 0.67, False, 0.57, 0.82),
        (500, 0.57, False, 0.18, 0.20),
        (500, 0.74, True, 23.03, 37.25),
        (500, 0.72, True, 8.68, 13.45),
        (500, 0.67, True, 3.02, 4.07),
        (500, 0.57, True, 0.82, 0.93),
    ],
)
def test_predicted_delays_are_those_of_the_simulation(
    hourly: float, mean: float, clustered: bool, half: float, most: float
):
    """Within a factor of two, and never much too short. Medians of 16 streams: 100 an hour and 0.74 gave 79 and 54 h."""
    held = targets(configured())
    of = detector(held[0], held, configured().settings.alerts, 1)
    for model, measured in ((MEDIAN, half), (NINE_OF_TEN, most)):
        predicted = evaluations_until_page(of, 0.77 - mean, 4.0, model, clustered=clustered) / hourly
        assert 0.7 < predicted / measured < 2.0


def test_a_budget_is_mentioned():
    text = "if a budget leaves"
    assert not any(text in line for line in alert_lines(configured()))
    limited = check(
        {
            "evaluators": {"exact": {"kind": "exact_match", "threshold": 0.77}},
            "monitors": {"chatbot": {"evaluators": ["exact"], "budget": {"usd_per_hour": 1.0}}},
        },
        "test.yaml",
    )
    assert any(text in line for line in alert_lines(limited))


@pytest.mark.parametrize(
    ("seconds", "text"), [(900, "15m"), (86400, "24h"), (3 * 86400, "3d"), (90, "90s"), (0.25, "250ms"), (1, "1s")]
)
def test_durations(seconds: float, text: str):
    assert duration(seconds) == text


def test_values_of_labels_are_quoted():
    assert quoted('a"b\\c') == '"a\\"b\\\\c"'


def test_score_alerts_link_to_what_they_are_about_on_the_page():
    """The runbook sends people to the page, and the alert had no address of it."""
    config = configured()
    settings = config.settings.model_copy(update={"page": PageSettings(url="https://evals.example/")})
    for name in ("prometheus", "grafana"):
        groups = FORMATS[name][1](rules_of(replace(config, settings=settings)))["groups"]
        links = {rule.get("annotations", {}).get("page_url") for group in groups for rule in group["rules"]}
        assert "https://evals.example/?monitor=chatbot&evaluator=exact" in links
    assert "page_url" not in str(prometheus(rules_of(config))), "nothing says where the page is"
    labels = {"monitor": "a b", "evaluator": "outcome=escalated"}
    assert page_address("https://evals.example", labels) == "https://evals.example/?monitor=a+b&evaluator=outcome"
    assert page_address("https://evals.example", {"evaluator": "exact:audit"}).endswith("/?evaluator=exact")


def test_alerts_link_to_their_dashboard_and_carry_the_labels_that_are_asked_for():
    config = configured({"dashboards": "https://grafana.example/", "labels": {"team": "search"}})
    for name, key in (("prometheus", "groups"), ("grafana", "groups")):
        groups = FORMATS[name][1](rules_of(config))[key]
        alerts = [rule for group in groups for rule in group["rules"] if "annotations" in rule]
        assert alerts
        assert all(rule["labels"]["team"] == "search" for rule in alerts)
        boards = {re.sub(r"\?.*", "", rule["annotations"]["dashboard_url"]) for rule in alerts}
        assert boards <= {
            f"https://grafana.example/d/{path.stem}" for path in (ROOT / "deploy/grafana/dashboards").iterdir()
        }
    below = next(
        rule
        for group in FORMATS["prometheus"][1](rules_of(config))["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "EvalstreamScoreBelowTarget"
    )
    assert below["annotations"]["dashboard_url"] == (
        "https://grafana.example/d/evalstream-quality?from=now-24h&to=now&var-monitor=chatbot&var-evaluator=exact"
    )


def test_a_label_that_alerts_have_already_is_refused():
    with pytest.raises(ConfigError, match=r"alerts.*labels\.severity: alerts have a label of this name already"):
        configured({"labels": {"severity": "page"}})


def test_a_hard_cap_alerts_where_there_is_a_budget():
    def refusals(config: Config) -> list[str]:
        return [
            alert.expr
            for alert in all_alerts(config)
            if "over_budget" in alert.expr and "evaluations_ended" in alert.expr
        ]

    assert refusals(configured()) == []
    limited = checked({"exact": {"kind": "exact_match"}}, monitor={"budget": {"usd_per_hour": 1}})
    assert len(refusals(limited)) == 1


def test_what_is_judged_at_a_rate_of_its_own_has_interval_by_that_rate():
    config = check(
        {
            "evaluators": {"exact": {"kind": "exact_match", "threshold": 0.77}},
            "monitors": {
                "all": {
                    "evaluators": [{"name": "exact", "sample": 0.5}],
                    "sample": 0.01,
                    "alerts": {"turns_per_hour": 1000},
                }
            },
        },
        "test.yaml",
    )
    assert "at 500 evaluations/h" in "\n".join(alert_lines(config))


def test_check_counts_the_audits_of_an_audited_evaluator_as_its_alerts_are_on_them():
    lines = "\n".join(alert_lines(audited(configured(turns_per_hour=1000, targets={"free": 0.7}))))
    assert "chatbot/free:audit: target 0.70; at 50 audits/h" in lines
    assert "chatbot/free: target" not in lines
