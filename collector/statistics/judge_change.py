"""System or judge: the scores of the same cases before and after say whether a judge has changed.

Every case is compared with itself, so only the judge can have moved its score. References by people are not used, since
a judge may always have differed from them. A judge has changed if the difference is beyond `_SURE` standard errors
(nearly Student's t: Cornish and Fisher 1938). Fewer than 2 % of the falls without a change of the judge are blamed on
it, although each is tested up to ten times. `tests/unit/statistics/test_judge_change.py` measures that.

Between runs, single cases go into two cumulative sums, one for each sign (Page 1954), of their standardized deviations,
with reference value `_SLACK` and limit `_LIMIT`. By chance a sum trips once in about 170 cases, which costs a run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import NamedTuple

from collector.statistics.intervals import Z, plus_minus
from collector.wording import at_most

MIN_PAIRS = 10
"""The fewest paired scores for a shift."""
STANDARD_ERRORS = 4.0
"""The standard errors beyond the tolerance that make a shift significant."""
MIN_DEVIATION = 0.01
"""The least standard deviation of differences, because a few equal differences prove nothing."""
_SURE = 3.3
_BASELINE = 5
"""A run after a fall is compared with so many runs before it, the newest ones."""
_CERTAINLY_BEFORE = 86_400.0
"""Runs that are older than a fall by so many seconds are preferred: the begin of a fall is an estimate, and the judge
may have changed a little earlier."""
SOON = 1800.0
"""The least seconds between two runs while scores may be falling."""
_SLACK, _LIMIT, _LARGEST = 0.5, 4.0, 3.0
"""The reference value and the limit of the cumulative sums, and the most that one case counts; in standard deviations
of a case."""
_GUESS, _GUESSED = 0.1, 10
"""The standard deviation of a case between runs that is assumed at first, and the number of cases that this guess
counts as."""


@dataclass(frozen=True, slots=True)
class ScoreShift:
    """The mean of the paired differences, new minus reference, its standard error, and their number."""

    mean: float
    stderr: float
    count: int

    def explains(self, *, lower_is_better: bool) -> float:
        """The amount by which the shift may have worsened scores: the measured shift plus two standard errors."""
        worse = self.mean if lower_is_better else -self.mean
        return max(0.0, worse + 2.0 * self.stderr) if worse > 0.0 else 0.0

    @property
    def by_chance(self) -> float:
        """The most that chance surely moves the mean."""
        return _SURE * (1.0 + (_SURE**2 + 1.0) / (4.0 * (self.count - 1))) * self.stderr

    @property
    def most(self) -> float:
        """The most that the mean may have moved, if it is not sure that it moved."""
        return abs(self.mean) + self.by_chance

    @property
    def is_sure(self) -> bool:
        """Whether chance alone does not move the mean so far."""
        return abs(self.mean) > self.by_chance

    def exceeds(self, tolerance: float) -> bool:
        """Whether the shift is beyond the tolerance, significantly."""
        return abs(self.mean) > tolerance + STANDARD_ERRORS * self.stderr


def score_shift(scores: Mapping[str, float | None], references: Mapping[str, float]) -> ScoreShift | None:
    """The shift over the cases with both scores; None if there are fewer than `MIN_PAIRS`."""
    shifts = [score - references[case] for case, score in scores.items() if score is not None and case in references]
    count = len(shifts)
    if count < MIN_PAIRS:
        return None
    mean = sum(shifts) / count
    variance = sum((shift - mean) ** 2 for shift in shifts) / (count - 1)
    return ScoreShift(mean, max(MIN_DEVIATION, math.sqrt(variance)) / math.sqrt(count), count)


class GoldenRun(NamedTuple):
    """When a run was made (s since the epoch), and the score of each case that has one."""

    at: float
    scores: Mapping[str, float]


class Suspicion(NamedTuple):
    """When scores seem to have begun to fall, and when an alert began, if one did (s since the epoch)."""

    since: float
    alert_since: float | None = None

    def asks(self, runs: Sequence[GoldenRun], now: float) -> bool:
        """Whether a run is due: there is none since the fall, the newest is too old, or none since the alert began."""
        newest = max((run.at for run in runs), default=0.0)
        return (now - newest > max(SOON, (now - self.since) / 2.0)) or newest < max(self.since, self.alert_since or 0.0)


class JudgeVerdict(NamedTuple):
    """Whether a judge has changed, by how much its scores moved (at most, if it has not changed), and a sentence.

    `is_later` says that it changed only after the fall had been found.
    """

    has_changed: bool
    shift: float
    sentence: str
    is_later: bool = False

    def beside_a_fall(self, *, lower_is_better: bool) -> tuple[str, str]:
        """The word for Prometheus (unchanged, later, better, changed) and the sentence: better scores explain no
        fall.
        """
        if self.is_later:
            return "later", self.sentence
        if self.has_changed and (self.shift > 0.0) != lower_is_better:
            return "better", f"{self.sentence} Better scores explain no fall."
        return "changed" if self.has_changed else "unchanged", self.sentence


def judge_since(
    runs: Sequence[GoldenRun], since: float, cases: str = "golden cases", *, detected_at: float = math.inf
) -> JudgeVerdict | None:
    """The verdict on a judge since `since` (s); None without a run before and after, or with too few pairs.

    If the judge changes after the fall was found (`detected_at`, s), the verdict of the runs between the two stays.
    """
    ordered = sorted(runs)
    before, after = [run for run in ordered if run.at < since], [run for run in ordered if run.at >= since]
    if not before or not after:
        return None
    known = {case: fmean(scores) for case, scores in _known(_as_before(before, since)).items()}
    shift = score_shift(after[-1].scores, known)
    if shift is None:
        return None
    has, end, run = "has", "", after[-1]
    for early in after:
        before_repair = score_shift(early.scores, known) if early.at <= since + SOON and not shift.is_sure else None
        if before_repair is not None and before_repair.is_sure:  # repaired since, it is the cause all the same
            has, end, run, shift = "had", " The newest run finds no change.", early, before_repair
    where = f"{shift.count} {cases}, scored again at {_minute(run)}, moved by"
    moved = f"{shift.mean:+z.2f} {plus_minus(Z * shift.stderr, 2)}"
    if shift.is_sure and (last := _last_unchanged(after, known, detected_at)) is not None:
        unmoved, early = last
        sentence = (
            f"The judge had not changed when the scores fell: {unmoved.count} {cases}, scored again at "
            f"{_minute(early)}, moved by at most {at_most(unmoved.most)}. It has changed since: at {_minute(run)} they "
            f"had moved by {moved}."
        )
        return JudgeVerdict(True, shift.mean, sentence, is_later=True)
    if shift.is_sure:
        return JudgeVerdict(True, shift.mean, f"The judge {has} changed: {where} {moved}.{end}")
    return JudgeVerdict(False, shift.most, f"The judge has not changed: {where} at most {at_most(shift.most)}.")


def _minute(run: GoldenRun) -> str:
    return f"{datetime.fromtimestamp(run.at, UTC):%H:%M} UTC"


def _last_unchanged(
    after: Sequence[GoldenRun], known: Mapping[str, float], detected_at: float
) -> tuple[ScoreShift, GoldenRun] | None:
    """The last run before the first one that is not as the judge was before the fall. None if the fall was found only
    after it, or if the newest run, by chance, only seems to differ from it.
    """
    last: tuple[ScoreShift, GoldenRun] | None = None
    for run in after:
        shift = score_shift(run.scores, known)
        if shift is None or shift.is_sure:
            break
        last = shift, run
    if last is None or last[1].at < detected_at:
        return None
    since_then = score_shift(after[-1].scores, last[1].scores)
    return last if since_then is not None and since_then.is_sure else None


def _as_before(runs: Sequence[GoldenRun], since: float) -> Sequence[GoldenRun]:
    """The runs by the judge as it was before a fall, not of a shift that had ended: all with the scores of the newest.

    If none is old enough, the newest may be by a judge that caused the fall, or whose shift ended before the fall: then
    only if the first has its scores, and else all those that have not.
    """
    certain = [run for run in runs if run.at < since - _CERTAINLY_BEFORE]
    runs = certain or runs
    shifts = ((run, score_shift(run.scores, runs[-1].scores)) for run in runs)
    same = [run for run, shift in shifts if shift is None or not shift.is_sure]
    return same if certain or same[0] is runs[0] else [run for run in runs if run not in same]


def _known(runs: Sequence[GoldenRun]) -> dict[str, list[float]]:
    """The scores of each case in the newest `_BASELINE` of these runs."""
    known: dict[str, list[float]] = {}
    for run in runs[-_BASELINE:]:
        for case, score in run.scores.items():
            known.setdefault(case, []).append(score)
    return known


class SingleCaseTest:
    """The sequential test of a judge by single cases, against its runs since `began` (s)."""

    def __init__(self, began: float = 0.0) -> None:
        self.has_tripped = False
        """Whether the cases call for a whole run."""
        self._began = began
        self._above = self._below = 0.0

    def add(self, case: str, score: float, runs: Sequence[GoldenRun]) -> None:
        """Add the score of a case that was judged just now."""
        known = _known([run for run in runs if run.at >= self._began])
        if case not in known:
            return
        deviation = _deviation(list(known.values())) * math.sqrt(1.0 + 1.0 / len(known[case]))
        moved = max(-_LARGEST, min(_LARGEST, (score - fmean(known[case])) / deviation))
        self._above = max(0.0, self._above + moved - _SLACK)
        self._below = max(0.0, self._below - moved - _SLACK)
        self.has_tripped = self.has_tripped or max(self._above, self._below) > _LIMIT


def _deviation(cases: Sequence[Sequence[float]]) -> float:
    """The standard deviation of a case's score between runs, pooled over the cases and the initial guess."""
    squares = sum((score - fmean(scores)) ** 2 for scores in cases for score in scores)
    freedom = sum(len(scores) - 1 for scores in cases)
    return max(MIN_DEVIATION, math.sqrt((squares + _GUESSED * _GUESS**2) / (freedom + _GUESSED)))
