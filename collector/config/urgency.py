"""Monitors whose evaluations may wait for hours: mistakes in them, and their part of a configuration."""

from collections.abc import Iterator
from dataclasses import replace

from collector.config.configured import Config, EvaluatorEntry, Evaluators, judges_of
from collector.config.settings import MonitorSettings, Settings

PROMISED = 86_400.0
"""Seconds within which a provider answers a batch, or gives it up."""
LONGEST_WAIT = 3 * 86_400.0
"""Seconds within which a deferred evaluation ends: a batch takes a day, and what expires goes into one more."""


_SLACK = 2 * 3600.0
"""Seconds of overhead around a batch: one look a minute, large results, a restart that reads the day again."""


def due_after(settings: Settings, batches: int = 1) -> float:
    """Seconds within which a deferred evaluation ends whose requests are in so many batches, one after the other."""
    return batches * (settings.evaluate.gather + PROMISED) + _SLACK


def urgency_mistakes(name: str, monitor: MonitorSettings, settings: Settings, evaluators: Evaluators) -> Iterator[str]:
    """The mistakes in a monitor whose evaluations may wait, one sentence each."""
    if monitor.urgency == "now":
        return
    where = f"monitors.{name}.urgency"
    if not settings.store_text:
        yield f"{where}: hours stores judges' answers in the log until all are there; write now, or store_text: true"
    asking = [
        use.name
        for use in monitor.uses
        if use.name in evaluators and judges_and_fallbacks(use.name, settings, evaluators)
    ]
    if not asking and all(use.name in evaluators for use in monitor.uses):
        yield f"{where}: none of its evaluators asks a judge, so nothing would wait; leave it out"
    for evaluator in asking:
        for judge in judges_and_fallbacks(evaluator, settings, evaluators):
            configured = settings.judges.get(judge)
            if configured is not None and not configured.takes_batches:
                how = f"api: {configured.api}" if configured.kind == "openai" else f"kind: {configured.kind}"
                yield (
                    f"{where}: {evaluator} asks judge {judge} ({how}), which cannot be asked in batches; "
                    "write now, or use it in another monitor"
                )


def judges_and_fallbacks(name: str, settings: Settings, evaluators: Evaluators) -> list[str]:
    """The judges that an evaluator asks: those of its audit and their fallbacks, too."""
    names = [
        member
        for judge in judges_of(name, evaluators)
        if judge in settings.judge_names
        for member in settings.members(judge)
    ]
    known = [settings.judges[judge] for judge in names if judge in settings.judges]
    return list(dict.fromkeys([*names, *(judge.fallback for judge in known if judge.fallback)]))


def deferred_part(config: Config) -> Config | None:
    """The configuration with nothing but the monitors whose evaluations may wait, and their evaluators; None if none.

    Their scores wait for audits as long as for the judges: those are in batches, too.
    """
    settings = config.settings
    monitors = {name: monitor for name, monitor in settings.monitors.items() if monitor.urgency == "hours"}
    if not monitors:
        return None
    names = {use.name for monitor in monitors.values() for use in monitor.uses}
    names |= {low.evaluator for monitor in monitors.values() for low in monitor.boost.low_score}
    names |= {audit.evaluator for name in names if (audit := config.evaluators[name].audit) and audit.evaluator}
    evaluators = {name: _patient(config.evaluators[name]) for name in sorted(names)}
    return replace(config, settings=settings.model_copy(update={"monitors": monitors}), evaluators=evaluators)


def _patient(configured: EvaluatorEntry) -> EvaluatorEntry:
    if configured.audit is None:
        return configured
    return replace(configured, audit=configured.audit.model_copy(update={"patience": LONGEST_WAIT}))
