"""Series of scores for the charts: a ring of bins per range of time, each with its weighted sums. No clock.

To outlive restarts, sums by minute, monitor, evaluator and its version are in a log of their own, the history. A record
is a stretch of a partition of the evaluations log, about a minute of it, with what it adds to each minute. It names the
first offset that it holds and the one after the last, so a reader that continues there counts nothing twice. Records
are small whatever the traffic, and deleted by age: `deploy/docs/page.md` says how many bytes a day. Sums are rounded to
ten digits.

    {"v":1,"partition":0,"first":0,"next":40,"minutes":[[29000000,"support","helpful","0123456789ab",12,…]],
     "thresholds":{"helpful":0.5},"changes":{"helpful":[2,1740000017.5]}}

A minute is in minutes since the epoch; the numbers after the version are `Bin.numbers`, without the zeros at the end.
Earlier releases wrote "all" in place of the version, and read any. Verdicts of a stretch are by its thresholds.
`changes` says how often each threshold had changed before, and when (s): one that is put back has the same value as
once, and another number.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.logs.log import Log, Record, append_until_durable
from collector.logs.whole_log import IncrementalReader
from collector.records.audits import audit_by, lost_audit
from collector.records.json import fields_of
from collector.statistics.audited_sums import SUM_NAMES, AuditedClusters, AuditedSums
from collector.statistics.bounded_sums import BoundedIncrements, BoundedSums, Clusters, Sums, Weight
from collector.statistics.intervals import MeanInterval, bounds_of_all, mean_interval
from evaluators.results import Evaluation


@dataclass(frozen=True, slots=True)
class ChartRange:
    """A stretch of time that charts show: `bins` columns of `width` seconds; the last `recent` of them are the
    present.
    """

    width: float
    bins: int
    recent: int


RANGES: dict[str, ChartRange] = {
    "5m": ChartRange(5.0, 60, 6), "15m": ChartRange(15.0, 60, 8), "1h": ChartRange(60.0, 60, 10),
    "6h": ChartRange(300.0, 72, 12), "24h": ChartRange(1200.0, 72, 9), "7d": ChartRange(7200.0, 84, 12),
}  # fmt: skip
WEEK = "7d"
_LONGEST = max(chart_range.width for chart_range in RANGES.values())
_PAST = "past"
_RINGS = RANGES | {_PAST: ChartRange(300.0, 9 * 288, 0)}
"""The ranges, and what was within nine days, to compare with."""
MINUTE = 60.0
_WIDTHS = {name: chart_range.width for name, chart_range in _RINGS.items()} | {"": MINUTE}


@dataclass(slots=True)
class ScoreSums:
    """The weighted sums of some scores, and how many conversations they come from."""

    scores: int = 0
    conversations: int = 0
    sums: Sums = field(default_factory=Sums)

    def add_score(self, grown: Sums) -> None:
        """Add a score. It is the first of its conversation if the square grew by no product with earlier ones."""
        self.scores += 1
        self.conversations += 0 < grown.w2 <= grown.w * grown.w * (1 + 1e-9)
        self.sums += grown

    def numbers(self) -> tuple[float, ...]:
        """All sums: counts first."""
        return (self.scores, self.conversations, *self.sums.values)

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> "ScoreSums":
        """The sums out of their numbers."""
        return cls(int(numbers[0]), int(numbers[1]), Sums(*numbers[2:]))

    def add(self, other: "ScoreSums") -> None:
        """Add the sums of other scores."""
        self.scores += other.scores
        self.conversations += other.conversations
        self.sums += other.sums

    @property
    def mean(self) -> float | None:
        """The unbiased mean score; None without scores."""
        return self.sums.mean if self.sums.w else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean, conversations as clusters; None of fewer than two conversations."""
        if not self.sums.w or self.conversations < 2:
            return None
        return math.sqrt(self.sums.variance(self.conversations))

    @property
    def interval(self) -> MeanInterval | None:
        """The 95 % interval of the mean; None without scores."""
        return mean_interval(self.sums.mean, self.error or 0.0, self.sums.n_eff) if self.sums.w else None


