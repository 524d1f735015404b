"""The drop detector as recording rules: each refers to its own previous value, so that Prometheus runs the recursion.

The state covers all replicas and is in Prometheus. Increments are exact differences of the counters. Why not
`increase()`: it extrapolates to the ends of the window, and the bound on false alarms needs the exact sums. A replica
that restarted is left out for two intervals. The meaning of a state, the restart of evidence and the end of an
alert are as in `collector.statistics.incident`, and so are the states within an incident; the alert is `falls.py`.

A state is a series that refers to its own last value. It is written in every interval in which some process is
scraped. Its last value is looked for within an hour, so that it outlives a restart of the only process, and one of
Prometheus. Why `last_over_time` and not the series itself:
an interval without a value ends a series for Prometheus (it is stale), and with it the state would be gone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.alerting.rules import series
from collector.alerting.rules.model import AlertingRule, RecordingRule, RuleGroup, Timing
from collector.alerting.rules.promql import any_of, selector
from collector.alerting.rules.targets import INTERVAL, Target
from collector.config.alerts import DAY, AlertSettings
from collector.statistics import incident
from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.incident import DropDetector, fans_coefficient, recovery_threshold
from collector.telemetry.series import EVIDENCE_SUMS

MEMORY = 3600.0
"""The last value of a state counts for this many seconds."""


@dataclass(frozen=True, slots=True)
class States:
    """PromQL for the states of one target's detector. Every vector here has the labels `by` alone."""

    monitor: str
    evaluator: str
    by: tuple[str, ...]
    timing: Timing

    @property
    def where(self) -> dict[str, str]:
        """The labels of the target."""
        return {"evaluator": self.evaluator, "monitor": self.monitor}

    @property
    def memory(self) -> str:
        """How far back a state is looked for."""
        return self.timing.text(MEMORY)

    def rule(self, record: str, expr: str, labels: Mapping[str, str] | None = None) -> RecordingRule:
        """A rule that writes a series of the target."""
        return RecordingRule(record, expr, self.where | dict(labels or {}))

    def now(self, name: str) -> str:
        """The value that an earlier rule of the same interval has written."""
        return f"{name}{selector(**self.where)}"

    def recent(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """The newest value within the memory, with all its labels."""
        return f"last_over_time({name}{selector(**self.where, **(labels or {}))}[{self.memory}])"

    def last(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """The newest value within the memory: the value of the interval before, until this interval's is written."""
        return f"sum by ({', '.join(self.by)}) ({self.recent(name, labels)})"

    def deltas(self) -> tuple[str, str, str, str, str]:
        """The growth of the five sums: w, wy, w2, w2y and w2y2."""
        w, wy, w2, w2y, w2y2 = (self.now(series.EVIDENCE_DELTAS[key]) for key in series.SUMS)
        return w, wy, w2, w2y, w2y2

    @property
    def scraped(self) -> str:
        """Something for every series that has counters in this interval and the one before."""
        return self.now(series.EVIDENCE_DELTAS["w"])

    @property
    def in_incident(self) -> str:
        """Whether the alert fires since an earlier interval."""
        return f"({self.now(series.DROP_INCIDENT)} > 0)"

    @property
    def starts_over(self) -> str:
        """Whether the evidence starts over in this interval."""
        return f"({self.now(series.DROP_STARTS_OVER)} > 0)"

    def changed(self, target: float) -> str:
        """A match of every series while the target is not that of the interval before."""
        return f"on (evaluator, monitor) ({self.recent(series.DROP_TARGET)} != {target:g})"

    def recent_falls(self, target: float) -> str:
        """The most falls of an incident of the last day. Another target's do not count: it may have been a test."""
        falls = (
            f"{self.now(series.DROP_FALLS)} and on (evaluator, monitor) {self.now(series.DROP_TARGET)} == {target:g}"
        )
        day, interval = (self.timing.text(count * INTERVAL) for count in (incident.CONTINUES, 1))
        return f"sum by ({', '.join(self.by)}) (max_over_time(({falls})[{day}:{interval}]))"

    def only_with_scrapes(self, expr: str, otherwise: float) -> str:
        """The expression, or a number where it has no value yet; nothing for series without counters."""
        return f"(({expr}) and {self.scraped}) or {self.number(otherwise)}"

    def number(self, value: float) -> str:
        """A number for every series that has counters."""
        return f"{self.scraped} * 0 + {value:g}"  # "nan" is PromQL, too

    def before(self, name: str, start: float, labels: Mapping[str, str] | None = None) -> str:
        """The last value of a state, or its start where it starts over."""
        return f"({self.last(name, labels)} unless {self.starts_over} or {self.number(start)})"

    def advance(self, name: str, labels: Mapping[str, str], gain: str, ceiling: float) -> str:
        """The logarithm of a bet's state after this interval, with those before it that had no scores."""
        before, intervals = self.before(name, incident.NOTHING, labels), self.now(series.DROP_INTERVALS)
        return f"clamp(ln(exp({before}) + {intervals}) + {gain}, {incident.NOTHING:g}, {ceiling:.4f})"

    def evidence(self, name: str, *bets: str) -> str:
        """The logarithm of the mean of the states of all bets, or of those that a matcher selects."""
        return f"ln(avg by ({', '.join(self.by)}) (exp({name}{selector(*bets, **self.where)})))"


def incident_rules(detector: DropDetector, states: States, recovers: float) -> Iterator[RecordingRule]:
    """Within an incident: the levels that are tested, the states of their bets, and the evidence of a recovery."""
    lower, target = detector.lower_is_better, detector.target
    level, margin = states.last(series.DROP_LEVEL), _margin(detector, states)
    worse = "+" if lower else "-"
    unsettled = f"(1 - {states.before(series.DROP_SETTLED, 0)})"  # a mean cannot be beyond 0 and 1
    yield states.rule(
        series.DROP_NULL,
        f"(clamp({level} {worse} {margin} {worse} {unsettled}, 0, 1) and {states.in_incident} and {states.scraped})"
        f" or {states.number(target)}",
    )
    yield states.rule(
        series.RECOVERY_NULL, f"({target:g} {worse} {margin}) and {states.in_incident} and {states.scraped}"
    )
    for name, null, at_most, ceiling in (
        (series.FURTHER_LOG_E, series.DROP_NULL, lower, detector.threshold + incident.ROOM),
        (series.RECOVERY_LOG_E, series.RECOVERY_NULL, not lower, recovers + incident.ROOM),
    ):
        value = states.now(null)
        span = f"clamp_min({value if at_most else f'1 - {value}'}, {incident.LEAST_SPAN:g})"
        for stake in incident.STAKES:
            gain = _gain(states, value, f"({stake:g} / {span})", fans_coefficient(stake), at_most=at_most)
            label = {"stake": f"{stake:g}"}
            yield states.rule(name, f"{states.advance(name, label, gain, ceiling)} and {states.in_incident}", label)
    yield states.rule(
        series.RECOVERY_EVIDENCE,
        states.only_with_scrapes(
            f"{states.evidence(series.RECOVERY_LOG_E)} and {states.in_incident}", otherwise=incident.NOTHING
        ),
    )


def _margin(detector: DropDetector, states: States) -> str:
    level, target = states.last(series.DROP_LEVEL), detector.target
    fallen = f"{level} - {target:g}" if detector.lower_is_better else f"{target:g} - {level}"
    return f"clamp_max(({fallen}) / 2, {incident.LARGEST_MARGIN:g})"


def settling_rules(detector: DropDetector, states: States, recovers: float) -> Iterator[RecordingRule]:
    """The growth of the sums after the alert's begin, and whether it settles the level of the fall."""
    settled = states.before(series.DROP_SETTLED, 0)
    grown = dict(zip(series.SUMS, states.deltas(), strict=True)) | {"intervals": f"({states.scraped} > bool 0)"}
    for key, more in grown.items():
        before = states.before(series.DROP_AFTER, 0, {"sum": key})
        yield states.rule(
            series.DROP_AFTER, f"({before} + {more} * (1 - {settled})) and {states.in_incident}", {"sum": key}
        )
    w, wy, w2, w2y, w2y2, intervals = (_after(states, key) for key in grown)
    squares = f"(clamp_min({w2y2} - 2 * {wy} / {w} * {w2y} + ({wy} / {w}) ^ 2 * {w2}, 0) + {VARIANCE_FLOOR:g} * {w2})"
    sure = f"(4 * {squares} <= bool ({_margin(detector, states)} * {w}) ^ 2)"
    enough = f"({w} >= bool {incident.LARGEST_SETTLING_WEIGHT:g})"
    above = _short(states, states.now(series.RECOVERY_NULL), at_most=not detector.lower_is_better)
    down = f"({states.now(series.RECOVERY_EVIDENCE)} <= bool {recovers / 2:.4f}) * ({above} < bool 0)"
    yield states.rule(
        series.DROP_SETTLED,
        f"clamp_max({settled} + ({sure} + {enough}) * ({intervals} >= bool {incident.SETTLING_INTERVALS}) * {down}, 1)"
        f" and {states.in_incident}",
    )


def _after(states: States, key: str) -> str:
    """A sum of what came after the alert's begin, without its label."""
    return f"sum by ({', '.join(states.by)}) ({series.DROP_AFTER}{selector(**states.where, sum=key)})"


def _gain(states: States, value: str, bet: str, coefficient: float, *, at_most: bool) -> str:
    """The lower bound of what an interval adds to a bet's state against a level, with Fan's coefficient."""
    *_, w2, w2y, w2y2 = states.deltas()
    squares = f"({value} ^ 2 * {w2} - 2 * {value} * {w2y} + {w2y2})"
    return f"{bet} * {_short(states, value, at_most=at_most)} - {coefficient:.10g} * {bet} ^ 2 * {squares}"


def _short(states: States, value: str, *, at_most: bool) -> str:
    w, wy, *_ = states.deltas()
    return f"({wy} - {value} * {w})" if at_most else f"({value} * {w} - {wy})"


def following_rules(detector: DropDetector, states: States) -> Iterator[RecordingRule]:
    """Since when the mean has been below the tested level, by how much, and the mean before."""
    short = _short(states, states.now(series.DROP_NULL), at_most=detector.lower_is_better)
    yield states.rule(series.DROP_SHORTFALL, f"clamp_min({states.before(series.DROP_SHORTFALL, 0)} + {short}, 0)")
    shortfall = states.now(series.DROP_SHORTFALL)
    yield states.rule(
        series.DROP_WEIGHT, f"({states.before(series.DROP_WEIGHT, 0)} + {states.scraped}) * ({shortfall} > bool 0)"
    )
    now, interval = f"{states.number(0)} + time()", states.timing.seconds(INTERVAL)
    yield states.rule(
        series.DROP_START,
        f"({now} and ({shortfall} == 0) and ({states.scraped} > 0)) or ({now} - {interval:g} and {states.starts_over})"
        f" or ({states.last(series.DROP_START)} and {states.scraped}) or {now}",
    )
    mean = f"sum by ({', '.join(states.by)}) ({series.SCORE_MEAN}{selector(**states.where, window='24h')})"
    yield states.rule(
        series.DROP_USUAL,
        f"({mean} and ({shortfall} == 0)) or ({states.number(math.nan)} and {states.changed(detector.target)}) or "
        f"({states.last(series.DROP_USUAL)} and {states.scraped}) or ({mean} and {states.scraped})",
    )


class _Begin:
    """PromQL for the begin of a fall among the last intervals, as `collector.statistics.incident` finds it."""

    def __init__(self, states: States) -> None:
        short, weight, self.start = map(states.now, (series.DROP_SHORTFALL, series.DROP_WEIGHT, series.DROP_START))
        self.interval, past = states.timing.seconds(INTERVAL), states.timing.text(incident.MOST_BEGINS * INTERVAL)
        self._now, self._memory = f"({states.number(0)} + time())", states.timing.seconds(MEMORY)
        self._range, self.time = f"[{past}:{states.timing.text(INTERVAL)}]", f"timestamp({short})"
        grown, weighed = f"clamp_min({short} @ end() - {short}, 0)", f"({weight} @ end() - {weight})"
        self.mean, self.mean_of_all = f"({grown} / {weighed})", f"({short} / ({weight} > 0))"
        self._likelihood, self._whole = f"{grown} ^ 2 / {weighed}", f"({short} ^ 2 / {weight})"
        self._best = states.now(series.DROP_LIKELIHOOD)
        self.doubt = " / ".join(f"{states.now(series.EVIDENCE_DELTAS[key])} @ end()" for key in ("w2", "w"))

    def likelihood(self) -> str:
        """The largest likelihood since the shortfall was 0."""
        likeliest = f"max_over_time(({self._likelihood} and {self.time} > {self.start} @ end()){self._range})"
        return f"({likeliest} > {self._whole}) or {self._whole}"

    def of(self, choose: str, value: str, at_start: str, doubt: str = "0") -> str:
        """The largest or least value of the likely begins; `at_start` is that of the last time the shortfall was 0."""
        limit = f"({self._best} @ end() - {incident.BEGIN_DOUBT:g} * {doubt})"
        likely = f"{value} and {self.time} > {self.start} @ end() and {self._likelihood} >= {limit}"
        first, later = f"({at_start} and {self._whole} >= {limit})", f"{choose}_over_time(({likely}){self._range})"
        return f"({f'{first} or {later}' if choose == 'min' else f'{later} or {first}'} or {at_start})"

    def sample(self, choose: str, compare: str, begin: str, sign: str) -> str:
        """The time of the sample before or after a begin; an interval from it, if there is none in the memory.

        A restart leaves intervals without samples. A fall among them is seen only in the next sample.
        """
        times = f"{choose}_over_time(({self.time} {compare} {begin} @ end()){self._range})"
        distance = f"abs(({times} or ({self._now} {compare} {begin})) - {begin})"
        return f"{begin} {sign} ({distance} <= {self._memory:g} or {self._now} * 0 + {self.interval:g})"


def ending_rules(states: States, detector: DropDetector, recovers: float) -> Iterator[RecordingRule]:
    """When the alert begins: since when, from which level to which; and when it ends."""
    fires = f"({states.now(series.DROP_EVIDENCE)} > {detector.threshold:.4f})"
    ends = f"({states.now(series.RECOVERY_EVIDENCE)} > {recovers:.4f})"

    def fixed(record: str, value: str, stays: str = "") -> RecordingRule:
        """The values recorded when the alert fires; they stay the same afterwards."""
        stays = f"{stays or states.last(record)} and {states.in_incident} and {states.scraped}"
        return states.rule(record, f"(({value}) and {fires}) or ({stays})")

    begin, worse = _Begin(states), "+" if detector.lower_is_better else "-"
    yield states.rule(series.DROP_LIKELIHOOD, begin.likelihood())
    yield fixed(series.DROP_SINCE, begin.of("max", begin.time, begin.start))
    for record, choose in ((series.DROP_FIRST_BEGIN, "min"), (series.DROP_LAST_BEGIN, "max")):
        yield states.rule(record, f"{begin.of(choose, begin.time, begin.start, begin.doubt)} and {fires}")
    yield fixed(series.DROP_EARLIEST, begin.sample("max", "<", states.now(series.DROP_FIRST_BEGIN), "-"))
    yield fixed(series.DROP_LATEST, begin.sample("min", ">", states.now(series.DROP_LAST_BEGIN), "+"))
    earlier = f"{states.last(series.DROP_LEVEL)} and {states.in_incident}"
    yield fixed(series.DROP_BEFORE, f"({earlier}) or {states.now(series.DROP_USUAL)}")
    null = states.now(series.DROP_NULL)
    short = f"{states.now(series.DROP_SHORTFALL)} / ({states.now(series.DROP_WEIGHT)} > 0)"
    yield fixed(series.DROP_MEAN, f"({null} {worse} {begin.of('max', begin.mean, begin.mean_of_all)}) or {null}")
    level, mean = states.last(series.DROP_LEVEL), f"{_after(states, 'wy')} / {_after(states, 'w')}"
    is_worse = f"{level} {'<' if detector.lower_is_better else '>'} {mean}"
    settled = f"(({mean} and {is_worse} and {states.now(series.DROP_SETTLED)} > 0) or {level})"
    yield fixed(series.DROP_LEVEL, f"({null} {worse} {short}) or {null}", settled)
    number = states.now(series.DROP_INCIDENT)
    earlier = f"({number} == bool 0) * ({states.recent_falls(detector.target)} or {states.number(0)})"
    began = f"({states.now(series.DROP_EVIDENCE)} > bool {detector.threshold:.4f})"
    falls = f"({number} + {began} * (1 + {earlier}))"
    goes_on = f"(1 - ({states.now(series.RECOVERY_EVIDENCE)} > bool {recovers:.4f}))"
    yield states.rule(series.DROP_FALLS, f"({falls} * {goes_on}) and {states.scraped}")
    yield states.rule(
        series.DROP_RECOVERED,
        f"({states.number(0)} + time() and {ends}) or ({states.last(series.DROP_RECOVERED)} and {states.scraped})",
    )


COUNTERS = {key: counter.name for key, counter in zip(series.SUMS, EVIDENCE_SUMS, strict=True)}

SETTLED = 10.0
"""Seconds after which a scrape that began is in, or has failed: Prometheus' default `scrape_timeout`.

A scrape that came between two rules would count in the sums that are read after it but never in the others, as the next
interval begins with it: scores without their weights.
"""


def delta_group(timing: Timing, by: Sequence[str], rules: Sequence[RecordingRule | AlertingRule]) -> RuleGroup:
    """The sums' growth and the detectors that use it: one group, so that they are evaluated one after the other."""
    return RuleGroup("evalstream-drops", timing.seconds(INTERVAL), (*_deltas(timing, by), *rules))


def _deltas(timing: Timing, by: Sequence[str]) -> Iterator[RecordingRule]:
    around = timing.text(2 * INTERVAL)
    until, since = timing.text(SETTLED), timing.text(SETTLED + INTERVAL)
    restarted = " + ".join(f"resets({COUNTERS[key]}[{around}] offset {until})" for key in ("w", "wy")) + " > 0"
    for key, counter in COUNTERS.items():
        yield RecordingRule(
            series.EVIDENCE_DELTAS[key],
            f"sum by ({', '.join(by)}) (({counter} offset {until} - {counter} offset {since}) unless ({restarted}))",
        )


def detector_rules(
    target: Target, detector: DropDetector, alerts: AlertSettings, timing: Timing, by: Sequence[str]
) -> Iterator[RecordingRule]:
    """The states of all bets, their evidence, and the state of the alert."""
    states = States(target.monitor, target.evaluator, tuple(by), timing)
    recovers = recovery_threshold(alerts.false_recovery_days * DAY, INTERVAL)
    # Rules run in their order: the last value of a state is that of the interval before until its own rule has run.
    changed = states.changed(detector.target)
    decided = states.only_with_scrapes(
        f"({states.last(series.DROP_EVIDENCE)} > bool {detector.threshold:.4f})"
        f" + ({states.last(series.RECOVERY_EVIDENCE)} > bool {recovers:.4f})",
        otherwise=0.0,
    )
    yield states.rule(series.DROP_STARTS_OVER, f"({states.number(1.0)} and {changed}) or {decided}")
    yield states.rule(
        series.DROP_INCIDENT,
        states.only_with_scrapes(f"{states.last(series.DROP_FALLS)} unless {changed}", otherwise=0.0),
    )
    idle = f"({states.last(series.DROP_IDLE)} or {states.number(0.0)})"
    scored = f"({states.scraped} > bool 0)"
    most = incident.MOST_INTERVALS - 1
    yield states.rule(series.DROP_INTERVALS, f"(1 + {idle}) * {scored}")
    yield states.rule(series.DROP_IDLE, f"clamp_max((1 + {idle}) * (1 - {scored}), {most}) and {states.scraped}")
    for bet in detector.bets:
        label = {"lambda": f"{bet:g}"}
        value, lower = f"{detector.target:.10g}", detector.lower_is_better
        gain = _gain(states, value, f"{bet:g}", detector.coefficient(bet), at_most=lower)
        advanced = states.advance(series.DROP_LOG_E, label, gain, detector.ceiling)
        yield states.rule(series.DROP_LOG_E, f"{advanced} unless {states.in_incident}", label)
    yield from incident_rules(detector, states, recovers)
    # for one evaluation more, Prometheus has the series of rules that are gone: bets of another target
    own = f"lambda=~{any_of(f'{bet:g}' for bet in detector.bets)}"
    yield states.rule(
        series.DROP_EVIDENCE,
        f"({states.evidence(series.DROP_LOG_E, own)} and {states.scraped} unless {states.in_incident})"
        f" or ({states.evidence(series.FURTHER_LOG_E)} and {states.scraped} and {states.in_incident})",
    )
    yield RecordingRule(series.DROP_THRESHOLD, f"vector({detector.threshold:.4f})", states.where)
    yield from following_rules(detector, states)
    yield from settling_rules(detector, states, recovers)
    yield from ending_rules(states, detector, recovers)
    yield RecordingRule(series.DROP_TARGET, f"vector({detector.target:g})", states.where)
