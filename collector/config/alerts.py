"""The configuration's keys about alerts, judge health and the watcher."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, field_validator

from collector.durations import Seconds
from collector.section import Section, checked_base
from collector.wording import at_least

DAY = 86400.0
Share = Annotated[float, Field(gt=0.0, lt=1.0)]
LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]
Mean = Annotated[float, Field(ge=0.0, le=1.0)]


class BurnRate(Section):
    """A burn rate: the budget of failing scores is used up `factor` times too fast, over a long and a short window."""

    long: Seconds = Field(gt=0)
    """The long window: shows that failures matter."""
    short: Seconds = Field(gt=0)
    """The short window: shows that they continue."""
    factor: float = Field(gt=0)
    """How many times as fast as the objective allows scores may fail, in both windows."""


# The usual 14.4/6/3/1 suit objectives of 99.9 %; quality objectives leave 5 to 20 % to fail.
BURN_RATES = (
    BurnRate(long=3600, short=300, factor=4.0),
    BurnRate(long=6 * 3600, short=1800, factor=2.5),
    BurnRate(long=DAY, short=2 * 3600, factor=1.5),
    BurnRate(long=3 * DAY, short=6 * 3600, factor=1.15),
)


class ShareTarget(Section):
    """Bounds on the share of a label."""

    at_most: Share | None = None
    """Alerts fire where the share is larger."""
    at_least: Share | None = None
    """Alerts fire where the share is smaller."""

    def _mistakes(self) -> Iterator[str]:
        if (self.at_most is None) == (self.at_least is None):
            yield "write exactly one of at_most and at_least"

    @property
    def share(self) -> float:
        """The share itself."""
        return self.at_most or self.at_least or 0.0


class MonitorAlertSettings(Section):
    """Targets of a monitor's alerts. Evaluators without one have their configured threshold as the target."""

    targets: dict[str, Mean] = Field(default_factory=dict)
    """The mean score that an evaluator must keep; by default its configured threshold."""
    shares: dict[str, dict[str, ShareTarget]] = Field(default_factory=dict[str, dict[str, ShareTarget]])
    """Shares of a classifier's labels that alerts require: {outcome: {escalated: {at_most: 0.05}}}."""
    objectives: dict[str, Share] = Field(default_factory=dict)
    """The ratio of scores that must pass; without it, no burn alert."""
    burn_rates: list[BurnRate] = Field(default_factory=lambda: list(BURN_RATES))
    """Burn rates that alert."""
    turns_per_hour: float | None = Field(default=None, gt=0)
    """Expected matching traffic; `evalstream check` then says what alerts detect."""
    enabled: bool = True
    """Whether this monitor's scores raise alerts."""

    def _mistakes(self) -> Iterator[str]:
        for name, objective in self.objectives.items():
            for burn in self.burn_rates:
                failing = burn.factor * (1.0 - objective)
                if failing >= 1.0:
                    yield (
                        f"objectives.{name} and burns: a factor of {burn.factor:g} at an objective of {objective:g} "
                        f"can never fire: it needs {failing:.0%} of the scores to fail; write a "
                        f"factor below {at_least(1.0 / (1.0 - objective))}"
                    )


class WatcherSettings(Section):
    """Alerts without Prometheus: where the `watch` stage posts them. Of several processes, one posts."""

    alertmanager: str | None = Field(default=None, pattern=r"^https?://")
    """Base URL of an Alertmanager; /api/v2/alerts is added."""
    webhook: str | None = Field(default=None, pattern=r"^https?://")
    """URL that is notified of every change, in Alertmanager's webhook format."""
    interval: Seconds = Field(default=60.0, gt=0)
    """Time between two checks."""
    history: Seconds = Field(default=7 * DAY, ge=DAY)
    """How far back evidence is stored, and read again at a start."""

    @field_validator("alertmanager")
    @classmethod
    def _a_base(cls, url: str | None) -> str | None:
        return url and checked_base(url, "/api/v2/alerts", "/api/v2", "/api/v1/alerts")


