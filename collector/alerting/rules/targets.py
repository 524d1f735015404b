"""Targets: the evaluators of each monitor, with the mean and the pass rate that alerts require of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from collector.config.alerts import DAY, AlertSettings, BurnRate
from collector.config.configured import Config, judges_of
from collector.config.urgency import due_after
from collector.export.prometheus import share_name
from collector.export.segments import Dimension
from collector.statistics.audited_sums import audit_name, scored_name
from collector.statistics.incident import DropDetector, threshold
from evaluators.cases import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An evaluator in a monitor, and the target of its scores.

    `mean` is the target of the mean score, None where nothing is configured; `objective` the share that must pass.
    `delay` (s) is how long after a turn its score may come. With a `label` it is the share of this label, the series is
    named after both, and `source` is the evaluator's own name. With `audited` it is the mean by the evaluator's audits;
    if there are audits, alerts use that mean.
    """

    monitor: str
    evaluator: str
    scope: Scope
    mean: float | None
    lower_is_better: bool = False
    objective: float | None = None
    burns: tuple[BurnRate, ...] = ()
    delay: float = 0.0
    turns_per_hour: float | None = None
    sample: float = 1.0
    label: str | None = None
    audited: bool = False
    deferred: bool = False
    """Whether its scores wait for batches."""
    min_agreement: float | None = None
    """The agreement with people that its judge needs for its scores to page; None if none is asked for."""

    @property
    def is_derived(self) -> bool:
        """Whether the target's series comes from an evaluator's evaluations, but not from its scores."""
        return self.label is not None or self.audited

    @property
    def source(self) -> str:
        """The evaluator whose evaluations it is about."""
        if self.audited:
            return scored_name(self.evaluator)
        return self.evaluator if self.label is None else self.evaluator.removesuffix(share_name("", self.label))

    @property
    def unit(self) -> str:
        """The word for one value of its series."""
        return "audit" if self.audited else "score"

    @property
    def measure(self) -> str:
        """Its mean, as the texts of alerts name it."""
        if self.audited:
            return "the mean by audits"
        return "the mean score" if self.label is None else "the share of the label"


ALIKE = "its labels all have the same score, so a mean says nothing; watch a label's share by alerts.shares"


def targets(config: Config) -> tuple[Target, ...]:
    """Every evaluator of every monitor that alerts, in the order of the configuration."""
    return tuple(_targets(config))


def _targets(config: Config) -> Iterator[Target]:
    for name, monitor in config.settings.monitors.items():
        alerts = monitor.alerts
        for use in monitor.uses if alerts.enabled else ():
            each, rate = use.name, monitor.rate_of(use)
            evaluator = config.evaluators[each].evaluator
            # if somebody has written it: a kind's default pages nobody
            threshold = evaluator.threshold if "threshold" in evaluator.model_fields_set else None
            deferred = monitor.urgency == "hours" and bool(judges_of(each, config.evaluators))
            closes = 2 * monitor.idle_timeout if evaluator.scope == "conversation" else 0.0
            target = Target(
                monitor=name,
                evaluator=each,
                scope=evaluator.scope,
                mean=alerts.targets.get(each, threshold),
                lower_is_better=evaluator.direction == "lower_is_better",
                objective=alerts.objectives.get(each),
                burns=tuple(alerts.burn_rates),
                delay=closes + (due_after(config.settings) if deferred else 0.0),
                deferred=deferred,
                turns_per_hour=alerts.turns_per_hour,
                sample=rate,
                min_agreement=min_agreement(config, each),
            )
            audit = config.evaluators[each].audit
            if audit is None:
                yield target
            else:  # the cheap score's error says nothing about the traffic
                yield replace(target, mean=None)
                yield replace(
                    target, evaluator=audit_name(each), audited=True, objective=None, sample=rate * audit.share
                )
            for label, share in alerts.shares.get(each, {}).items():
                yield replace(
                    target,
                    evaluator=share_name(each, label),
                    label=label,
                    mean=share.share,
                    min_agreement=None,  # people label verdicts, and no label's share
                    lower_is_better=share.at_most is not None,
                    objective=None,
                )


def unalerted(every: Sequence[Target]) -> list[Target]:
    """The targets without a mean. If an evaluator is audited, its alert is on its audits."""
    alerted = {(target.monitor, target.source) for target in every if target.mean is not None and target.label is None}
    return [target for target in every if target.mean is None and (target.monitor, target.source) not in alerted]


def with_budget(config: Config) -> frozenset[str]:
    """The monitors whose rates a budget may lower."""
    whole = config.settings.evaluate.budget.limited
    return frozenset(name for name, monitor in config.settings.monitors.items() if whole or monitor.budget.limited)


def min_agreement(config: Config, evaluator: str) -> float | None:
    """The agreement with people that alerts on an evaluator ask for: of one that asks a judge, or is audited by one."""
    return config.settings.alerts.min_agreement if judges_of(evaluator, config.evaluators) else None


def segment_dimensions(config: Config) -> Sequence[Dimension]:
    """The attributes whose segments alerts tell apart; none if an alert is on all traffic of a monitor."""
    return config.dimensions if config.settings.alerts.by_segment else ()


def detector(
    target: Target, all_targets: Sequence[Target], alerts: AlertSettings, segments: int, interval: float | None = None
) -> DropDetector:
    """The drop detector of a target that has a mean; all of them share the allowed false alarms.

    `interval` is the seconds between two looks, by default the rules'.
    """
    assert target.mean is not None
    series = segments * sum(all_target.mean is not None for all_target in all_targets)
    return DropDetector(
        target=target.mean,
        threshold=threshold(alerts.false_alarm_days * DAY, interval or INTERVAL, series),
        lower_is_better=target.lower_is_better,
    )


INTERVAL = 60.0
"""Seconds between two looks, of rules and watcher alike."""
