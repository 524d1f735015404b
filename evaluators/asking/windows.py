"""Windows: runs of neighbouring items in which a long case is judged, and a sample of windows if there are too many.

Up to 50 items are judged in one question if they fit, as the judge then sees what they share. More items are judged
about 25 at a time: a judge that has to give 200 verdicts at once gives many without reading.

Beyond `max_windows` windows a sample is judged: equally spaced places in the list of all items, the first place random,
choose their windows. A window's probability is proportional to its items, so the mean of the windows' shares is an
unbiased estimate of the share of all. The draw is a hash of the case: the same on every replay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Annotated

from pydantic import Field

from evaluators.asking.judge_input import TextSettings
from evaluators.cases import Json
from evaluators.evaluator import ADDED_LATER
from evaluators.texts.draw import draw

MOST_AT_ONCE = 50
"""The most items that are judged in one question, if they fit."""

WINDOW = 25
"""Items of a window."""

MAX_WINDOWS = 20


class WindowSettings(TextSettings):
    """The bound on the judged windows of a long case."""

    max_windows: Annotated[int, ADDED_LATER] = Field(default=MAX_WINDOWS, ge=1, le=10_000)
    """The most windows, of about 25 items each, judged per case; of more, a random sample of so many."""

    @property
    def cost_note(self) -> str:
        """See `Evaluator.cost_note`."""
        most = f"at most {self.max_windows}" if self.max_windows > 1 else "only one, drawn at random"
        return f"up to {MOST_AT_ONCE} items in one question; of more, one question for each {WINDOW} or so, {most}"


def split(sizes: Sequence[int], budget: int) -> tuple[range, ...]:
    """Positions of items in windows: one window if all fit, else about 25 items in each, as far as the budget goes.

    `sizes` are the items' sizes. An item that is larger than the budget is a window of its own.
    """
    if len(sizes) <= MOST_AT_ONCE and sum(sizes) <= budget:
        return (range(len(sizes)),) if sizes else ()
    return split_evenly(sizes, budget)


def split_evenly(sizes: Sequence[int], budget: int, most: int = WINDOW) -> tuple[range, ...]:
    """Positions in windows of about equal length, with at most `most` items each, even if all would fit into one."""
    even = -(-len(sizes) // -(-len(sizes) // most))  # not 25, 25 and 1
    windows: list[range] = []
    start = room = 0
    for at, size in enumerate(sizes):
        if at > start and (at - start == even or size > room):
            windows.append(range(start, at))
            start = at
        room = (budget if at == start else room) - size
    return (*windows, range(start, len(sizes)))


@dataclass(frozen=True, slots=True)
class WindowSample:
    """The windows that are judged: `picks` are their positions, in order; two places may choose one window."""

    lengths: tuple[int, ...]
    picks: tuple[int, ...]

    @property
    def judged(self) -> Sequence[int]:
        """The windows to be judged, each once."""
        return sorted(set(self.picks))

    @property
    def complete(self) -> bool:
        """Whether every window is judged."""
        return len(self.judged) == len(self.lengths)

    def share_of(self, flags: Mapping[int, Sequence[float]]) -> float:
        """The estimated mean of how much each item counts, from 0 to 1, over all items."""
        if self.complete:
            return sum(map(sum, flags.values())) / sum(map(len, flags.values()))
        return fmean(sum(flags[at]) / len(flags[at]) for at in self.picks if flags[at])

    @property
    def details(self) -> Mapping[str, Json]:
        """A score's details about windows that were not judged; empty if all were judged."""
        if self.complete:
            return {}
        items = sum(self.lengths)
        chances: list[Json] = [round(len(self.picks) * self.lengths[at] / items, 6) for at in self.judged]
        windows: dict[str, Json] = {"of": len(self.lengths), "judged": len(self.judged), "probabilities": chances}
        return {"windows": windows, "left_out": items - sum(self.lengths[at] for at in self.judged)}


def draw_windows(lengths: Sequence[int], most: int, seed: str) -> WindowSample:
    """All windows, or a random sample of `most`. The `seed` (the case's name) fixes the sample."""
    if len(lengths) <= most:
        return WindowSample(tuple(lengths), tuple(range(len(lengths))))
    ends = list(accumulate(lengths))
    step = ends[-1] / most
    start = draw(f"windows\x1f{seed}", algorithm="sha256") * step
    picks: list[int] = []
    at = 0
    for number in range(most):
        while at < len(ends) - 1 and ends[at] <= start + number * step:
            at += 1
        picks.append(at)
    return WindowSample(tuple(lengths), tuple(picks))
