"""The life of a drop's alert as recording rules; what is computed is in `collector.statistics.incident`."""

from collections.abc import Iterator

from collector.alerting.rules import series
from collector.alerting.rules.model import RecordingRule, selector
from collector.alerting.rules.states import States
from collector.alerting.rules.targets import INTERVAL
from collector.statistics.drop_detector import NOTHING, DropDetector, fans_coefficient
from collector.statistics.incident import CONTINUES, LARGEST_MARGIN, LEAST_SPAN, ROOM, STAKES


def incident_rules(detector: DropDetector, states: States, recovers: float) -> Iterator[RecordingRule]:
    """Within an incident: the levels that are tested, the states of their bets, and the evidence of a recovery."""
    lower, target = detector.lower_is_better, detector.target
    level = states.last(series.DROP_LEVEL)
    fallen = f"{level} - {target:g}" if lower else f"{target:g} - {level}"
    margin = f"clamp_max(({fallen}) / 2, {LARGEST_MARGIN:g})"
    worse = "+" if lower else "-"
    yield states.rule(
        series.DROP_NULL,
        f"(clamp({level} {worse} {margin}, 0, 1) and {states.in_incident} and {states.scraped})"
        f" or {states.number(target)}",
    )
    yield states.rule(
        series.RECOVERY_NULL, f"({target:g} {worse} {margin}) and {states.in_incident} and {states.scraped}"
    )
    for name, null, at_most, ceiling in (
        (series.FURTHER_LOG_E, series.DROP_NULL, lower, detector.threshold + ROOM),
        (series.RECOVERY_LOG_E, series.RECOVERY_NULL, not lower, recovers + ROOM),
    ):
        for stake in STAKES:
            gain = _gain(states, null, stake, at_most=at_most)
            label = {"stake": f"{stake:g}"}
            advanced = states.advance(name, label, gain, ceiling)
            yield states.rule(name, f"{advanced} and {states.in_incident}", label)
    yield states.rule(
        series.RECOVERY_EVIDENCE,
        states.only_with_scrapes(
            f"{states.evidence(series.RECOVERY_LOG_E)} and {states.in_incident}", otherwise=NOTHING
        ),
    )


def _gain(states: States, null: str, stake: float, *, at_most: bool) -> str:
    """The lower bound of what an interval adds to a bet's state, against a level that is a series."""
    *_, w2, w2y, w2y2 = states.deltas()
    value = states.now(null)
    span = f"clamp_min({value if at_most else f'1 - {value}'}, {LEAST_SPAN:g})"
    squares = f"({value} ^ 2 * {w2} - 2 * {value} * {w2y} + {w2y2})"
    quadratic = fans_coefficient(stake) * stake**2
    return f"{stake:g} * {_short(states, null, at_most=at_most)} / {span} - {quadratic:.10g} * {squares} / {span} ^ 2"


def _short(states: States, null: str, *, at_most: bool) -> str:
    w, wy, *_ = states.deltas()
    value = states.now(null)
    return f"({wy} - {value} * {w})" if at_most else f"({value} * {w} - {wy})"


def following_rules(detector: DropDetector, states: States) -> Iterator[RecordingRule]:
    """Since when the mean has been short of the level that is tested, by how much, and what it was before."""
    short = _short(states, series.DROP_NULL, at_most=detector.lower_is_better)
    yield states.rule(series.DROP_SHORTFALL, f"clamp_min({states.before(series.DROP_SHORTFALL, 0)} + {short}, 0)")
    shortfall = states.now(series.DROP_SHORTFALL)
    yield states.rule(
        series.DROP_WEIGHT, f"({states.before(series.DROP_WEIGHT, 0)} + {states.scraped}) * ({shortfall} > bool 0)"
    )
    now, interval = f"{states.number(0)} + time()", states.timing.seconds(INTERVAL)
    yield states.rule(
        series.DROP_START,
        f"({now} and ({shortfall} == 0)) or ({now} - {interval:g} and {states.starts_over})"
        f" or ({states.last(series.DROP_START)} and {states.scraped}) or {now}",
    )
    mean = f"sum by ({', '.join(states.by)}) ({series.SCORE_MEAN}{selector(**states.where, window='24h')})"
    yield states.rule(
        series.DROP_USUAL,
        f"({mean} and ({shortfall} == 0)) or ({states.last(series.DROP_USUAL)} and {states.scraped})"
        f" or ({mean} and {states.scraped})",
    )


def ending_rules(states: States, detector: DropDetector, recovers: float) -> Iterator[RecordingRule]:
    """When the alert begins: since when, from which level to which; and when it ends."""
    fires = f"({states.now(series.DROP_EVIDENCE)} > {detector.threshold:.4f})"
    ends = f"({states.now(series.RECOVERY_EVIDENCE)} > {recovers:.4f})"

    def fixed(record: str, value: str) -> RecordingRule:
        """The values recorded when the alert fires; they stay the same afterwards."""
        stays = f"{states.last(record)} and {states.in_incident} and {states.scraped}"
        return states.rule(record, f"(({value}) and {fires}) or ({stays})")

    yield fixed(series.DROP_SINCE, states.now(series.DROP_START))
    earlier = f"{states.last(series.DROP_LEVEL)} and {states.in_incident}"
    yield fixed(series.DROP_BEFORE, f"({earlier}) or {states.now(series.DROP_USUAL)}")
    null = states.now(series.DROP_NULL)
    short = f"{states.now(series.DROP_SHORTFALL)} / ({states.now(series.DROP_WEIGHT)} > 0)"
    yield fixed(series.DROP_LEVEL, f"({null} {'+' if detector.lower_is_better else '-'} {short}) or {null}")
    incident, day = states.now(series.DROP_INCIDENT), states.timing.text(CONTINUES * INTERVAL)
    recent = f"sum by ({', '.join(states.by)}) (max_over_time({states.now(series.DROP_FALLS)}[{day}]))"
    earlier = f"({incident} == bool 0) * ({recent} or {states.number(0)})"
    began = f"({states.now(series.DROP_EVIDENCE)} > bool {detector.threshold:.4f})"
    falls = f"({incident} + {began} * (1 + {earlier}))"
    goes_on = f"(1 - ({states.now(series.RECOVERY_EVIDENCE)} > bool {recovers:.4f}))"
    yield states.rule(series.DROP_FALLS, f"({falls} * {goes_on}) and {states.scraped}")
    yield states.rule(
        series.DROP_RECOVERED,
        f"({states.number(0)} + time() and {ends}) or ({states.last(series.DROP_RECOVERED)} and {states.scraped})",
    )
