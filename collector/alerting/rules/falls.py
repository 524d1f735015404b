"""The alerts on a mean that misses its target: one fall is one alert, which names the windows that show it.

Two tests find a fall: the evidence of the drop detector (`drops.py`), and the mean of a window that is a
configured number of standard errors beyond its target. Either begins the alert, and it lasts until neither says so.

Warnings that scores are missing or doubtful cancel as much of a miss as they can explain, and no more.

With 6 % of the subjects unscored, the mean of all is known to within 0.06: a mean that is 0.05 below its target may be
at it, and one that is 0.5 below is not. So alerts on scores fire where the mean misses its target by more than what the
firing warnings explain together. Why not an inhibition of Alertmanager's: it cannot compare sizes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collector.alerting.rules import series
from collector.alerting.rules.agreement import by_proof
from collector.alerting.rules.drops import MEMORY, States
from collector.alerting.rules.model import AlertingRule, Fact, Listing, RecordingRule, Timing
from collector.alerting.rules.promql import selector
from collector.alerting.rules.service import JUDGE_MEMORY, inconsistent_weights, judge_shift, unscored
from collector.alerting.rules.targets import Target
from collector.config.alerts import DAY, AlertSettings
from collector.statistics.incident import LARGEST_MARGIN, LEAST_DIFFERENCE, DropDetector
from collector.statistics.judge_change import SOON
from collector.telemetry.series import DROP_EXPLAINED, GOLDEN_SHIFT_STDERR, JUDGE_MOVED

CAUSES = Fact(
    series.DROP_CAUSE, ("evaluator", "monitor"), listed=Listing(
        label="slice", form="humanizePercentage", unit=" of the change", intro="The fall is explained by ",
        otherwise="No part of the traffic is known to explain it",
        elsewhere="`evalstream diagnose` says what explains it",
    ),
)  # fmt: skip
"""The parts of the traffic that explain a drop, as a process that watches scores has found them."""
_CHANGED = "The judge has changed: the same cases, scored again, moved by {}. "
_LATER = (
    "The judge had not changed when the scores fell. It has changed since: the same cases, scored again, moved by {}. "
)
JUDGE_VERDICTS = {
    verdict: Fact(series.JUDGE_VERDICT, series.BY, {"verdict": verdict}, phrase=phrase, rounds=rounds)
    for verdict, phrase, rounds in (
        ("changed", _CHANGED, ""),
        ("better", f"{_CHANGED}Better scores explain no fall. ", ""),
        ("later", _LATER, ""),
        ("unchanged", "The judge has not changed: the same cases, scored again, moved by at most {}. ", "ceil"),
    )
}
"""Whether the judge has changed, by cases that it judged again; from a process that watches scores."""
MARGIN_ERRORS = 2.0
"""A judge's shift, and the miss of a mean, may differ from what was measured by this many standard errors."""


def doubt_rules(target: Target, alerts: AlertSettings, timing: Timing) -> Iterator[RecordingRule]:
    """The doubt in a target's mean, the distance that missing or doubtful scores may explain: now, and in each window.

    A window holds scores of a warning that is over: until it has left them, its doubt is the warning's mean over it.
    """
    where = {"evaluator": target.evaluator, "monitor": target.monitor}
    here, of_judge = selector(evaluator=target.source, monitor=target.monitor), selector(evaluator=target.source)
    # the judge's shift to the bad side; a judge that has become more lenient explains no drop
    worse = judge_shift(alerts, timing, "" if target.lower_is_better else "-", of_judge)
    error = f"last_over_time({GOLDEN_SHIFT_STDERR.name}{of_judge}[{timing.text(JUDGE_MEMORY)}])"
    shifted = f"({worse}) + {MARGIN_ERRORS:g} * {error}"
    parts = [
        f"sum({unscored(alerts, timing, here)})",
        f"max({inconsistent_weights(alerts, timing.text(6 * 3600), here)})",
    ]
    # not for shares of labels, whose shift by a judge is unknown, nor for audited means, which audits correct
    yield RecordingRule(series.JUDGE_DOUBT, "vector(0)" if target.is_derived else f"max({shifted}) or vector(0)", where)
    parts.append(f"max({series.JUDGE_DOUBT}{selector(**where)})")
    yield RecordingRule(series.SCORE_DOUBT, " + ".join(f"({part} or vector(0))" for part in parts), where)
    doubt = f"{series.SCORE_DOUBT}{selector(**where)}"
    for window, length in series.WINDOWS.items():
        mean = f"avg_over_time({doubt}[{timing.text(length)}])"
        # all labels, although the series have them: rules of one name are told apart by them when they are read again
        yield RecordingRule(series.WINDOW_DOUBT, f"{mean} > {doubt} or {doubt}", where | {"window": window})