@dataclass(slots=True)
class Bin:
    """A column of a chart. `within_column` counts each conversation as new, `across_columns` with its earlier scores.

    `passed` and `verdicts` are sums of weights: of what met its threshold, and of all that has one. `clipped` is the
    weight left out of all sums, so that no conversation outweighs the others. `audited` are the sums by which audits
    correct the mean; all are 0 without audits. `week` is what the sums of `across_columns` are larger by over seven
    days, as `collector.statistics.conversations` has it. `unscored` is the weight of cases that should have a score and
    have none, `unaudited` the weight of cases that should have an audit's score, and `unshown` the weight of the parts
    of cases that judges were not shown. `past` is what rejudged scores add to the sums of seven days; `past_clipped`,
    `past_unscored`, `past_unshown` and `past_judged` are the parts that rejudging has of the sums without `past_`;
    `audited` and `unaudited` are of live scores alone. `cost_usd`, `calls` and `tokens` are of what was judged in the
    column's time, whatever time it is about; `past_usd` is the part of the cost that rejudging has, which budgets do
    not pay.
    """

    within_column: ScoreSums
    across_columns: ScoreSums
    passed: float = 0.0
    verdicts: float = 0.0
    clipped: float = 0.0
    skipped: int = 0
    failed: int = 0
    cost_usd: float = 0.0
    calls: int = 0
    tokens: int = 0
    audited: AuditedSums = field(default_factory=AuditedSums)
    week: Sums = field(default_factory=Sums)
    unscored: float = 0.0
    unaudited: float = 0.0
    unshown: float = 0.0
    past: Sums = field(default_factory=Sums)
    past_usd: float = 0.0
    past_clipped: float = 0.0
    past_unscored: float = 0.0
    past_unshown: float = 0.0
    past_judged: int = 0

    @property
    def judged(self) -> int:
        """The number of evaluations that are about the column's time, scored or not."""
        return self.across_columns.scores + self.skipped + self.failed

    @property
    def bounds(self) -> MeanInterval | None:
        """The least and the largest mean of all, with what has no score; None without any of that, or of scores."""
        mean, scored = self.across_columns.mean, self.across_columns.sums.w + self.clipped
        lost = _lost_share(self.unscored, self.unshown, scored)
        return bounds_of_all(mean, lost) if mean is not None and lost else None

    def audited_bounds(self, mean: float) -> MeanInterval | None:
        """The same of the mean by audits, of live traffic alone, with what has no audit's score."""
        scored = self.across_columns.sums.w + self.clipped - self.past.w - self.past_clipped
        lost = _lost_share(self.unscored - self.past_unscored, self.unshown - self.past_unshown, scored)
        lost += (1.0 - lost) * _lost_share(self.unaudited, 0.0, self.audited.values[0])
        return bounds_of_all(mean, lost) if lost else None

    @property
    def live(self) -> Sums | None:
        """The sums without rejudged scores: those of metrics, alerts and people's labels. None without live scores."""
        is_live = self.across_columns.scores and self.rejudged < 1.0 - 1e-9
        return self.across_columns.sums - self.past if is_live else None

    @property
    def rejudged(self) -> float:
        """The share of the weight that rejudged scores have."""
        return self.past.w / self.across_columns.sums.w if self.past.w else 0.0

    def count(self, evaluation: Evaluation, grown: BoundedIncrements | None) -> None:
        """Count an evaluation, all but its score and cost; `grown` is what its score adds, if there is one."""
        self._count_outcome(evaluation, 1)
        unshown = Weight.of(evaluation.sampling).own * evaluation.unshown
        clipped = 0.0 if grown is None else grown.clipped
        self.unshown += unshown
        self.clipped += clipped
        if evaluation.happened_at is not None:
            self.past_unshown += unshown
            self.past_clipped += clipped
        if grown is not None and evaluation.passed is not None:
            self.verdicts += grown.mean.w
            self.passed += grown.mean.w if evaluation.passed else 0.0

    def count_work(self, evaluation: Evaluation) -> None:
        """Count what judges were asked for an evaluation, and what it cost."""
        self.cost_usd += evaluation.cost_usd or 0.0
        self.past_usd += (evaluation.cost_usd or 0.0) if evaluation.happened_at is not None else 0.0
        if evaluation.usage:
            self.calls += evaluation.usage.calls
            self.tokens += evaluation.usage.input_tokens + evaluation.usage.output_tokens

    def discount(self, evaluation: Evaluation) -> None:
        """Count a skip or a failure no longer: another evaluation stands in for it. Its cost stays."""
        self._count_outcome(evaluation, -1)

    def _count_outcome(self, evaluation: Evaluation, number: int) -> None:
        unscored = number * Weight.of(evaluation.sampling).own if evaluation.is_lost else 0.0
        self.skipped += number * (evaluation.outcome == "skipped")
        self.failed += number * (evaluation.outcome == "failed")
        self.unscored += unscored
        if evaluation.happened_at is not None:
            self.past_judged += number
            self.past_unscored += unscored

    def numbers(self) -> list[float]:
        """All that is counted. The order is part of stored records."""
        others = (self.passed, self.verdicts, self.clipped, self.skipped, self.failed, self.cost_usd)
        within, across = self.within_column.numbers(), self.across_columns.numbers()
        return [
            *across, *others, self.calls, self.tokens,
            *(each - more for each, more in zip(within, across, strict=True)), *self.audited.values,
            *self.week.values, self.unscored, self.unaudited, self.unshown, *self.past.values, self.past_usd,
            self.past_clipped, self.past_unscored, self.past_unshown, self.past_judged,
        ]  # fmt: skip

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> "Bin":
        """A column out of its numbers; those that are left out at the end are 0."""
        filled = chain(numbers, repeat(0.0))
        across = list(islice(filled, 7))
        passed, verdicts, clipped, skipped, failed, cost, calls, tokens = islice(filled, 8)
        within = [each + more for each, more in zip(across, islice(filled, 7), strict=True)]
        audited, week = AuditedSums(tuple(islice(filled, len(SUM_NAMES)))), Sums(*islice(filled, 5))
        unscored, unaudited, unshown = islice(filled, 3)
        past = Sums(*islice(filled, 5))
        usd, past_clipped, past_unscored, past_unshown, past_judged = islice(filled, 5)
        return cls(
            ScoreSums.from_numbers(within), ScoreSums.from_numbers(across), passed, verdicts, clipped,
            int(skipped), int(failed), cost, int(calls), int(tokens), audited, week, unscored, unaudited, unshown,
            past, usd, past_clipped, past_unscored, past_unshown, int(past_judged),
        )  # fmt: skip

    def add(self, other: "Bin") -> None:
        """Add another column."""
        self.within_column.add(other.within_column)
        self.across_columns.add(other.across_columns)
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_SUMMED = tuple(field.name for field in fields(Bin) if field.name not in {"within_column", "across_columns"})


