"""Keys of a configuration that are valid and have no effect: `evalstream check` prints a note for each."""

from collections.abc import Iterator

from pydantic import BaseModel

from collector.config.configured import Config, judges_of
from collector.config.settings import BudgetSettings, MonitorSettings, PlannedRate, Settings
from collector.wording import listed


def unused_notes(config: Config) -> Iterator[str]:
    """Yields the keys without effect, the reason, and the change to make."""
    settings = config.settings
    yield from _unused_names(config)
    receive = settings.receive
    if not (receive.otlp_http or receive.otlp_grpc or receive.kafka or receive.files):
        yield "receive names no source, so nothing is received; write otlp_http: {}, or remove receive"
    yield from _fallbacks(config)
    for name, monitor in settings.monitors.items():
        yield from _monitor_notes(f"monitors.{name}", monitor, config)
        if receive.kafka and "tenant" in monitor.match:
            yield f"monitors.{name}.match.tenant: what Kafka brings has no tenant; match service instead"
    yield from _log_notes(settings)
    if settings.alerts.by_segment and not config.dimensions:
        yield "alerts.by_segment does nothing without export.prometheus.segment_by: there is one segment, all"
    yield from _media_notes(settings)
    if settings.canary.share and not any(_judges_in_monitors(config)):
        yield "canary.share does nothing: no evaluator of a monitor asks a judge"


def _media_notes(settings: Settings) -> Iterator[str]:
    for name, judge in settings.judges.items():
        if judge.sees and not judge.media.hosts and not settings.assemble.attachments.stored_bytes:
            yield (
                f"judges.{name}.sees shows nothing: no picture is stored (assemble.attachments.stored_bytes), and no "
                f"host is named whose addresses it may be given (judges.{name}.media.hosts)"
            )
        if judge.media.model_fields_set and not judge.sees:
            yield f"judges.{name}.media does nothing without judges.{name}.sees: [image]"


def _judges_in_monitors(config: Config) -> Iterator[str]:
    """The judges and juries that monitors ask."""
    for monitor in config.settings.monitors.values():
        yield from (judge for use in monitor.uses for judge in judges_of(use.name, config.evaluators))


def _unused_names(config: Config) -> Iterator[str]:
    settings = config.settings
    used = {use.name for monitor in settings.monitors.values() for use in monitor.uses}
    used |= {member.name for entry in config.evaluators.values() for member in getattr(entry.evaluator, "of", ())}
    used |= {entry.audit.evaluator for entry in config.evaluators.values() if entry.audit and entry.audit.evaluator}
    for name in sorted(set(config.evaluators) - used):
        yield f"no monitor uses the evaluator {name}, so it never runs"
    named = {judge for evaluator in config.evaluators.values() for judge in evaluator.judges}
    within = {part for cascade in settings.cascades.values() for part in (cascade.first, cascade.then)}
    yield from (f"no evaluator uses the jury {name}" for name in sorted(set(settings.juries) - named - within))
    yield from (f"no evaluator uses the cascade {name}" for name in sorted(set(settings.cascades) - named))
    members = {member for name in named | set(settings.juries) | within for member in settings.members(name)}
    fallbacks = {judge.fallback for judge in settings.judges.values()}
    yield from (f"no evaluator asks the judge {name}" for name in sorted(set(settings.judges) - members - fallbacks))


def _fallbacks(config: Config) -> Iterator[str]:
    settings = config.settings
    members = {member for name in _judges_in_monitors(config) for member in settings.members(name)}
    limited = settings.evaluate.budget.limited or any(monitor.budget.limited for monitor in settings.monitors.values())
    for name, judge in settings.judges.items():
        if judge.fallback is not None and not limited:
            yield (
                f"judges.{name}.fallback: {judge.fallback} never takes over, as there is no budget; write "
                "usd_per_hour or usd_per_day under a monitor's budget or evaluate.budget"
            )
    if not any(settings.judges[name].fallback for name in members & set(settings.judges)):
        budgets = {"evaluate.budget": settings.evaluate.budget}
        budgets |= {f"monitors.{name}.budget": monitor.budget for name, monitor in settings.monitors.items()}
        for where, budget in budgets.items():
            if "fallback_at" in budget.model_fields_set:
                yield f"{where}.fallback_at does nothing: no judge has a fallback"


def _monitor_notes(where: str, monitor: MonitorSettings, config: Config) -> Iterator[str]:
    boost = monitor.boost
    whole = all((monitor.rate if use.sample is None else use.sample) == 1.0 for use in monitor.uses)
    if boost.model_fields_set and whole and not (monitor.budget.limited or config.settings.evaluate.budget.limited):
        yield f"{where}.boost does nothing: everything is judged already (sample: 1)"
    if "slow_after" in boost.model_fields_set and boost.slow == 1.0:
        yield f"{where}.boost.slow_after does nothing without boost.slow"
    scopes = {config.evaluators[use.name].evaluator.scope for use in monitor.uses}
    if monitor.end_markers.model_fields_set and scopes == {"turn"}:
        yield f"{where}.end_markers does nothing: none of its evaluators scores conversations"
    if monitor.standard_error is not None and not isinstance(monitor.rate, PlannedRate):
        yield f"{where}.standard_error does nothing without sample: auto"
    if not monitor.alerts.enabled and (unheeded := _keys_set(monitor.alerts, "targets", "objectives", "burn_rates")):
        yield f"{where}.alerts: {listed(unheeded)} do nothing while enabled is false"
    yield from _budget_notes(f"{where}.budget", monitor.budget)


def _budget_notes(where: str, budget: BudgetSettings) -> Iterator[str]:
    if not budget.limited and (unheeded := _keys_set(budget, "hard_cap_factor", "fallback_at")):
        yield f"{where}: {listed(unheeded)} do nothing without usd_per_hour or usd_per_day"


_FOR_TOPICS = {"partitions": "use log.kafka.partitions", "retention": "set the topics' retention at the broker"}


def _log_notes(settings: Settings) -> Iterator[str]:
    yield from _budget_notes("evaluate.budget", settings.evaluate.budget)
    if settings.log.kind == "kafka" and not settings.store_text:
        yield "store_text: false deletes no text from topics: each topic's retention.ms does; set it at the broker"
    if settings.log.kind != "sqlite":
        remedies = _FOR_TOPICS if settings.log.kind == "kafka" else {}
        for key in _keys_set(settings.log, "path", "partitions", "retention"):
            remedy = f"; {remedies[key]}" if key in remedies else ""
            yield f"log.{key} does nothing where log.kind is {settings.log.kind}{remedy}"


def _keys_set(section: BaseModel, *names: str) -> list[str]:
    return [name for name in names if name in section.model_fields_set]
