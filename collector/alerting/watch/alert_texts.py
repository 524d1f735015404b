"""The texts of the watcher's alerts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from collector.alerting.rules.falls import BELOW, DROPPED
from collector.alerting.rules.formats import dashboard_address
from collector.alerting.rules.service import SHIFT, SHIFT_EFFECT
from collector.alerting.watch.alert_evaluation import FallOfMean, TargetMiss
from collector.alerting.watch.notifier import AlertInstance
from collector.config.alerts import AlertSettings
from collector.page.sources import Cause
from collector.statistics.incident import DropDetector, margin
from collector.statistics.intervals import mean_text
from collector.wording import at_least, at_most, minute_in_utc, percent


@dataclass(frozen=True, slots=True)
class Watched:
    """An evaluator of a monitor, in one version, and the detector of its target; or the share of one of its labels."""

    monitor: str
    evaluator: str
    version: str
    detector: DropDetector
    of_label: bool = False
    causes: tuple[Cause, ...] = ()
    """The causes of the fall of its scores."""
    otherwise: str = ""
    """If there are no causes: a sentence on the parts that were compared."""
    uncalibrated: str = ""
    """Why its alerts only warn: `min_agreement` is set, and the judge's agreement with people is not proven."""
    judge_verdict: str = ""
    """Whether the judge has changed since the fall, by cases scored again."""
    since: float | None = None
    """When its mean likeliest fell."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its alerts."""
        return {"evaluator": self.evaluator, "evaluator_version": self.version, "monitor": self.monitor}


def drop_alert(watched: Watched, fall: FallOfMean, miss: TargetMiss | None, settings: AlertSettings) -> AlertInstance:
    """The mean has fallen: when, from which level to which; or it misses a target that was raised. Each fall of an
    incident is a separate alert.
    """
    of, lower = watched.detector, watched.detector.lower_is_better
    verb, better, side, sign = ("rose", "below", "above", 1) if lower else ("fell", "above", "below", -1)
    recovered = of.target + sign * margin(of.target, fall.level)
    now = "" if miss is None else f" Now: {_mean(miss)}."
    subject = "the share of the label" if watched.of_label else "the mean score"
    summary = f"is {side} its target of {of.target:g}"
    description = f"has been {side} its target since {minute_in_utc(fall.began[0])}"
    if fall.was_low(of):
        description = f"is {side} its target, and was before"
    if fall.is_fall(of):
        levels = f"from {fall.before:.3g} to {fall.mean:.3g}{' so far' * (not fall.settled)}"
        summary = f"{verb} {levels}; its target is {of.target:g}"
        description = f"{verb} between {minute_in_utc(fall.began[0])} and {minute_in_utc(fall.began[1])}, {levels}"
    return _alert(
        DROPPED,
        "warning" if watched.uncalibrated else "page",
        watched,
        {"fall": str(fall.number)},
        f"{watched.evaluator} of {watched.monitor}: {subject} {summary}{_mark(watched)}",
        f"The mean of {watched.evaluator} ({watched.monitor}) {description}. Its target is {of.target:g}.{now} "
        f"The alert ends when the mean of new scores is surely {better} {recovered:.3g}. {_explained(watched)}"
        f"{_of_judge(watched)}",
        settings,
    )


def mean_alert(target: Watched, miss: TargetMiss, fall: int, settings: AlertSettings) -> AlertInstance:
    """The mean of a window is on the wrong side of its target, by many standard errors.

    If they are enough to page, the alert is about the fall with this number, which the detector has not found yet.
    """
    pages = miss.standard_errors > settings.page_standard_errors
    side = "above" if target.detector.lower_is_better else "below"
    measure = "the share of the label" if target.of_label else "the mean score"
    return _alert(
        DROPPED if pages else BELOW,
        "page" if pages and not target.uncalibrated else "warning",
        target,
        {"fall": str(fall)} if pages else {},
        f"{target.evaluator} of {target.monitor}: {measure} is {side} its target of {target.detector.target:g}"
        f"{_mark(target)}",
        f"The target of {target.evaluator} is {target.detector.target:g}. {_mean(miss)[:1].upper()}{_mean(miss)[1:]}: "
        f"{miss.standard_errors:.1f} standard errors {side} the target. {_explained(target)}{_of_judge(target)}",
        settings,
    )


def shift_alert(watched: Watched, shifted: str, since: float | None, settings: AlertSettings) -> AlertInstance:
    """The judge's scores have left its references. Alerts leave out that part of a fall, so this alert tells why a fall
    may be silent.
    """
    return _alert(
        SHIFT,
        "warning",
        replace(watched, causes=(), since=since),
        {},
        f"{watched.evaluator} of {watched.monitor}: the judge has shifted",
        f"{shifted} {SHIFT_EFFECT}",
        settings,
    )


def _mark(of: Watched) -> str:
    return " (uncalibrated)" if of.uncalibrated else ""


def _of_judge(of: Watched) -> str:
    return "".join(f" {sentence}" for sentence in (of.judge_verdict, of.uncalibrated) if sentence)


def _explained(watched: Watched) -> str:
    moved = "".join(
        f"The first candidate: {cause.part}, first seen {minute_in_utc(cause.first_seen)}"
        f"{'; the fall began then' * cause.with_fall}. "
        for cause in watched.causes
        if cause.first_seen is not None
    )
    parts = ", ".join(
        f"{cause.part} ({percent(cause.share)} of the change)" for cause in watched.causes if cause.first_seen is None
    )
    return f"{moved}The fall is explained by {parts}." if parts else moved.rstrip() or watched.otherwise


def _mean(miss: TargetMiss) -> str:
    outweighing = f", without {percent(miss.clipped)} of the weight, which few conversations have"
    left_out = outweighing * (miss.clipped >= 0.005)
    return (
        f"over {miss.window} the mean is {mean_text(miss.sums.mean, miss.stderr, miss.sums.n_eff)} from "
        f"{miss.sums.n_eff:.0f} effective conversations{left_out}{_failed(miss)}"
    )


def _failed(miss: TargetMiss) -> str:
    low, high = miss.bounds
    if high - low < 0.005:
        return ""
    why = f"{percent(miss.uncovered)} of all have no score or were not shown to a judge"
    return f" ({why}: the mean of all is between {at_least(low)} and {at_most(high)})"


def _alert(
    name: str, severity: str, of: Watched, fall: Mapping[str, str], summary: str, text: str, settings: AlertSettings
) -> AlertInstance:
    return AlertInstance(
        {"alertname": name, "severity": severity, **settings.labels, **of.labels, **fall},
        {"summary": summary, "description": text, **links(name, of.labels, settings)},
        of.causes,
        of.detector.target,
        of.since,
    )


def links(name: str, labels: Mapping[str, str], settings: AlertSettings) -> dict[str, str]:
    """Annotations that say where to look, as alerts of the rules have them: the runbook, and the dashboard if known."""
    runbook = {"runbook_url": f"{settings.runbooks}/{name}.md"}
    dashboard = settings.dashboards and dashboard_address(settings.dashboards, "quality", labels)
    return runbook | ({"dashboard_url": dashboard} if dashboard else {})
