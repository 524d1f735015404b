"""Where in the log how much lies behind: what a restart that begins at an offset would have to do."""

from __future__ import annotations

from collections import deque

_NOTES = 256
"""Notes for the amount that is asked for: how exact the answers are."""


class ReplayWork:
    """What applying the records of a partition has cost, noted by offset.

    `work` only grows; it is what all records below the next offset have cost, in any unit.
    """

    def __init__(self) -> None:
        self._notes: deque[tuple[float, int]] = deque()
        self._latest = 0.0

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, work: float, next_offset: int, amount: float) -> None:
        """The records below `next_offset` have cost `work`; `amount` is about what is going to be asked for."""
        if not self._notes or work - self._notes[-1][0] >= amount / _NOTES:
            self._notes.append((work, next_offset))
        self._latest = work

    def offset_behind(self, amount: float) -> int:
        """The newest known offset such that the records from it on have cost at least `amount`; 0 if there is none.

        What lies before an answer is forgotten: where more is asked for later, there is none until so much has come.
        """
        while len(self._notes) > 1 and self._latest - self._notes[1][0] >= amount:
            self._notes.popleft()
        return self._notes[0][1] if self._notes and self._latest - self._notes[0][0] >= amount else 0
