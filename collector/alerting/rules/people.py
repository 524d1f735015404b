"""Means by people's labels, as recording rules: the sums of audits, with people as the auditors.

The series are called `helpful:people`. The sums of the drawn labels of seven days are gauges, as a label can be taken
back; the scores' sums are their growth in the same seven days. If enough labels are of audited answers, people correct
the mean by audits: that counts as one conversation that has this mean, and its variance is a sum of its own. The
version of the labels' sums is that of the mean which they correct. If a mean is withheld, its sums are absent; so are
they while Prometheus lacks scores of these days that the log has, as labels of these scores would correct the others.
"""

from collections.abc import Iterator, Sequence

from collector.alerting.rules import series
from collector.alerting.rules.model import RecordingRule, Timing
from collector.alerting.rules.promql import any_of, growth
from collector.alerting.rules.targets import Target
from collector.statistics.audited_sums import LOGGED, PEOPLE_WINDOW
from collector.telemetry import series as metrics

_OF_SCORES = dict(zip(("w", "wx", "w_w", "w_wx", "wx_wx"), metrics.ESTIMATOR_SUMS, strict=True))
_COVERED = 0.95
"""The share of the log's scores, by weight, that Prometheus must have counted."""


def people_rules(targets: Sequence[Target], timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    """The sums from which means by people are made."""
    own, grouped, week = [*series.BY, "segment", "sum"], (*by, "sum"), timing.text(PEOPLE_WINDOW)
    # one process has them, or two that measure the same
    once = f'max by ({", ".join(own)}) ({metrics.PEOPLE_SUMS.name}{{sum!="{LOGGED}"}})'
    withheld = f"on ({', '.join(series.BY)}) ({metrics.PEOPLE_WITHHELD.name} > 0)"
    labels = f"sum by ({', '.join(grouped)}) ({once} unless {withheld} and {_covered(timing)})"
    audited = [target.evaluator for target in targets if target.audited]
    by_audits = f" or {growth(metrics.AUDITED_SUMS.name, week, grouped)}" if audited else ""
    yield RecordingRule(series.AUDITED_INCREASE, f"{labels}{by_audits}", {"window": series.WEEK})
    plain = [target.evaluator for target in targets if not target.is_derived]
    for name, value in _scores(list(dict.fromkeys(plain)), list(dict.fromkeys(audited)), timing, by):
        yield RecordingRule(series.AUDITED_INCREASE, value, {"window": series.WEEK, "sum": name})


def _covered(timing: Timing) -> str:
    """Whether Prometheus has the scores of the seven days of which the log has labels."""
    pair = ("evaluator", "monitor")
    scraped = growth(metrics.ESTIMATOR_SUMS[0].name, timing.text(PEOPLE_WINDOW), pair)
    logged = f'max by ({", ".join(pair)}) ({metrics.PEOPLE_SUMS.name}{{sum="{LOGGED}"}})'
    return f"on ({', '.join(pair)}) ({_by_people(scraped, '(.*)')} > {_COVERED} * {logged})"


def _scores(
    plain: Sequence[str], audited: Sequence[str], timing: Timing, by: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The sums of all scores, and of the means by audits."""
    mean, error = (
        f'{each}{{evaluator=~{any_of(audited)},window="{series.WEEK}"}}'
        for each in (series.SCORE_MEAN, series.SCORE_STDERR)
    )
    of_audits = {"w": f"{mean} * 0 + 1", "wx": mean, "w_w": f"{mean} * 0 + 1", "w_wx": mean, "wx_wx": f"{mean} ^ 2"}
    if audited:
        yield series.BASE, _by_people(f"sum without (window) ({error} ^ 2)", "(.*):audit")
    for name, counter in _OF_SCORES.items():
        grown = growth(f"{counter.name}{{evaluator=~{any_of(plain)}}}", timing.text(PEOPLE_WINDOW), by)
        by_audits = _by_people(f"sum without (window) ({of_audits[name]})", "(.*):audit")
        yield name, _by_people(grown, "(.*)") + (f" or {by_audits}" if audited else "")


def _by_people(value: str, name: str) -> str:
    return f'label_replace({value}, "evaluator", "$1:people", "evaluator", "{name}")'
