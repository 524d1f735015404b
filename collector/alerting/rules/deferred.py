"""The alert on evaluations that wait for batches for longer than a provider takes.

A provider answers a batch within a day or gives it up; what it has given up goes into one more batch. So what is older
than one batch takes was given up once, or nobody follows it: a warning. What is older than two should have ended, with
a score or a failure. Its turns are in the log for no longer than its retention, three days at least: a page, while a
day is left to act.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.alerting.rules.model import AlertingRule, RuleGroup, Timing
from collector.config.settings import Settings
from collector.config.urgency import LONGEST_WAIT, due_after
from collector.telemetry.series import DEFERRED_OLDEST

LATE = "EvalstreamDeferredLate"
_HOUR = 3600.0


def deferred_groups(settings: Settings, timing: Timing) -> Sequence[RuleGroup]:
    """The alert, where a monitor's evaluations may wait."""
    if all(monitor.urgency == "now" for monitor in settings.monitors.values()):
        return ()
    once, twice = (due_after(settings, batches) for batches in (1, 2))
    oldest = f"max({DEFERRED_OLDEST.name})"
    warning = AlertingRule(
        name=LATE,
        expr=f"{oldest} > {timing.seconds(once):g} <= {timing.seconds(twice):g}",
        severity="warning",
        hold=timing.seconds(600.0),
        summary="an evaluation waits for its judge's batches for longer than a day",
        description=(
            f"The oldest evaluation that waits for batches has waited for {{value}} s; a batch is answered within "
            f"{once / _HOUR:.1f} h. Its batch expired and was submitted once more, its evaluator asks in several "
            "rounds, or the provider does not answer. Its score comes late, and nothing is lost yet."
        ),
    )
    page = AlertingRule(
        name=LATE,
        expr=f"{oldest} > {timing.seconds(twice):g}",
        severity="page",
        hold=timing.seconds(600.0),
        summary="an evaluation waits for its judge's batches for longer than two of them take",
        description=(
            f"The oldest evaluation that waits for batches has waited for {{value}} s; after {twice / _HOUR:.1f} h "
            "it should have a score or have failed. The log has to retain its turn meanwhile: from "
            f"{LONGEST_WAIT / _HOUR:g} h on it may be gone."
        ),
    )
    return (RuleGroup("evalstream-deferred", timing.seconds(60.0), (warning, page)),)
