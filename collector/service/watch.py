"""The start of the watch stage: the watcher of scores and the golden set, as far as they are configured.

The page shows the alerts that the watcher beside it finds, which evaluates them for the page even while another process
watches and notifies. If none runs beside it, the page has a watcher that sends no notifications.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from collector.alerting.diagnosis.recent_scores import Period, RecentScores
from collector.alerting.rules.agreement import uncalibrated
from collector.alerting.rules.targets import detector, targets
from collector.alerting.watch.notifier import WITHIN, Notifier
from collector.alerting.watch.stage import (
    ActiveAlert,
    AuditVersions,
    JudgeTrust,
    Targets,
    VersionsInUse,
    WatchedLabels,
    WatchRules,
    WatchStage,
)
from collector.calibration.agreement_watch import AgreementWatcher, PeopleSums, is_of_audits
from collector.calibration.feedback_join import JoinSettings
from collector.calibration.feedback_stage import GROUP as FEEDBACK_GROUP, FeedbackStage
from collector.calibration.page_labels import Version
from collector.config.configured import Config
from collector.evaluate.budget.controller import charge_of
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.plan import Plan
from collector.evaluate.references.subject import OUTCOME
from collector.export.prometheus import count_judge_use, create_judge_use, share_name
from collector.golden.own_past import OwnPast
from collector.golden.runner import (
    GoldenCase,
    GoldenRules,
    GoldenRuns,
    GoldenTarget,
    ReportedJudges,
    cases_for,
    read_cases,
)
from collector.judging.layers import without_answer_cache
from collector.page.sources import AlertView, PeopleView, not_evaluated
from collector.records.attributes import STANDARD
from collector.service.evaluate import EvaluateTask
from collector.service.plan_builder import audit_version_in, evaluator_version_in, known_usd
from collector.service.process import Apply, Process, without_preparation
from collector.service.releases import ComparedReleases, start_releases
from collector.service.tasks import Work
from collector.statistics.agreement import ScoreScale
from collector.statistics.audited_sums import audit_name
from collector.statistics.judge_change import JudgeVerdict
from evaluators.evaluation import Result, utc_now
from evaluators.judges.audited import Audited
from evaluators.wire.http_client import HttpClient

PAGE_INTERVAL, PAGE_MEMORY = 15.0, 86400.0
"""Seconds between two evaluations of the page's own watcher, and how far back it remembers."""


@dataclass(frozen=True, slots=True)
class Watching:
    """The watch stage as it runs: its watcher, if there is one, and what is known of judges."""

    watcher: WatchStage | None = None
    releases: ComparedReleases | None = None
    trust: JudgeTrust | None = None
    agreement: "PeopleAgreement | None" = None
    alerts: Work | None = None
    """Evaluates alerts and notifies: to be started when the process has the configuration that is in force."""


