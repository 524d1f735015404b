"""From a configuration to its rules."""

from __future__ import annotations

from collector.config.loading import Config
from collector.export.prometheus import PrometheusSettings
from collector.rules import series
from collector.rules.drops import DROPPED, delta_group, detector_rules
from collector.rules.model import Alert, Inhibition, Recording, RuleSet, Timing
from collector.rules.scores import BELOW, BURN, score_groups
from collector.rules.service import DOWN, NO_TRAFFIC, SHIFT, STALE, UNSCORED, WEIGHTS, service_group
from collector.rules.targets import detector, segment_count, targets

_SCORES = (BELOW, DROPPED, BURN)

INHIBITIONS = (
    Inhibition((SHIFT,), _SCORES, ("evaluator",)),  # the judge moved: nothing is known of the application
    Inhibition((STALE, UNSCORED, WEIGHTS), _SCORES, ("evaluator", "monitor")),
    Inhibition((DOWN,), (STALE, NO_TRAFFIC), ()),
    Inhibition(
        (BELOW, DROPPED),
        (BELOW, BURN),
        ("evaluator", "monitor"),
        source_labels={"severity": "page"},
        target_labels={"severity": "warning"},
    ),
)


def rules_of(config: Config, timing: Timing | None = None) -> RuleSet:
    """All rules of a configuration. `timing` is for tests that cannot wait for real windows."""
    timing = timing or Timing()
    alerts = config.settings.alerts
    held = targets(config)
    by = (*series.BY, "segment") if _by_segment(config) else series.BY
    drops: list[Recording | Alert] = []
    for target in held:
        if target.mean is not None:
            drops += detector_rules(target, detector(target, held, alerts, segment_count(config)), by)
    groups = (
        *score_groups(held, alerts, timing, by),
        delta_group(timing, by, drops),
        service_group(held, alerts, timing, limited=_limited(config)),
    )
    return RuleSet(
        groups=groups,
        inhibitions=INHIBITIONS,
        runbooks=alerts.runbooks,
        dashboards=alerts.dashboards,
        labels=alerts.labels,
        webhook=alerts.webhook,
        speed=timing.speed,
    )


def _limited(config: Config) -> bool:
    budgets = (config.settings.evaluate.budget, *(each.budget for each in config.settings.monitors.values()))
    return any(each.limited for each in budgets)


def _by_segment(config: Config) -> bool:
    return config.settings.alerts.by_segment and isinstance(config.exporters.get("prometheus"), PrometheusSettings)
