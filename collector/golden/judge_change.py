"""System or judge: what runs of the golden set before and after scores began to fall say of the judge.

Every case is compared with itself, so only the judge can have moved its score. References by people are no part of it:
a judge may always have differed from them. A judge is said to have changed beyond `_SURE` standard errors (by Student's
t, nearly: Cornish and Fisher 1938). Of falls that the judge has no part in, fewer than 2 % are blamed on it though each
is looked at up to ten times. `tests/unit/golden/test_judge_change.py` measures that.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from collector.golden.cases import score_shift
from collector.statistics.intervals import Z

_SURE = 3.3
_BASELINE = 5
"""Runs before the fall that a run after it is compared with: the newest."""
SOON = 1800.0
"""Seconds after which a judge is asked again at the earliest, while scores may be falling."""


class GoldenRun(NamedTuple):
    """When a run was made (s since the epoch), and the score of each case that has one."""

    at: float
    scores: Mapping[str, float]


class Suspicion(NamedTuple):
    """When scores seem to have begun to fall (s since the epoch), and since when an alert says so, if one does."""

    since: float
    alert_since: float | None = None

    def asks(self, runs: Sequence[GoldenRun], now: float) -> bool:
        """Whether a run is due: at once, as the newest grows old, and as an alert begins."""
        newest = max((run.at for run in runs), default=0.0)
        is_old = now - newest > max(SOON, (now - self.since) / 2.0)
        return is_old or newest < max(self.since, self.alert_since or 0.0)


def judge_since(runs: Sequence[GoldenRun], since: float) -> str:
    """The verdict in a sentence; "" without a run on either side, or with too few cases."""
    ordered = sorted(runs)
    before, after = [run for run in ordered if run.at < since][-_BASELINE:], [run for run in ordered if run.at >= since]
    if not before or not after:
        return ""
    known: dict[str, list[float]] = {}
    for run in before:
        for case, score in run.scores.items():
            known.setdefault(case, []).append(score)
    shift = score_shift(after[-1].scores, {case: sum(scores) / len(scores) for case, scores in known.items()})
    if shift is None:
        return ""
    half = _SURE * (1.0 + (_SURE**2 + 1.0) / (4.0 * (shift.count - 1))) * shift.stderr
    where = f"{shift.count} golden cases at {datetime.fromtimestamp(after[-1].at, UTC):%H:%M} UTC"
    if abs(shift.mean) > half:
        return f"The judge has changed: its scores of {where} moved by {shift.mean:+.2f} ± {Z * shift.stderr:.2f}."
    return f"The judge has not changed on {where} (shift at most {abs(shift.mean) + half:.2f})."
