"""Alerts that require a judge with proven agreement with people. Without this proof the alerts only warn, and say that
the judge is uncalibrated.

The lower end of kappa's interval proves agreement, by labels that were drawn, for the evaluator and the version of its
judge that scored. A new judge begins without proof.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from collector.alerting.rules import series
from collector.alerting.rules.model import AlertingRule, Fact, Timing
from collector.alerting.rules.promql import selector
from collector.alerting.rules.targets import Target
from collector.telemetry.series import PEOPLE_AGREEMENT, PEOPLE_LABELS

UNCALIBRATED = "EvalstreamUncalibrated"
_JUDGE = ("evaluator", "evaluator_version")
_MARK = " (uncalibrated)"


def by_proof(target: Target, alerts: Iterable[AlertingRule]) -> Iterator[AlertingRule]:
    """The alerts on a target's scores, and warnings in their place while its judge is not proven."""
    for alert in alerts:
        if target.min_agreement is None:
            yield alert
            continue
        proven = f"on ({', '.join(_JUDGE)}) {_proven_judges(target)}"
        yield replace(alert, expr=f"({alert.expr}) and {proven}")
        yield replace(
            alert,
            expr=f"({alert.expr}) unless {proven}",
            severity="warning",
            labels={**alert.labels, "uncalibrated": "true"},
            summary=f"{alert.summary}{_MARK}",
            description=f"{alert.description} {uncalibrated(target.evaluator, target.min_agreement)}",
        )


def uncalibrated(evaluator: str, least: float) -> str:
    """The sentence that says why an alert does not page."""
    return (
        f"Uncalibrated: the judge of {evaluator} has no proven agreement with people "
        f"(a kappa of {least:g} or more at the lower end of its interval), so this alert warns and does not page."
    )


def uncalibrated_alert(target: Target, timing: Timing) -> Iterator[AlertingRule]:
    """The alert on an evaluator whose judge is not proven although alerts require it."""
    if target.min_agreement is None:
        return
    where = {"evaluator": target.evaluator, "monitor": target.monitor}
    known = f"max by ({', '.join(_JUDGE)}) ({series.SCORE_MEAN}{selector(**where, window='24h')})"
    low = {"statistic": "kappa", "bound": "low"}
    yield AlertingRule(
        name=UNCALIBRATED,
        board="trust",
        expr=f"{known} unless on ({', '.join(_JUDGE)}) {_proven_judges(target)}",
        hold=timing.seconds(3600.0),
        labels=where,
        summary="{label:evaluator} of {label:monitor}: its judge's agreement with people is not proven",
        description=(
            "Alerts on {label:evaluator} ({label:monitor}) page only for a judge whose agreement with people is "
            f"proven: a kappa of at least {target.min_agreement:g} at the lower end of its interval. For version "
            "{label:evaluator_version} that is {low}, from {number} effective labelled conversations (? means none). "
            "Until then, these alerts warn. Label the conversations in the queue of the page."
        ),
        facts={"low": Fact(PEOPLE_AGREEMENT.name, _JUDGE, low), "number": Fact(PEOPLE_LABELS.name, _JUDGE)},
    )


def _proven_judges(target: Target) -> str:
    low = selector(evaluator=target.evaluator, statistic="kappa", bound="low")
    return f"(max by ({', '.join(_JUDGE)}) ({PEOPLE_AGREEMENT.name}{low}) >= {target.min_agreement:g})"
