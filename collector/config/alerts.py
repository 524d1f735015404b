"""The configuration's keys about alerts, judge health and the watcher."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from collector.config.section import Section
from collector.durations import Seconds

DAY = 86400.0
Share = Annotated[float, Field(gt=0.0, lt=1.0)]
LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]
Mean = Annotated[float, Field(ge=0.0, le=1.0)]


class Burn(Section):
    """A burn rate: the budget of failing scores is used up `factor` times too fast, over a long and a short window."""

    long: Seconds = Field(gt=0, description="The window that shows that it matters.")
    short: Seconds = Field(gt=0, description="The window that shows that it goes on.")
    factor: float = Field(gt=0, description="How many times too fast, in both windows.")


# The usual 14.4/6/3/1 suit objectives of 99.9 %; quality objectives leave 5 to 20 % to fail.
BURNS = (
    Burn(long=3600, short=300, factor=4.0),
    Burn(long=6 * 3600, short=1800, factor=2.5),
    Burn(long=DAY, short=2 * 3600, factor=1.5),
    Burn(long=3 * DAY, short=6 * 3600, factor=1.15),
)


class MonitorAlertSettings(Section):
    """What alerts hold a monitor to. Evaluators that are not named are held to their thresholds."""

    targets: dict[str, Mean] = Field(
        default_factory=dict, description="The mean score an evaluator shall keep; its threshold, if left out."
    )
    objectives: dict[str, Share] = Field(
        default_factory=dict, description="The share of an evaluator's scores that shall pass; none, no burn alert."
    )
    burns: list[Burn] = Field(default_factory=lambda: list(BURNS), description="Burn rates that alert.")
    max_weight: float | None = Field(
        default=None, ge=1.0, description="Largest 1/probability of a score; 1/sample, if left out."
    )
    turns_per_hour: float | None = Field(
        default=None, gt=0, description="Expected matching traffic; `evalstream check` then says what alerts can see."
    )
    enabled: bool = Field(default=True, description="Whether this monitor's scores raise alerts.")

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        for name, objective in self.objectives.items():
            for burn in self.burns:
                failing = burn.factor * (1.0 - objective)
                if failing >= 1.0:
                    raise ValueError(
                        f"objectives.{name} and burns: a factor of {burn.factor:g} at an objective of {objective:g} "
                        f"can never fire: it needs {failing:.0%} of the scores to fail; write a "
                        f"factor below {1.0 / (1.0 - objective):.3g}"
                    )
        return self


class WatcherSettings(Section):
    """Alerts without Prometheus: where the `watch` stage posts what it finds. Exactly one process may run it."""

    alertmanager: str | None = Field(
        default=None, pattern=r"^https?://", description="Base URL of an Alertmanager (API v2)."
    )
    webhook: str | None = Field(
        default=None, pattern=r"^https?://", description="URL that gets every change, in Alertmanager's webhook form."
    )
    interval: Seconds = Field(default=60.0, gt=0, description="Time between two looks.")
    memory: Seconds = Field(
        default=7 * DAY, ge=DAY, description="How far back evidence is kept, and read again at a start."
    )


_OURS = frozenset({"alertname", "severity", "evaluator", "evaluator_version", "monitor", "segment", "window", "judge"})


class AlertSettings(Section):
    """How sure alerts are, and about what."""

    false_alarm_days: float = Field(
        default=90.0, gt=0, description="Mean time between two false alarms of the drop detector, over all series."
    )
    warn: float = Field(default=3.5, gt=0, description="Standard errors below target that warn.")
    page: float = Field(default=4.0, gt=0, description="Standard errors below target that page.")
    min_n: float = Field(default=30.0, ge=2, description="Effective number of conversations that a mean needs.")
    by_segment: bool = Field(default=False, description="Alert on each segment of the traffic by itself.")
    judge_shift: float = Field(
        default=0.02, ge=0, description="A shift of the golden set that is borne, however sure it is."
    )
    unscored_share: Share = Field(default=0.05, description="Share of sampled subjects that may go without a score.")
    weight_tolerance: Share = Field(default=0.1, description="How far the sum of weights may be off the traffic.")
    usd_per_hour: float | None = Field(default=None, gt=0, description="Spending on judges that 1.2 times is too much.")
    max_lag: Seconds = Field(default=600.0, gt=0, description="How long evaluations may be on their way out.")
    max_backlog: float = Field(default=10_000, gt=0, description="Records a stage may be behind.")
    no_traffic: Seconds = Field(default=DAY, gt=0, description="Without any turn for so long, something is broken.")
    runbooks: str = Field(default="deploy/runbooks", description="Where the runbook pages are: a URL or a path.")
    dashboards: str | None = Field(
        default=None,
        pattern=r"^https?://",
        description="Grafana's URL: alerts then link to the dashboard that shows them.",
    )
    labels: dict[LabelName, str] = Field(
        default_factory=dict[str, str], description="Labels of every alert, to route by: {team: search}."
    )
    webhook: str | None = Field(
        default=None, pattern=r"^https?://", description="Receiver put into the generated Alertmanager configuration."
    )
    watcher: WatcherSettings | None = None

    @model_validator(mode="after")
    def _own_labels(self) -> Self:
        taken = sorted(_OURS & set(self.labels))
        if taken:
            raise ValueError(f"labels.{taken[0]}: alerts have a label of this name already; write another")
        return self

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.page < self.warn:
            raise ValueError("page and warn: what pages must be at least as far below target as what warns")
        return self


class GoldenSettings(Section):
    """Frozen cases that the judges score again and again: what moves then is the judge, not the application."""

    path: str = Field(min_length=1, description="JSON lines: a turn or conversation, and `scores` by evaluator.")
    every: Seconds = Field(default=DAY, gt=0, description="Time between two runs; a new judge or version runs at once.")