def _lost_share(unscored: float, unshown: float, scored: float) -> float:
    """The share of all cases, by weight, that lack a score or that a judge was not shown."""
    return min(1.0, max(0.0, unscored + unshown) / max(unscored + scored, 1e-9))


class ScoreSeries:
    """The scores of one evaluator for one monitor's traffic.

    A column's error counts only its own scores, so that long conversations do not blow it up; that of several columns
    together also counts the products between them, as the exported sums do.
    """

    def __init__(self, *, capacity: int = 20_000) -> None:
        self.audit_version: str | None = None
        """The version of who audits; None if nobody does."""
        self.newest: float | None = None
        """The time that the newest evaluation belongs to, in seconds since the epoch."""
        self.newest_is_rejudged = False
        """Whether it is rejudged, so that its time is its subject's. Of a stored minute: whether nothing is live."""
        self.forgotten = 0.0
        """The newest time of verdicts that were forgotten, as the threshold has changed since."""
        self._alone = Clusters(capacity=capacity * len(RANGES), memory=_LONGEST)
        self._along = BoundedSums(capacity=capacity)
        self._audits = AuditedClusters(capacity=capacity)
        self._rings: dict[str, dict[int, Bin]] = {name: {} for name in _RINGS}
        self.unsaved: dict[int, dict[int, Bin]] = {}
        """The sums that each partition has added to each minute and that are in no history yet."""

    def add(self, evaluation: Evaluation, partition: int = 0, *, is_stored: bool = False) -> None:
        """An evaluation is in the ledger, in a partition of it. `is_stored`: the history has counted it, and a
        conversation that continues after a restart is no new one.
        """
        time = evaluation.time.timestamp()
        if time <= self.forgotten:  # rejudged: its time is from before the threshold changed
            evaluation = replace(evaluation, passed=None)
        self._note_newest(time, rejudged=evaluation.happened_at is not None)
        conversation, score = evaluation.subject.conversation_id, evaluation.score
        weight = Weight.of(evaluation.sampling)
        along = None if score is None else self._along.add(None, conversation, weight=weight, score=score, time=time)
        audited, unaudited = self._audit(evaluation, along, time), self._unaudited(evaluation)
        for name, width in _WIDTHS.items():
            index = int(time // width)
            column = Bin(ScoreSums(), ScoreSums()) if is_stored else self._bin(name, index, partition)
            if column is None:
                continue
            column.count(evaluation, along)
            column.unaudited += unaudited
            if audited is not None:
                column.audited += audited
            if along is not None and score is not None:
                alone = self._alone.add((name, index, conversation), weight=along.mean.w, score=score, time=time)
                column.within_column.add_score(alone)
                column.across_columns.add_score(along.mean)
                column.week += along.week - along.mean
                column.past += along.week if evaluation.happened_at is not None else Sums()

    def add_work(self, evaluation: Evaluation, partition: int = 0) -> None:
        """Judges were asked for an evaluation, whatever time it is about: the money was spent as it was made."""
        for name, width in _WIDTHS.items():
            column = self._bin(name, int(evaluation.ended_at.timestamp() // width), partition)
            if column is not None:
                column.count_work(evaluation)

    def restore(self, minute: int, what: Bin, *, forgotten: float = 0.0, verdicts: bool = True) -> None:
        """Add what was stored of a minute, with its `verdicts` or without; those before `forgotten` (s) do not count.

        Columns wider than a minute count its conversations with their earlier scores: which of them go on in the next
        minute is not stored. If columns are narrower than a minute, the minute's first column holds all of it.
        """
        time = minute * MINUTE
        if what.judged:
            # earlier releases did not count rejudged evaluations
            is_past = what.judged <= what.past_judged or (not what.past_judged and what.rejudged > 1.0 - 1e-9)
            self._note_newest(time, rejudged=is_past)
        self.forgotten = max(self.forgotten, forgotten)
        if not verdicts:
            what = replace(what, passed=0.0, verdicts=0.0)
        for name, range_ in _RINGS.items():
            column = self._bin(name, int(time // range_.width))
            if column is not None:
                column.add(what if range_.width <= MINUTE else replace(what, within_column=what.across_columns))

    def _note_newest(self, time: float, *, rejudged: bool) -> None:
        if time >= (self.newest or 0.0):
            self.newest, self.newest_is_rejudged = time, rejudged

    def forget_verdicts(self, time: float) -> None:
        """The threshold has changed, at `time` (s) or after the newest score: the share that passes begins again, as
        sums of verdicts mix no two thresholds.
        """
        self.forgotten = max(self.newest or 0.0, time)
        for columns in (*self._rings.values(), *self.unsaved.values()):
            for column in columns.values():
                column.passed = column.verdicts = 0.0

    def _audit(self, evaluation: Evaluation, along: BoundedIncrements | None, time: float) -> AuditedSums | None:
        """The amounts that a live score adds to the sums of audits, if there are audits."""
        if self.audit_version is None or along is None or evaluation.score is None or evaluation.happened_at:
            return None
        return self._audits.add(
            evaluation.subject.conversation_id, weight=along.mean.w, score=evaluation.score,
            audit=audit_by(evaluation, self.audit_version), time=time,
        )  # fmt: skip

    def _unaudited(self, evaluation: Evaluation) -> float:
        """The weight of an audit of live traffic that brought no score."""
        is_audited = self.audit_version is not None and evaluation.happened_at is None
        probability = lost_audit(evaluation, self.audit_version or "") if is_audited else 0.0
        return Weight.of(evaluation.sampling).own / probability if probability else 0.0

    def discount(self, evaluation: Evaluation, partition: int = 0) -> None:
        """Another evaluation, of a partition, stands in for this one, which has no score."""
        time = evaluation.time.timestamp()
        columns = [self._bin("", int(time // MINUTE), partition)]
        for name, range_ in _RINGS.items():
            # its own column, or the first of its minute: there a restart has put all of the minute
            both = [self._rings[name].get(int(each // range_.width)) for each in (time, time // MINUTE * MINUTE)]
            columns.append(next((each for each in both if each and getattr(each, evaluation.outcome)), both[0]))
        for column in columns:
            if column is not None:
                column.discount(evaluation)

    def columns(self, name: str, now: float) -> list[tuple[float, Bin | None]]:
        """The start (s) of each column of a range that ends at `now`, oldest first, and what is in it."""
        range_, ring = RANGES[name], self._rings[name]
        last = int(now // range_.width)
        return [(index * range_.width, ring.get(index)) for index in range(last - range_.bins + 1, last + 1)]

    def whole(self, name: str, now: float) -> Bin:
        """A range that ends at `now` as one."""
        whole = total(self.columns(name, now))
        if name == WEEK:
            whole.across_columns.sums += whole.week
        return whole

    def earlier(self, name: str, now: float, ago: float) -> Bin | None:
        """A range that ended `ago` seconds before `now`, at most eight days; None if it is too short or too long."""
        length = RANGES[name].width * RANGES[name].bins
        width, first = _RINGS[_PAST].width, now - ago - length
        if length < 2 * width or length > 86400.0:
            return None
        ring = self._rings[_PAST]
        indices = range(round(first / width), round((now - ago) / width))
        return total([(index * width, ring.get(index)) for index in indices])

    def _bin(self, name: str, index: int, partition: int = 0) -> Bin | None:
        """The column of an index, "" for the unsaved minutes of a partition; None if it is too old for the ring."""
        if not name:
            return self.unsaved.setdefault(partition, {}).setdefault(index, Bin(ScoreSums(), ScoreSums()))
        ring = self._rings[name]
        if index not in ring:
            if index <= max(ring, default=index) - _RINGS[name].bins:
                return None
            ring[index] = Bin(ScoreSums(), ScoreSums())
            for old in [each for each in ring if each <= index - _RINGS[name].bins]:
                del ring[old]
        return ring[index]


def total(columns: list[tuple[float, Bin | None]]) -> Bin:
    """Several columns as one.

    Only as many conversations that began before the first column are known as one column has: that many count.
    """
    there = [column for _, column in columns if column is not None]
    whole = Bin(ScoreSums(), ScoreSums())
    for column in there:
        whole.add(column)
    most = max((column.within_column.conversations for column in there), default=0)
    whole.across_columns.conversations = max(whole.across_columns.conversations, most)
    return whole


RETENTION = 9 * 86400.0
"""Seconds for which records are kept: a week, and the day before it."""
_VERSION = 1

SeriesKey = tuple[str, str, str]
"""Monitor, evaluator and the evaluator's version, "" where it is not known."""
_UNKNOWN = "all"


@dataclass(frozen=True, slots=True)
class HistoryStretch:
    """The sums that a partition's evaluations from offset `first` up to `next` add to each minute of each series."""

    partition: int
    first: int
    next: int
    minutes: tuple[tuple[int, SeriesKey, Bin], ...]
    thresholds: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    """By evaluator; earlier releases wrote none, and what they counted as passed is left out."""
    changes: Mapping[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """By evaluator, how often its threshold had changed before, and when; earlier releases wrote none."""


def stretch_to_json(stretch: HistoryStretch) -> bytes:
    """A stretch as a record's value."""
    minutes = [[minute, *key[:2], key[2] or _UNKNOWN, *_short(bin_.numbers())] for minute, key, bin_ in stretch.minutes]
    own = fields_of(stretch, "partition", "first", "next", "thresholds", "changes")
    return orjson.dumps({"v": _VERSION, **own, "minutes": minutes})


def stretch_from_json(value: bytes) -> HistoryStretch:
    """A stretch out of a record's value.

    Raises:
        BadInput: it is none, or of a later version.
    """
    try:
        read: dict[str, Any] = orjson.loads(value)
        if read["v"] != _VERSION:
            raise BadInput(f"a history of version {read['v']} cannot be read by this version")
        minutes = tuple(_minute(cast("list[Any]", each)) for each in read["minutes"])
        offsets = int(read["partition"]), int(read["first"]), int(read["next"])
        changes = {str(name): (int(count), float(time)) for name, (count, time) in read.get("changes", {}).items()}
        return HistoryStretch(*offsets, minutes, dict(read.get("thresholds", {})), changes)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadInput("not a history of scores") from error


def _minute(fields: list[Any]) -> tuple[int, SeriesKey, Bin]:
    minute, monitor, evaluator, version, *numbers = fields
    key = str(monitor), str(evaluator), "" if version == _UNKNOWN else str(version)
    return int(minute), key, Bin.from_numbers([float(number) for number in numbers])


def _short(numbers: list[float]) -> list[float]:
    while numbers and not numbers[-1]:
        numbers.pop()
    return [int(each) if each == int(each) else each for each in (float(f"{number:.10g}") for number in numbers)]


def _without_overlaps(stretches: Sequence[HistoryStretch]) -> list[HistoryStretch]:
    """The stretches that follow one another, found back from the last offset: of two processes that read the same
    records, the one that had the partition longer continues where its own stretch ended.
    """
    begins: dict[int, int] = {}
    chain: list[HistoryStretch] = []
    for stretch in sorted(stretches, key=attrgetter("next"), reverse=True):
        if stretch.next <= begins.get(stretch.partition, stretch.next):
            begins[stretch.partition] = stretch.first
            chain.append(stretch)
    return chain[::-1]


class SumsHistory:
    """The log of stretches: read from where it was read last, and appended to."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reader = IncrementalReader(log)
        self._read: list[HistoryStretch] = []

    async def read_on(self, oldest: float) -> list[HistoryStretch]:
        """The stretches that were appended since the last call, without overlaps and those before `oldest` (s).

        Raises:
            LogUnavailable: the log cannot be read now.
        """
        async for batch in self._reader.batches():
            for record in batch:
                if record.timestamp >= oldest and not record.headers:
                    with suppress(BadInput):  # of a later version: its minutes are read from the evaluations
                        self._read.append(stretch_from_json(record.value))
        stretches, self._read = self._read, []  # a reading that failed halfway loses nothing
        return _without_overlaps(stretches)

    async def append(self, stretch: HistoryStretch) -> None:
        """Append a stretch; waits while the log cannot be written. Records of one partition stay in order."""
        await append_until_durable(self._log, [Record(b"%d" % stretch.partition, stretch_to_json(stretch))])