def _short(target: Target, mean: float) -> str:
    """PromQL of the distance from each window's mean to the target, above 0 on the wrong side."""
    chosen = selector(evaluator=target.evaluator, monitor=target.monitor)
    windows = chosen.replace("}", f',window!="{series.WEEK}"}}') if target.audited else chosen
    known = f"{series.SCORE_MEAN}{windows}"
    return f"{known} - {mean:g}" if target.lower_is_better else f"{mean:g} - {known}"


def _unexplained(target: Target, mean: float, alerts: AlertSettings, states: States) -> str:
    """PromQL of the fall that the detector found, unless warnings explain it; none ends an alert that fires.

    Warnings explain it while no window of the present is surely beyond the target and the doubt. A shift of the judge
    that is about as old as the fall explains it until the mean recovers, if the fall is no larger.
    """
    here, by, falls = selector(**states.where), ", ".join(states.by), f"{states.last(series.DROP_FALLS)} > 0"
    surely = f"{_short(target, mean)} - {MARGIN_ERRORS:g} * {series.SCORE_STDERR}{here}"
    enough, doubt = f"{series.SCORE_N_EFF}{here} >= {alerts.min_conversations:g}", f"{series.WINDOW_DOUBT}{here}"
    present = f"{enough} unless {series.WINDOW_OVERLAPS}{here}"
    beyond = f"{surely} - on (evaluator, monitor, window) group_left () {doubt} and {present}"
    level, shift = states.last(series.DROP_LEVEL), states.last(series.FALL_SHIFT)
    short = f"({level} - {mean:g})" if target.lower_is_better else f"({mean:g} - {level})"
    # while no window is of the present, as after an incident, the fall itself is compared with the largest doubt
    deeper = f"{short} - on (evaluator, monitor) group_left () max by (evaluator, monitor) ({doubt})"
    unexplained = f"(({beyond}) > 0 or on ({by}) ({deeper} > 0 unless on ({by}) ({present})))"
    doubtful = f"({falls} and on (evaluator, monitor) {doubt} > 0 unless on ({by}) {unexplained})"
    explained = f"({doubtful} or on ({by}) ({short} <= {shift} and {shift} > 0))"
    # SCORE_FALL is here its own value of the interval before: an alert that fires stays
    return f"({falls} unless on ({by}) ({explained} unless on ({by}) {states.now(series.SCORE_FALL)}))"


def _fall_shift(states: States) -> RecordingRule:
    """The largest shift of the judge in the first half hour of a fall, or until the fall's level is settled."""
    falls, here = states.now(series.DROP_FALLS), selector(**states.where)
    earlier = states.now(series.DROP_INCIDENT)
    before = f"({states.last(series.FALL_SHIFT)} and {states.in_incident} and {falls} == {earlier})"
    current = f"({states.number(0)} + on (evaluator, monitor) group_left () {series.JUDGE_DOUBT}{here})"
    age = f"time() - {states.recent(series.DROP_SINCE)}"
    young = f"({age} < {SOON:g} or {falls} != {earlier} or {states.now(series.DROP_SETTLED)} == 0)"
    return states.rule(
        series.FALL_SHIFT, f"({before} > {current} or {current} and {young} or {before}) and {falls} > 0"
    )


DROPPED, BELOW = "EvalstreamScoreDropped", "EvalstreamScoreBelowTarget"
_BOUNDS = "With any scores for the cases that have none, the mean of the last %s would be between {} "
_CLIPPED = (
    "The mean leaves out {} of the weight of the last hour, so that no single conversation outweighs the others. "
)
_DOUBT = "Missing or doubtful scores may have moved the mean by at most {}. "


