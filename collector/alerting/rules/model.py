"""The model of rules from which every format is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from collector.alerting.rules.promql import duration

Severity = Literal["page", "warning", "heartbeat"]
"""A `heartbeat` always fires: when it stops arriving, alerting itself is broken."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A recording rule: `record` gets the value of `expr` (PromQL), with `labels` added."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list of values, each named by a label: `intro`, the items, or `otherwise` if there are none.

    `form` is the function that formats a value. `order` are the values of the label in the order of the list; without
    it, Prometheus chooses one. Grafana's texts cannot list: they have `elsewhere`.
    """

    label: str
    form: str
    intro: str
    otherwise: str
    elsewhere: str
    unit: str = ""
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """Another series whose value an alert's text shows: the one with the alert's labels `by`, and `labels`.

    `within` is a duration in PromQL: its last value within it counts. `is_time`: it is in seconds since the epoch. With
    `listed` there may be several. `is_margin`: it is a standard error, and shown as what stands behind every "±", half
    of the 95 % interval. `only` is PromQL after the series that says which values count. With a `phrase`, `{}` in it is
    the value, and there is no phrase without one. A bound `rounds` to two decimals by `floor`
    or `ceil`, so that it stays true.
    """

    series: str
    by: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    within: str | None = None
    is_time: bool = False
    listed: Listing | None = None
    is_margin: bool = False
    only: str = ""
    phrase: str = ""
    rounds: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingRule:
    """An alerting rule: it fires for every series that `expr` gives for as long as `hold` (s).

    `summary` and `description` may hold `{label:…}` for a label's value, `{value}` for the value of `expr` (`{count}`:
    as a whole number), and `{…}` for a fact of that name. `description` says mean, error, n and target where there are
    such.
    """

    name: str
    expr: str
    severity: Severity = "warning"
    summary: str
    description: str
    hold: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    facts: Mapping[str, Fact] = field(default_factory=dict[str, Fact])
    board: str = "plumbing"
    """The dashboard that shows it: quality, trust, cost or plumbing."""


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated in their order, every `interval` seconds."""

    name: str
    interval: float
    rules: tuple[RecordingRule | AlertingRule, ...]


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While an alert of `sources` fires, alerts of `targets` with equal values of the labels `equal` are silent.

    `source_labels` and `target_labels` have to match besides.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    equal: tuple[str, ...]
    source_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    target_labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """All rules of a configuration. `runbooks` is the URL of their pages, `webhook` of the receiver.

    `dashboards` is Grafana's URL, `page` that of evalstream's page, `labels` what every alert has.
    """

    groups: tuple[RuleGroup, ...]
    inhibitions: tuple[Inhibition, ...]
    runbooks: str
    dashboards: str | None = None
    page: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    webhook: str | None = None
    heartbeat: str | None = None
    """Whom Alertmanager calls as long as alerting works."""
    speed: float = 1.0

    def alerts(self) -> tuple[AlertingRule, ...]:
        """All alerting rules, in order."""
        return tuple(rule for group in self.groups for rule in group.rules if isinstance(rule, AlertingRule))


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast the rules' clock goes: tests divide every duration by `speed`."""

    speed: float = 1.0

    def seconds(self, seconds: float) -> float:
        """A duration by this clock, in seconds."""
        return seconds / self.speed

    def text(self, seconds: float) -> str:
        """A duration by this clock, as PromQL writes it."""
        return duration(seconds / self.speed)
