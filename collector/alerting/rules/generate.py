"""The rules of a configuration."""

import hashlib
from dataclasses import replace

from collector.alerting.rules import series
from collector.alerting.rules.drops import delta_group, detector_rules
from collector.alerting.rules.falls import BELOW, DROPPED, doubt_rules, fall_rules, overlap_rules
from collector.alerting.rules.feedback import feedback_group
from collector.alerting.rules.model import AlertingRule, Inhibition, RecordingRule, RuleGroup, RuleSet, Timing
from collector.alerting.rules.process import deferred_groups, process_group
from collector.alerting.rules.releases import release_group
from collector.alerting.rules.scores import BURN, score_groups
from collector.alerting.rules.service import DOWN, NO_TRAFFIC, SHIFT, STALE, UNSCORED, WEIGHTS, service_group
from collector.alerting.rules.targets import INTERVAL, detector, segment_dimensions, targets, with_budget
from collector.config.configured import Config
from collector.export.segments import count_segments
from collector.telemetry.series import EVALUATOR_INFO

_SCORES = (BELOW, DROPPED, BURN)
_KNOWN = 90_000.0
"""Seconds for which a replaced version is remembered: as long as a window may hold its scores."""

INHIBITIONS = (
    # Alerts on means already subtract what these warnings explain (falls.py). How much they explain of a pass share is
    # unknown.
    Inhibition((SHIFT,), (BURN,), ("evaluator",)),
    Inhibition((UNSCORED, WEIGHTS), (BURN,), ("evaluator", "monitor")),
    Inhibition((STALE,), _SCORES, ("evaluator", "monitor")),  # also for alerts that page: means are old
    Inhibition((DOWN,), (STALE, NO_TRAFFIC), ()),
    Inhibition(
        (DROPPED,),
        (BELOW, BURN),
        ("evaluator", "monitor"),
        source_labels={"severity": "page"},
        target_labels={"severity": "warning"},
    ),
)


def rules_of(config: Config, timing: Timing | None = None) -> RuleSet:
    """All rules of a configuration. `timing` is for tests that cannot wait for real windows."""
    timing = timing or Timing()
    rules = _rules_of(config, timing)
    watched = config.settings.alerts.watcher is not None
    stages = ["receive", "assemble", "evaluate", *(["export"] * bool(config.exporters)), *(["watch"] * watched)]
    process = process_group(stages, rules_hash(config), config.settings.alerts, timing)
    return replace(rules, groups=(*rules.groups, process))


def rules_hash(config: Config) -> str:
    """A hash of the rules of a configuration: by it rules notice that a service runs another configuration."""
    return hashlib.sha256(repr(_rules_of(config, Timing()).groups).encode()).hexdigest()[:12]


def _rules_of(config: Config, timing: Timing) -> RuleSet:
    alerts = config.settings.alerts
    configured = targets(config)
    dimensions = segment_dimensions(config)
    by = (*series.BY, "segment") if dimensions else series.BY
    detected = [
        (target, detector(target, configured, alerts, count_segments(dimensions)))
        for target in configured
        if target.mean is not None
    ]
    drops = [
        *(rule for pair in detected for rule in detector_rules(*pair, alerts, timing, by)),
        *(rule for target, _ in detected for rule in doubt_rules(target, alerts, timing)),
        *overlap_rules(timing, by),
        *(rule for pair in detected for rule in fall_rules(*pair, alerts, timing, by)),
    ]
    scored = [target for target in configured if not target.is_derived]
    compared = [name for name, each in config.settings.monitors.items() if each.compare and each.alerts.enabled]
    groups = (
        *score_groups(
            configured, alerts, timing, by, cascades=bool(config.settings.cascades), people=bool(config.settings.page)
        ),
        delta_group(timing, by, drops),
        service_group(scored, alerts, timing, limited=bool(with_budget(config))),
        release_group(compared, alerts, timing),
        feedback_group(alerts, timing),
        *deferred_groups(config.settings, timing),
    )
    groups = tuple(_of_versions_in_use(group, timing) for group in groups)
    if dimensions:
        groups = tuple(replace(group, rules=tuple(map(_naming_segment, group.rules))) for group in groups)
    return RuleSet(
        groups=groups,
        inhibitions=tuple(map(_within_segments, INHIBITIONS)) if dimensions else INHIBITIONS,
        runbooks=alerts.runbooks,
        dashboards=alerts.dashboards,
        page=config.settings.page.url if config.settings.page else None,
        labels=alerts.labels,
        webhook=alerts.webhook,
        heartbeat=alerts.heartbeat,
        speed=timing.speed,
    )


def _of_versions_in_use(group: RuleGroup, timing: Timing) -> RuleGroup:
    """The group, without alerts on scores of versions that are replaced: their scores never recover."""
    version = ", ".join(series.BY)
    in_use = f"max by ({version}) ({EVALUATOR_INFO.name} > 0)"
    known = f"max by ({version}) (last_over_time({EVALUATOR_INFO.name}[{timing.text(_KNOWN)}]))"
    replaced = f"(({known} unless {in_use}) and on (evaluator, monitor) {in_use})"
    # while nothing is scraped, what was replaced stays replaced
    before = f"last_over_time({series.VERSION_REPLACED}[{timing.text(5 * INTERVAL)}])"
    rule = RecordingRule(series.VERSION_REPLACED, f"{replaced} or ({before} unless on (evaluator, monitor) {in_use})")
    guarded = (
        replace(rule, expr=f"({rule.expr}) unless on ({version}) {series.VERSION_REPLACED}")
        if isinstance(rule, AlertingRule) and rule.name in _SCORES
        else rule
        for rule in group.rules
    )
    return replace(group, rules=(*([rule] if group.name == "evalstream-scores" else ()), *guarded))


def _naming_segment(rule: RecordingRule | AlertingRule) -> RecordingRule | AlertingRule:
    """An alert on scores with its segment, and without causes: those are parts of the whole monitor."""
    if not isinstance(rule, AlertingRule) or rule.name not in _SCORES:
        return rule
    return replace(
        rule,
        summary=rule.summary.replace("{label:monitor}", "{label:monitor}, segment {label:segment}"),
        description=rule.description.replace("({label:monitor})", "({label:monitor}, segment {label:segment})").replace(
            "{causes}", "`evalstream diagnose` names the parts of the whole monitor that fell"
        ),
        facts={word: fact for word, fact in rule.facts.items() if word != "causes"},
    )


def _within_segments(inhibition: Inhibition) -> Inhibition:
    """An alert that pages about one segment does not silence the warnings about another."""
    if set(inhibition.sources) <= set(_SCORES):
        return replace(inhibition, equal=(*inhibition.equal, "segment"))
    return inhibition
