"""The start of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

from prometheus_client import Counter

from collector.alerting.rules.formats import dashboard_address
from collector.alerting.rules.service import JUDGE_UNAVAILABLE, REFUSED
from collector.alerting.rules.targets import segment_dimensions, targets
from collector.config.alerts import AlertSettings
from collector.config.settings import Settings
from collector.evaluate.guardrails import RedactedCase
from collector.evaluate.judge_questions import judge_questions
from collector.evaluate.sampling.draw_key import draw_key
from collector.page import providers
from collector.page.server import Login, Page, PageLogs
from collector.page.settings import PageSettings
from collector.page.sources import AlertView, BudgetView, ConfigurationView, Sources, Traffic
from collector.page.view import EvaluatorView
from collector.receive.access import BearerTokens
from collector.records.tenants import tenant_of
from collector.service.evaluate import EvaluateTask
from collector.service.plan_builder import known_usd
from collector.service.process import Process, without_preparation
from collector.service.releases import release_view, start_releases
from collector.service.watch import Watching, alerts_for_page, start_agreement
from collector.telemetry.series import REFUSED_CONNECTIONS, WRONG_TOKENS
from evaluators.cases import Conversation, Json, Turn
from evaluators.results import Evaluation


def _views(process: Process) -> tuple[EvaluatorView, ...]:
    """The evaluators in use, with the targets of their means."""
    config = process.config
    means = {
        (target.monitor, target.source): target.mean
        for target in targets(config)
        if target.mean is not None and target.label is None
    }
    free = [name for name in config.evaluators if known_usd(config, name) == 0.0]
    return tuple(providers.evaluator_views(process.plan, means, free))


async def start_page(process: Process, watching: Watching, evaluating: EvaluateTask | None) -> int | None:
    """Serve the page until the process ends; gives the port, None where it is not configured.

    `evaluating` is None where other processes evaluate. If others evaluate, even some partitions, what was spent is
    read from the evaluations log, and no turns are shown: only the process that evaluates a turn counts it.

    Raises:
        ConfigError: the address cannot be bound.
    """
    settings, current = process.config.settings.page, process
    if settings is None:
        return None

    def others() -> str:
        """A sentence that other processes evaluate; "" if none does."""
        if evaluating is None:
            return "Other processes evaluate."
        owned, of = evaluating.budgets.owned_partitions, process.logs.turns.partitions
        return "" if owned == of else f"This process evaluates {owned} of {of} partitions."

    def current_budgets() -> Sequence[BudgetView]:
        own, alone = evaluating and evaluating.budgets, not (process.logs.turns.shared or process.worker)
        usages = providers.usages_of(own, current.plan, page.view, process.clock(), alone=alone)
        return providers.budget_views(usages)

    def current_traffic() -> Traffic:
        return Traffic(unknown=others()) if others() else providers.traffic(process.telemetry, page.view.outcomes)

    agreement = watching.agreement or await start_agreement(process)
    watched = alerts_for_page(process, replace(watching, agreement=agreement))
    comparing = watching.releases or start_releases(process, "page.releases")

    def current_alerts() -> Sequence[AlertView]:
        refusal, problem = process.status.refused, process.status.problem or ""
        refused = [AlertView(name=REFUSED, severity="warning", summary=problem, since=refusal.since)] if refusal else []
        judges = providers.judge_alerts(process.telemetry, JUDGE_UNAVAILABLE)
        firing = (*refused, *judges, *watched(), *comparing.page_alerts())
        return [with_links(view, current.config.settings.alerts) for view in firing]

    async def questions(evaluation: Evaluation, case: Turn | Conversation) -> Mapping[str, Json] | None:
        return await questions_of(current, evaluation, case)

    sources = Sources(
        alerts=current_alerts, budgets=current_budgets, traffic=current_traffic,
        dead_letters=partial(providers.drop_views, process.telemetry),
        deferred=partial(providers.deferred_view, process.telemetry),
        people=agreement.views, draw_key=await draw_key(process.steps),
        configuration=lambda: ConfigurationView(
            number=process.status.number, since=process.status.in_force_since,
            by_segment=bool(segment_dimensions(current.config)),
        ),
        releases=lambda: [release_view(release) for release in comparing.current], gate=comparing.gate,
        questions=questions if process.config.settings.store_text else None,
    )  # fmt: skip
    page = Page(
        settings,
        PageLogs(process.logs.evaluations, process.logs.labels, process.logs.turns, process.logs.history),
        _views(process),
        sources=sources,
        login=_login(process.config.settings, settings, process.telemetry.counter(WRONG_TOKENS, "page")),
        on_refused=process.telemetry.counter(REFUSED_CONNECTIONS, "page").inc,
    )

    page.view.since = lambda: current.since or process.status.in_force_since
    agreement.logged = lambda: providers.logged_weights(page.view, process.clock())

    async def take_over(changed: Process) -> None:
        nonlocal current
        current = changed
        page.view.take_evaluators(_views(changed))

    process.changes.append(without_preparation(take_over))
    process.resources.health.add("page", page.part, vital=False)
    process.tasks.start("page", partial(page.follow, process.tasks.start, partial(process.guarded, "page")))
    return await process.stack.enter_async_context(page.serve())


MOST_QUESTIONS = 20
"""Questions of an evaluation that are shown."""


async def questions_of(process: Process, evaluation: Evaluation, case: Turn | Conversation) -> dict[str, Json] | None:
    """The first questions of an evaluation, and whether its definition is still the same; None where it has gone."""
    in_use = ((monitor.name, assignment) for monitor in process.plan.monitors for assignment in monitor.assignments)
    assignments = {(monitor, assignment.evaluator.name): assignment for monitor, assignment in in_use}
    assignment = assignments.get((evaluation.monitor, evaluation.evaluator))
    if assignment is None:
        return None
    redactor = process.resources.redactors.of(tenant_of(case if isinstance(case, Turn) else case.turns[0]))
    visible, details = RedactedCase(case, redactor, from_logs=True), evaluation.details
    prompts = await judge_questions(assignment, visible, process.steps, details.get("reading"))
    return {
        "steps": list(await process.steps.steps_of(details)),
        "questions": [asdict(question) for question in prompts[:MOST_QUESTIONS]],
        "total": len(prompts),
        "same": evaluation.evaluator_version in (assignment.version, assignment.fallback_version),
        "pack": [name for name in assignment.pack if name != evaluation.evaluator],
    }


def with_links(alert: AlertView, settings: AlertSettings) -> AlertView:
    """The alert with its runbook and dashboard, as far as the configuration says where these are."""
    if alert.severity == "info":
        return alert
    labels = {"monitor": alert.monitor, "evaluator": alert.evaluator}
    chosen = {name: value for name, value in labels.items() if value is not None}
    grafana, runbooks = settings.dashboards, settings.runbooks
    return replace(
        alert,
        runbook=f"{runbooks.rstrip('/')}/{alert.name}.md" if runbooks.startswith(("http://", "https://")) else None,
        dashboard=dashboard_address(grafana, "quality" if alert.monitor else "plumbing", chosen) if grafana else None,
    )


def _login(settings: Settings, page: PageSettings, wrong: Counter) -> Login | None:
    """The login of the page, where tokens are configured; None lets everybody in."""
    auth = settings.page_auth
    if auth is None:
        return None
    where = "page" if page.auth else "receive.otlp_http"
    return Login(BearerTokens(auth, where, on_wrong=wrong.inc), secure=page.tls is not None)
