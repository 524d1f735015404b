"""What became of every evaluation that was due: counted once when it falls due, and once by its end.

Of what a process counted, at any time and for each monitor and evaluator,

    matched + resumed = scored + skipped + failed + sampled_out + over_budget + shed + superseded + duplicate
                        + handed_over + those that wait or are under way

`matched` falls due when a turn comes, or a conversation closes. `handed_over` was under way when its partition was
given up; it is `resumed` by the partition's next owner, and ends there. So is what was under way in a process that
died. `duplicate` is of a subject whose evaluation exists or is under way.
"""

from __future__ import annotations

from typing import Literal, Protocol

Due = Literal["matched", "resumed"]
End = Literal[
    "scored", "skipped", "failed", "sampled_out", "over_budget", "shed", "superseded", "duplicate", "handed_over"
]  # fmt: skip
TurnOutcome = Literal["sampled", "sampled_out", "unmatched", "duplicate", "late"]


class Tally(Protocol):
    """Counts. Of what is replayed nothing is counted but what is resumed."""

    def turn(self, monitor: str, outcome: TurnOutcome) -> None:
        """What a monitor did with a turn; "" for no monitor."""
        ...

    def evaluation(self, monitor: str, evaluator: str, what: Due | End, reason: str = "", number: int = 1) -> None:
        """That evaluations fell due, or ended."""
        ...

    def begun(self, monitor: str, evaluator: str) -> None:
        """That an evaluation was taken up."""
        ...

    def silent(self, monitor: str, number: int) -> None:
        """That so many conversations fell silent, judged or not."""
        ...

    def closed(self, monitor: str, by: str, gaps: int) -> None:
        """That a conversation closed, by what, and how many of the user's messages it lacks."""
        ...


class NoTally:
    """Counts nothing: for replays."""

    def turn(self, monitor: str, outcome: TurnOutcome) -> None:
        """Nothing."""

    def evaluation(self, monitor: str, evaluator: str, what: Due | End, reason: str = "", number: int = 1) -> None:
        """Nothing."""

    def begun(self, monitor: str, evaluator: str) -> None:
        """Nothing."""

    def silent(self, monitor: str, number: int) -> None:
        """Nothing."""

    def closed(self, monitor: str, by: str, gaps: int) -> None:
        """Nothing."""