_OF_SCORES = frozenset({"evaluator", "evaluator_version", "monitor", "segment", "window", "judge"})
_OF_RELEASES = frozenset({"attribute", "within", "baseline", "version"})
_OURS = frozenset({"alertname", "severity"}) | _OF_SCORES | _OF_RELEASES


class AlertSettings(Section):
    """Thresholds of alerts, and what they link to."""

    false_alarm_days: float = Field(default=90.0, gt=0)
    """Mean time between two false alarms of the drop detector, over all series."""
    false_recovery_days: float = Field(default=7.0, gt=0)
    """Mean time until an alert on a drop ends by chance, while the mean has not recovered."""
    warn_standard_errors: float = Field(default=3.5, gt=0)
    """Standard errors below target that warn."""
    page_standard_errors: float = Field(default=4.0, gt=0)
    """Standard errors below target that page."""
    min_conversations: float = Field(default=30.0, ge=2)
    """Effective number of conversations that a mean needs."""
    min_agreement: Share | None = None
    """The least kappa of a judge's verdicts with those of people, by the lower end of the 95 % interval from drawn
    labels. Until it is reached, alerts on these scores warn and do not page."""
    by_segment: bool = False
    """Alert on each segment of the traffic by itself."""
    release_error_rate: Share = 0.01
    """Of releases that change nothing, the share that is ever called worse."""
    release_drift: Mean = 0.03
    """How far a mean may move with time alone: a mean that is compared before and after has to fall further."""
    judge_shift_tolerance: float = Field(default=0.02, ge=0)
    """A shift of the golden set below which there is no alert, however certain it is."""
    max_unscored_share: Share = 0.05
    """Share of sampled subjects that may go without a score."""
    weight_tolerance: Share = 0.1
    """How far the sum of weights may differ from the traffic."""
    expected_usd_per_hour: float | None = Field(default=None, gt=0)
    """Expected spending on judges; at 1.2 times this an alert fires."""
    max_lag: Seconds = Field(default=600.0, gt=0)
    """How old an evaluation may be when it is exported."""
    max_backlog: float = Field(default=10_000, gt=0)
    """How many records a stage may lag behind its log."""
    no_traffic_after: Seconds = Field(default=DAY, gt=0)
    """After this time without any turn, there is an alert."""
    runbooks: str = "deploy/runbooks"
    """The place of the runbook pages: a URL or a path."""
    dashboards: str | None = Field(default=None, pattern=r"^https?://")
    """Grafana's URL: alerts then link to their dashboard."""
    labels: dict[LabelName, str] = Field(default_factory=dict[str, str])
    """Labels of every alert, to route by: {team: search}."""
    webhook: str | None = Field(default=None, pattern=r"^https?://")
    """Receiver put into the generated Alertmanager configuration."""
    heartbeat: str | None = Field(default=None, pattern=r"^https?://")
    """URL that the generated Alertmanager configuration calls every minute while alerting works. It belongs to a
    service outside that alerts when calls stop (a dead man's switch)."""
    watcher: WatcherSettings | None = None

    def _mistakes(self) -> Iterator[str]:
        for reserved in sorted(_OURS & set(self.labels)):
            yield f"labels.{reserved}: alerts have a label of this name already; write another"
        if self.page_standard_errors < self.warn_standard_errors:
            yield "page and warn: what pages must be at least as far below target as what warns"


class GoldenSettings(Section):
    """Frozen cases that the judges score regularly: a change shows that the judge moved, not the application."""

    path: str = Field(min_length=1)
    """JSON lines: a turn or conversation, and `scores` by evaluator."""
    interval: Seconds = Field(default=DAY, gt=0)
    """Time between two runs; a new judge or version runs at once."""
    share: Share = 0.02
    """Single cases that are asked between runs, as a share of the judge's live calls; 0: none."""