class PeopleAgreement:
    """The agreement with people by the labels that there are, of the running configuration; none where none is read."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.watcher: AgreementWatcher | None = None
        self.logged: Callable[[], Mapping[tuple[str, str], float]] = dict
        """As `AgreementWatcher` has it; the page sets it."""

    def restart(self, process: Process) -> Mapping[str, Work]:
        """The work by another configuration: labels come by the page, and are asked for by alerts."""
        self.config, settings = process.config, process.config.settings
        self.watcher = None
        if settings.page is None and settings.alerts.min_agreement is None:
            return {}
        self.watcher = AgreementWatcher(
            process.logs.labels,
            scales_of(process.plan),
            process.telemetry,
            dimensions=process.config.dimensions,
            by_segment=process.config.settings.alerts.by_segment,
            queue=settings.page.queue if settings.page else None,
            logged=lambda: self.logged(),  # noqa: PLW0108 - the page comes later
        )
        return {"agreement": self.watcher.run_forever}

    def views(self) -> dict[tuple[str, str], PeopleView]:
        """The verdicts of people, by monitor and evaluator."""
        watcher = self.watcher
        return {} if watcher is None else {key: self._view(key, sums, watcher) for key, sums in watcher.people.items()}

    def _view(self, key: tuple[str, str], sums: PeopleSums, watcher: AgreementWatcher) -> PeopleView:
        """If labels correct the mean by audits, audits have an agreement beside the scoring judge's."""
        (monitor, evaluator), judged = key, {"": sums.version}
        if correct_audits := is_of_audits(sums.version):
            known = monitor if monitor in self.config.settings.monitors else ""
            judged[""] = evaluator, evaluator_version_in(self.config, evaluator, known)
            judged["audits against people"] = sums.version
        return PeopleView(
            withheld=sums.withheld,
            sums=sums.sums,
            correct_audits=correct_audits,
            agreements={
                **{part: watcher.agreements[by] for part, by in judged.items() if by in watcher.agreements},
                **dict(sorted(watcher.segments.get(judged[""], {}).items())),
            },
            biases=(*watcher.biases.get(judged[""], ()), *sums.notes),
        )

    def uncalibrated(self, monitor: str, evaluator: str, version: str) -> str:
        """Why alerts on an evaluator's scores do not page; "" if they do."""
        least_of = {(target.monitor, target.evaluator): target.min_agreement for target in targets(self.config)}
        least = least_of.get((monitor, evaluator))
        if least is None:
            return ""
        known = None if self.watcher is None else self.watcher.agreements.get((evaluator, version))
        if known is not None and known.kappa.low >= least:
            return ""
        return uncalibrated(evaluator, least)