def overlap_rules(timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    """The windows that still hold scores of an incident that is over; their means do not describe the present."""
    recovered = f"max by ({', '.join(by)}) (last_over_time({series.DROP_RECOVERED}[{timing.text(MEMORY)}]))"
    for window, length in series.WINDOWS.items():
        age = f"time() - {recovered} < {timing.seconds(length):g}"
        yield RecordingRule(series.WINDOW_OVERLAPS, age, {"window": window})


def fall_rules(
    target: Target, detector: DropDetector, alerts: AlertSettings, timing: Timing, by: Sequence[str]
) -> Iterator[RecordingRule | AlertingRule]:
    """The rules for one target: by how much each window misses it, the fall that the alert is about, and the alerts."""
    states, grouped = States(target.monitor, target.evaluator, tuple(by), timing), ", ".join(by)
    yield states.rule(series.SCORE_MISS, _miss(target, detector.target, alerts.min_conversations))
    beyond = f"max by ({grouped}) ({states.now(series.SCORE_MISS)})"
    paging = f"({beyond} > {alerts.page_standard_errors:g})"
    yield _fall_shift(states)
    yield states.rule(
        series.SCORE_FALL,
        f"{_unexplained(target, detector.target, alerts, states)}"
        f" or (1 + (({states.recent_falls(detector.target)} and {paging}) or 0 * {paging}))",
    )
    fall = states.now(series.SCORE_FALL)
    yield from _remembered(states, f"({fall} or {states.now(series.SCORE_MISS)} > {alerts.warn_standard_errors:g})")
    yield from by_proof(target, [_dropped(target, alerts, states, f'count_values by ({grouped}) ("fall", {fall})')])
    warning = f"{beyond} > {alerts.warn_standard_errors:g} unless on ({grouped}) {fall}"
    yield from by_proof(target, [_alert(BELOW, target, alerts, states, warning)])


def _remembered(states: States, alerted: str) -> Iterator[RecordingRule]:
    """Rules that remember what a process says of a fall until the alert ends: it may restart, or see the end sooner."""
    part = f"max by (evaluator, monitor, slice) ({states.now(DROP_EXPLAINED.name)} > 0)"
    verdict = f"max by ({', '.join(series.BY)}, verdict) ({states.now(JUDGE_MOVED.name)})"
    for record, by, fresh in (
        (series.DROP_CAUSE, "evaluator, monitor", part), (series.JUDGE_VERDICT, ", ".join(series.BY), verdict)
    ):  # fmt: skip
        # Its own value of the interval before: the next alert, however soon it begins, gets nothing of the last one.
        yield states.rule(record, f"({fresh} or on ({by}) {states.now(record)}) and on ({by}) {alerted}")


def _miss(target: Target, mean: float, n: float) -> str:
    """The number of standard errors by which a window's mean is beyond its target and the doubt; negative on the good
    side.
    """
    chosen = selector(evaluator=target.evaluator, monitor=target.monitor)
    doubt = f"on (evaluator, monitor, window) group_left () {series.WINDOW_DOUBT}{chosen}"
    return (
        f"({_short(target, mean)} - {doubt}) / {series.SCORE_STDERR}{chosen} and {series.SCORE_N_EFF}{chosen} >= {n:g}"
        f" unless {series.WINDOW_OVERLAPS}{chosen}"
    )


def _dropped(target: Target, alerts: AlertSettings, states: States, expr: str) -> AlertingRule:
    """One alert for each fall: `fall` numbers the falls of an incident, so that a further fall notifies again."""
    compared, sign, fell = ("<", "-", "rose") if target.lower_is_better else (">", "+", "fell")
    side = "above" if target.lower_is_better else "below"
    # A window may show the next fall before the detector finds it. Until then the DROP series describe the last fall.
    falls, incident = states.recent(series.DROP_FALLS), states.recent(series.DROP_INCIDENT)
    of_this = f"and {falls} > 0"
    settled = f"({states.recent(series.DROP_SETTLED)} > 0 and {incident} == {falls})"
    # a mean that was low from the start, or since its target was raised, did not fall
    level, before = states.recent(series.DROP_LEVEL), states.recent(series.DROP_BEFORE)
    near = f"({before} {compared} ({level} + {target.mean:g}) / 2)"
    better = f"{compared} ({level} {sign} {LEAST_DIFFERENCE:g}) {of_this} and ({near} or {falls} > 1)"
    fallen, low = f"({before} {better})", f"({before} unless {near})"
    # the day before may count an incident that is over, which the page and `diagnose` leave out
    day = f"{states.timing.seconds(DAY):g}"
    alone = f"{better} unless {states.recent(series.DROP_SINCE)} - {states.recent(series.DROP_RECOVERED)} < {day}"
    times = series.DROP_EARLIEST, series.DROP_LATEST
    known = {
        word: Fact(name, states.by, within=states.memory, is_time=name in times, only=only, phrase=phrase)
        for word, name, only, phrase in (
            ("earliest", series.DROP_EARLIEST, f"and {fallen}", f"The mean {fell} between {{}}"),
            ("latest", series.DROP_LATEST, f"and {fallen}", " and {},"),
            ("fell", series.DROP_SINCE, f"and {fallen}", f": it {fell}"),
            ("before", series.DROP_BEFORE, alone, " from {}"),
            ("sofar", series.DROP_MEAN, f"and {fallen} unless {settled}", " to {} so far"),
            ("level", series.DROP_LEVEL, f"and {fallen} and {settled}", " to {}"),
            ("stop", series.DROP_SINCE, f"and {fallen}", ". "),
            ("short", series.DROP_EARLIEST, f"{of_this} unless {fallen} unless {low}",
             f"The mean has been {side} its target since {{}}. "),
            ("low", series.DROP_EARLIEST, f"{of_this} and {low} unless {fallen}",
             f"The mean is {side} its target, and was before. "),
        )
    }  # fmt: skip
    ends = (
        " The alert ends once the mean is surely nearer to its target than to the level to which it fell, and "
        f"within {LARGEST_MARGIN:g} of its target."
    )
    rule = _alert(DROPPED, target, alerts, states, expr, also="{fell}{before}{sofar}{level}", ends=ends)
    return replace(rule, severity="page", facts={**rule.facts, **known})


def _alert(
    name: str, target: Target, alerts: AlertSettings, states: States, expr: str, *, also: str = "", ends: str = ""
) -> AlertingRule:
    side = "above" if target.lower_is_better else "below"
    begin = "{earliest}{latest}{before}{sofar}{level}{stop}{short}{low}" if also else ""
    by, hour = states.by, {"window": "1h"}
    length, period = ({"window": "24h"}, "day") if target.audited else (hour, "hour")
    unlike = ("<", series.SCORE_HIGHEST, "-"), (">", series.SCORE_LOWEST, "+")
    bounds = [f"{compared} ({other} {sign} {LEAST_DIFFERENCE:g})" for compared, other, sign in unlike]
    return AlertingRule(
        name=name,
        expr=expr,
        board="quality",
        labels=states.where,
        summary=f"{{label:evaluator}} of {{label:monitor}}: {target.measure} is {side} its target of "
        f"{target.mean:g}{also}",
        description=(
            f"{begin}{{causes}}. {{changed}}{{better}}{{later}}{{unchanged}}The mean of {{label:evaluator}} "
            f"({{label:monitor}}) over the last hour{', which may have scores from before the fall,' * bool(also)} is "
            f"{{mean}} (95 %: ± {{error}}), from {{n}} effective conversations; its target is {target.mean:g}. "
            f"{{lowest}}{{highest}}{{clipped}}{{doubt}}{{windows}}.{ends}"
        ),
        facts={
            word: Fact(record, by, hour)
            for word, record in (("mean", series.SCORE_MEAN), ("error", series.SCORE_MARGIN), ("n", series.SCORE_N_EFF))
        }
        | {
            "windows": _windows(alerts.page_standard_errors if also else alerts.warn_standard_errors, by),
            "lowest": Fact(series.SCORE_LOWEST, by, length, only=bounds[0], phrase=_BOUNDS % period, rounds="floor"),
            "highest": Fact(series.SCORE_HIGHEST, by, length, only=bounds[1], phrase="and {}. ", rounds="ceil"),
            "clipped": Fact(series.SCORE_CLIPPED, by, hour, only="> 0.005", phrase=_CLIPPED),
            "doubt": Fact(
                series.WINDOW_DOUBT, ("evaluator", "monitor"), length, only="> 0", phrase=_DOUBT, rounds="ceil"
            ),
            "causes": CAUSES,
            **JUDGE_VERDICTS,
        },
    )


def _windows(least: float, by: tuple[str, ...]) -> Fact:
    return Fact(
        series.SCORE_MEAN, by, only=f"and {series.SCORE_MISS} > {least:g}", listed=Listing(
            label="window", form='printf "%.3g"', order=tuple(series.WINDOWS),
            intro=f"More than {least:g} standard errors on the wrong side of the target: the mean of ",
            otherwise="The drop detector, which adds up evidence over time, found this",
            elsewhere="The dashboard shows the windows",
        ),
    )  # fmt: skip
