"""The start of the comparison of releases, and what the page shows of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from collector.alerting.releases.gate import GateAnswer, GateQuestion
from collector.alerting.releases.hourly_scores import ComparedAttribute
from collector.alerting.releases.releases import Release, ReleaseRules
from collector.alerting.releases.stage import INTERVAL, ReleaseStage
from collector.alerting.rules.releases import WORSE
from collector.alerting.watch.alert_texts import links
from collector.alerting.watch.notifier import AlertInstance
from collector.config.alerts import AlertSettings
from collector.config.configured import Config
from collector.page.requests import GateRequest
from collector.page.sources import AlertView, ReleaseView, not_evaluated
from collector.service.plan_builder import lower_is_better
from collector.service.process import Apply, Process
from collector.telemetry.plain import in_chat
from evaluators.cases import Json

WITHIN: Mapping[str, str] = {"service_version": "service", "model": "service", "prompt_version": "prompt"}
"""Attributes whose values have a meaning only within a value of another attribute."""


def release_rules(config: Config) -> ReleaseRules:
    """The comparisons of a configuration."""
    monitors, alerts = config.settings.monitors, config.settings.alerts
    return ReleaseRules(
        attributes={name: _compared(monitor.compare) for name, monitor in monitors.items()},
        evaluators={name: [use.name for use in monitor.uses] for name, monitor in monitors.items()},
        lower=lower_is_better(config),
        error_rate=alerts.release_error_rate,
        drift=alerts.release_drift,
    )


def _compared(declared: Sequence[str] | Mapping[str, Sequence[str]]) -> tuple[ComparedAttribute, ...]:
    values = declared if isinstance(declared, Mapping) else dict[str, Sequence[str]]()
    return tuple(ComparedAttribute(name, WITHIN.get(name), tuple(values.get(name, ()))) for name in declared)


class ComparedReleases:
    """The comparison of releases in a process, by the running configuration. It reads nothing until that compares."""

    def __init__(self, process: Process, group: str, wanted: Callable[[], bool]) -> None:
        """`group` is whose progress in the evaluations log it is. Only while it is `wanted` releases are compared."""
        self._process = process
        self._group = group
        self._settings = process.config.settings.alerts
        retention = process.config.settings.log.retention
        rules = release_rules(process.config)
        self._stage = ReleaseStage(
            rules, process.telemetry, process.logs.evaluations,
            wanted=wanted, retention=retention, clock=process.clock,
        )  # fmt: skip
        self._runs = False

    @property
    def current(self) -> Sequence[Release]:
        """The comparisons as they were last made."""
        return self._stage.current

    def gate(self, request: GateRequest) -> dict[str, Json] | None:
        """The decision on a version; None where no monitor compares that attribute."""
        question = GateQuestion(**request.model_dump(exclude={"expect"}))
        rules = self._stage.rules.attributes
        monitors = [name for name in rules if question.monitor in (None, name)]
        if not any(attribute.name == question.attribute for name in monitors for attribute in rules[name]):
            return None
        return gate_view(question, self._stage.decide(question))

    def alerts(self) -> list[AlertInstance]:
        """The releases that are worse for sure."""
        return worse_releases(self.current, self._settings)

    def page_alerts(self) -> list[AlertView]:
        """The same on the page."""
        is_unknown = self._runs and not self._stage.has_looked
        return [not_evaluated("Release alerts", INTERVAL)] if is_unknown else release_alerts(self.current)

    def start_if_needed(self) -> None:
        """Begin to read the evaluations log, if there is anything to compare."""
        if self._runs or not any(self._stage.rules.attributes.values()):
            return
        self._runs = True
        process = self._process
        process.follow("watch", process.logs.evaluations, self._group, self._stage.open_fold)
        process.tasks.start("releases", self._stage.run)

    async def prepare(self, config: Config) -> Apply:
        """Compare by another configuration's rules, once it is taken."""
        rules = release_rules(config)

        async def take_over(process: Process) -> None:
            self._settings = process.config.settings.alerts
            self._stage.reconfigure(rules)
            self.start_if_needed()

        return take_over


def start_releases(process: Process, group: str, wanted: Callable[[], bool] = lambda: True) -> ComparedReleases:
    """Compare releases in this process, while that is `wanted`."""
    compared = ComparedReleases(process, group, wanted)
    compared.start_if_needed()
    process.changes.append(compared.prepare)
    return compared


def release_view(release: Release) -> ReleaseView:
    """A comparison as the page shows it."""
    difference = release.difference
    return ReleaseView(
        monitor=release.place.monitor, evaluator=release.key.evaluator, attribute=release.place.attribute,
        within=release.place.within, baseline=release.baseline, version=release.version, started=release.started,
        means=release.means, conversations=release.conversations,
        difference=difference.estimate if difference else None,
        low=difference.low if difference and difference.has_interval else None,
        high=difference.high if difference and difference.has_interval else None,
        method=difference.method if difference else None, state=release.state, lost=release.lost,
        beside=release.beside,
    )  # fmt: skip


def gate_view(question: GateQuestion, answer: GateAnswer) -> dict[str, Json]:
    """A decision as scripts and controllers read it."""
    comparisons = [asdict(release_view(release)) for release in answer.compared]
    return {"decision": answer.decision, "reason": answer.reason, **asdict(question), "comparisons": comparisons}


def worse_releases(releases: Sequence[Release], settings: AlertSettings) -> list[AlertInstance]:
    """The releases that are worse for sure, as the watcher's alerts."""
    return [_worse(release, settings) for release in releases if release.is_worse]


def _worse(release: Release, settings: AlertSettings) -> AlertInstance:
    labels = {
        "monitor": release.place.monitor,
        "evaluator": release.key.evaluator,
        "evaluator_version": release.key.version,
        "attribute": release.place.attribute,
        "within": in_chat(release.place.within),
        "baseline": in_chat(release.baseline),
        "version": in_chat(release.version),
    }
    summary = f"{labels['evaluator']} of {labels['monitor']}: {release.version} is worse than {release.baseline}"
    description = f"{_sentence(release)}. The two versions may have had different traffic: see the runbook."
    return AlertInstance(
        {"alertname": WORSE, "severity": "warning", **settings.labels, **labels},
        {"summary": summary, "description": description, **links(WORSE, labels, settings)},
    )


def _sentence(release: Release) -> str:
    text = f"{release.place.attribute} {release.version} is worse than {release.baseline}"
    difference = release.difference
    if difference is None:
        return text
    interval = f"between {difference.low:+z.3f} and {difference.high:+z.3f}"
    return f"{text}: by {abs(difference.estimate):.3f}, {interval} ({difference.method})"


def release_alerts(releases: Sequence[Release]) -> list[AlertView]:
    """The releases that are worse for sure, as alerts on the page."""
    return [
        AlertView(
            name=WORSE,
            severity="warning",
            monitor=release.place.monitor,
            evaluator=release.key.evaluator,
            summary=_sentence(release),
            since=release.started,
        )
        for release in releases
        if release.is_worse
    ]