class _Tasks:
    """Tasks of one configuration. They end before the next configuration's begin."""

    def __init__(self, process: Process) -> None:
        self._tasks = process.tasks
        self._running: list[asyncio.Task[None]] = []

    async def restart(self, works: Mapping[str, Work]) -> None:
        """End what runs, and start these."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running = [self._tasks.start(kind, work) for kind, work in works.items()]


class _Explained:
    """The changes that shifts of judges explain, by the golden set of the running configuration, or by their past.

    `past` has the judges that `golden` does not watch.
    """

    def __init__(self) -> None:
        self.golden: GoldenRuns | None = None
        self.past: OwnPast | None = None

    @property
    def judges(self) -> Sequence[GoldenRuns | OwnPast]:
        return [each for each in (self.golden, self.past) if each is not None]

    def miss(self, evaluator: str, lower: bool, length: float, now: float) -> float:
        return self.golden.explained_miss(evaluator, lower, length, now) if self.golden else 0.0

    def largest(self, evaluator: str, lower: bool, since: float, until: float) -> float:
        return self.golden.largest_miss(evaluator, lower, since, until) if self.golden else 0.0

    def shifted(self, evaluator: str) -> tuple[str, float | None]:
        return self.golden.shifted(evaluator) if self.golden else ("", None)

    def judge_since(
        self, evaluator: str, version: str, since: float, *, alerting: bool, detected_at: float = math.inf
    ) -> JudgeVerdict | None:
        of_each = (
            judges.judge_since(evaluator, version, since, alerting=alerting, detected_at=detected_at)
            for judges in self.judges
        )
        return next(filter(None, of_each), None)

    def note_incidents(self, evaluator: str, version: str, over: Sequence[Period]) -> None:
        for judges in self.judges:
            judges.incidents[evaluator, version] = over

    async def wait_for_answer(self) -> bool:
        return any(await asyncio.gather(*(judges.wait_for_answer() for judges in self.judges)))

    async def run_forever(self) -> None:
        async with asyncio.TaskGroup() as group:
            for judges in self.judges:
                group.create_task(judges.run_forever())


async def start_watch(process: Process, evaluating: EvaluateTask | None) -> Watching:
    """Start what is configured of `alerts.watcher` and `golden`, and the agreement with labels where they are given.

    `evaluating` has the budgets, where this process has that stage.

    Raises:
        ConfigError: the golden set cannot be read.
    """
    settings, telemetry = process.config.settings, process.telemetry
    explained, agreement = _Explained(), PeopleAgreement(process.config)
    prepare = partial(_prepare_checks, _Tasks(process), explained, agreement, evaluating)
    await (await prepare(process.config))(process)
    process.changes.append(prepare)
    _start_feedback(process)
    watcher = settings.alerts.watcher
    trust = JudgeTrust(
        explained.miss, explained.largest, agreement.uncalibrated, explained.shifted, explained.judge_since,
        explained.wait_for_answer, explained.note_incidents,
    )  # fmt: skip
    if watcher is None:
        return Watching(trust=trust, agreement=agreement)
    stage = _stage(process, trust, interval=watcher.interval, memory=watcher.history)
    client = await process.stack.enter_async_context(HttpClient(timeout=WITHIN))
    page = settings.page.url if settings.page else None
    definitions = process.logs.definitions
    notifier = Notifier(client, telemetry, watcher.interval, watcher.alertmanager, watcher.webhook, page, definitions)
    process.follow("watch", process.logs.evaluations, "watch", stage.open_fold)
    releases = start_releases(process, "watch.releases", lambda: stage.evaluates)
    process.changes.append(partial(_prepare_targets, stage, watcher.interval))
    return Watching(stage, releases, trust, agreement, partial(stage.run, notifier, releases.alerts))


async def _prepare_checks(
    tasks: _Tasks, explained: _Explained, agreement: PeopleAgreement, evaluating: EvaluateTask | None, config: Config
) -> Apply:
    """Read the golden set; then check judges by it, and measure the agreement with labels."""
    golden = config.settings.golden
    cases = read_cases(Path(golden.path)) if golden is not None else ()

    async def take_over(process: Process) -> None:
        golden, past = explained.golden, explained.past
        if golden is not None:
            golden.withdraw()
        targets = tuple(_judge_targets(config, process.plan))
        for target in targets:
            name = target.assignment.evaluator.name
            create_judge_use(process.telemetry, (name, target.monitor), priced=known_usd(config, name) is not None)
        of_golden = [target for target in targets if cases_for(target.assignment.evaluator, cases)]
        explained.golden = await _golden(process, evaluating, cases, of_golden)
        explained.past = _own_past(process, evaluating, [target for target in targets if target not in of_golden])
        for judges, earlier in ((explained.golden, golden), (explained.past, past)):
            if judges is not None:
                judges.continue_falls(earlier)
        await tasks.restart({"golden": explained.run_forever, **agreement.restart(process)})

    return take_over


async def _prepare_targets(stage: WatchStage, interval: float, config: Config) -> Apply:
    rules = watch_rules(config, interval)

    async def take_over(process: Process) -> None:
        stage.reconfigure(replace(rules, versions=_versions(process)))

    return take_over


def _start_feedback(process: Process) -> None:
    """Join feedback with what is judged, and give it to the evaluators that ask for it."""
    settings, logs = process.config.settings.feedback, process.logs
    join, wanted = JoinSettings(settings.wait, settings.scales), _wanted_outcomes(process.plan)
    stage = FeedbackStage(logs.labels, logs.evaluations, logs.turns, join, process.telemetry, wanted=wanted)
    stage.subjects.of_both = _of_both(process.plan)

    async def take_over(changed: Process) -> None:
        stage.wanted = _wanted_outcomes(changed.plan)
        stage.subjects.of_both = _of_both(changed.plan)

    process.changes.append(without_preparation(take_over))
    process.telemetry.reserve("feedback", *settings.names)
    process.follow("watch", logs.labels, FEEDBACK_GROUP, stage.open_fold)
    process.tasks.start("feedback", stage.run)


def _of_both(plan: Plan) -> frozenset[str]:
    """The monitors that judge turns and conversations."""
    return frozenset(each.name for each in plan.monitors if each.of_scope("turn") and each.of_scope("conversation"))


def _wanted_outcomes(plan: Plan) -> frozenset[str]:
    return frozenset(
        field.removeprefix(OUTCOME)
        for monitor in plan.monitors
        for assignment in monitor.assignments
        for field in assignment.evaluator.requires
        if field.startswith(OUTCOME)
    )


async def start_agreement(process: Process) -> PeopleAgreement:
    """Measure the agreement with people for the page, where this process runs no watch stage."""
    agreement, tasks = PeopleAgreement(process.config), _Tasks(process)

    async def take_over(changed: Process) -> None:
        await tasks.restart(agreement.restart(changed))

    await take_over(process)
    process.changes.append(without_preparation(take_over))
    return agreement


def alerts_for_page(process: Process, watching: Watching) -> Callable[[], Sequence[AlertView]]:
    """The alerts that fire now, by the watcher of this process, or one for the page alone; before its first look, a
    line that it has not looked.
    """
    stage = watching.watcher
    if stage is None:
        trust = watching.trust or JudgeTrust(uncalibrated=PeopleAgreement(process.config).uncalibrated)
        stage = _stage(process, trust, interval=PAGE_INTERVAL, memory=PAGE_MEMORY)
        process.tasks.start("alerts", partial(_start_when_needed, process, stage))
        process.changes.append(partial(_prepare_targets, stage, PAGE_INTERVAL))
    stage.has_page = True

    def current() -> Sequence[AlertView]:
        if stage.rules.targets and not stage.has_looked:
            return [not_evaluated("Score alerts", stage.interval)]
        return [_page_alert(alert) for alert in _gravest(stage.firing)]

    return current


async def _start_when_needed(process: Process, stage: WatchStage) -> None:
    """Start a watcher for the page alone. It reads nothing until there is a target."""
    while not stage.rules.targets:  # noqa: ASYNC110 - a changed configuration may bring the first one
        await asyncio.sleep(PAGE_INTERVAL)
    process.follow("watch", process.logs.evaluations, "page.watch", stage.open_fold)
    process.tasks.start("alerts", stage.run)


def _gravest(firings: Sequence[ActiveAlert]) -> Iterable[ActiveAlert]:
    """One alert for each evaluator: two about the same mean are one to a person who looks at it."""
    gravest: dict[tuple[str, ...], ActiveAlert] = {}
    for alert in sorted(firings, key=lambda firing: firing.alert.labels["severity"] != "page"):
        labels = alert.alert.labels
        gravest.setdefault((labels["monitor"], labels["evaluator"], labels["evaluator_version"]), alert)
    return gravest.values()


def _page_alert(firing: ActiveAlert) -> AlertView:
    labels = firing.alert.labels
    return AlertView(
        name=labels["alertname"],
        severity="page" if labels["severity"] == "page" else "warning",
        monitor=labels["monitor"],
        evaluator=labels["evaluator"],
        summary=firing.alert.annotations["description"],
        since=firing.since,
        causes=firing.alert.causes,
    )


def _stage(process: Process, trust: JudgeTrust, *, interval: float, memory: float) -> WatchStage:
    recent = RecentScores({*STANDARD, *process.config.settings.assemble.declared_attributes})
    return WatchStage(
        replace(watch_rules(process.config, interval), versions=_versions(process)), process.telemetry,
        log=process.logs.evaluations, interval=interval, memory=memory, recent=recent, trust=trust,
    )  # fmt: skip


def watch_rules(config: Config, interval: float) -> WatchRules:
    """The watched series of a configuration, for alerts that are evaluated once in `interval` seconds."""
    judged = frozenset(name for name, evaluator in config.evaluators.items() if evaluator.judge is not None)
    detectors, labels = _detectors(config, interval), _labels(config)
    return WatchRules(detectors, config.settings.alerts, labels, _audits(config), judged=judged)


def _labels(config: Config) -> WatchedLabels:
    return {
        (name, evaluator): tuple(shares)
        for name, monitor in config.settings.monitors.items()
        for evaluator, shares in monitor.alerts.shares.items()
    }


def _audits(config: Config) -> AuditVersions:
    return {
        (name, use.name): version
        for name, monitor in config.settings.monitors.items()
        for use in monitor.uses
        if (version := audit_version_in(config, use.name)) is not None
    }


def _versions(process: Process) -> VersionsInUse:
    """The versions that score now, of evaluators and of the shares of their labels, and of who audits them."""
    versions: dict[tuple[str, str], set[str]] = {}
    labels = _labels(process.config)
    for monitor in process.plan.monitors:
        for assignment in monitor.assignments:
            name = assignment.evaluator.name
            for series in (name, *(share_name(name, label) for label in labels.get((monitor.name, name), ()))):
                versions[monitor.name, series] = {assignment.version, assignment.version_by(fallback=True)}
    audits = _audits(process.config)
    return versions | {(monitor, audit_name(name)): {version} for (monitor, name), version in audits.items()}


async def _golden(
    process: Process, evaluating: EvaluateTask | None, cases: Sequence[GoldenCase], targets: Sequence[GoldenTarget]
) -> GoldenRuns | None:
    settings = process.config.settings
    if settings.golden is None:
        return None
    return GoldenRuns(
        cases,
        targets,
        await process.logs.generated_steps(),
        process.telemetry,
        ReportedJudges(process.logs.evaluations),
        GoldenRules(settings.golden.interval, settings.alerts.judge_shift_tolerance, settings.golden.share),
        partial(_charge, process, evaluating),
    )


def _charge(process: Process, evaluating: EvaluateTask | None, target: GoldenTarget, made: Result) -> None:
    """Count what a judge was asked about itself as what it is asked about the traffic."""
    count_judge_use(process.telemetry, (target.assignment.evaluator.name, target.monitor), made)
    if evaluating is not None and (usd := charge_of(made, target.assignment)):
        evaluating.budgets.spend_beside(target.monitor, usd, process.clock())


def _own_past(process: Process, evaluating: EvaluateTask | None, targets: Sequence[GoldenTarget]) -> OwnPast:
    """The questions to judges that no golden set watches: within the budgets, redacted, without a canary."""
    logs, redactors = process.logs, process.resources.redactors
    guardrails = EvaluationGuardrails(process.telemetry, redactors=redactors, store_text=False)
    skip_unseen = {monitor.name: monitor.skip_unseen for monitor in process.plan.monitors}

    async def ask(target: GoldenTarget, case: GoldenCase) -> Result | None:
        assignment = target.assignment
        if evaluating is not None and evaluating.budgets.is_used_up(target.monitor, process.clock()):
            return None
        result = await guardrails.run(
            assignment.evaluator, case.case, assignment.judge, now=utc_now, skip_unseen=skip_unseen[target.monitor]
        )
        _charge(process, evaluating, target, result)
        return result

    is_limited = process.plan.budget.limited or any(monitor.budget.limited for monitor in process.plan.monitors)
    return OwnPast(() if evaluating is None and is_limited else targets, logs.evaluations, logs.turns, ask)


def _judge_targets(config: Config, plan: Plan) -> Iterator[GoldenTarget]:
    """Every evaluator with a judge that a monitor uses, once.

    Its judge is asked behind the answer cache, whose answers would hide that the judge has shifted.
    """
    seen: set[str] = set()
    for monitor in plan.monitors:
        for assignment in monitor.assignments:
            name = assignment.evaluator.name
            judge = config.evaluators[name].judge
            if judge is not None and name not in seen:
                seen.add(name)
                uncached = replace(assignment, judge=without_answer_cache(assignment.judge))
                yield GoldenTarget(uncached, judge, monitor.name)


def scales_of(plan: Plan) -> dict[Version, ScoreScale]:
    """The scale and threshold of every evaluator that a monitor uses, and of its audits."""
    scales: dict[Version, ScoreScale] = {}
    for assignment in (assignment for monitor in plan.monitors for assignment in monitor.assignments):
        evaluator = assignment.evaluator
        scales[evaluator.name, assignment.version] = ScoreScale.of(evaluator)
        if isinstance(judge := assignment.judge, Audited):
            auditor = judge.evaluator or evaluator
            scales[audit_name(evaluator.name), judge.audit_version(evaluator)] = ScoreScale.of(auditor)
    return scales


def _detectors(config: Config, interval: float) -> Targets:
    configured = targets(config)
    return {
        (target.monitor, target.evaluator): detector(target, configured, config.settings.alerts, 1, interval)
        for target in configured
        if target.mean is not None
    }
