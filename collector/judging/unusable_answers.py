"""Reports of a judge that answers, but never what it was asked for: one sentence when it begins, then rarely."""

from __future__ import annotations

import time
from collections.abc import Callable

from evaluators.errors import JudgeReplyInvalid

REPORT_AT = 5
"""Unusable answers in a row after which they are reported: every judge gives one now and then."""


class UnusableAnswers:
    """Counts one judge's unusable answers in a row. `subject` names the judge, and `name` is its key under `judges`.

    Reports come at most every `repeat_after` seconds of `clock`. They hold no judged text.
    """

    def __init__(
        self,
        subject: str,
        name: str,
        report: Callable[[str], None],
        repeat_after: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._subject = subject
        self._name = name
        self._report = report
        self._repeat_after = repeat_after
        self._clock = clock
        self._in_a_row = 0
        self._reported_at: float | None = None

    def add(self, error: JudgeReplyInvalid) -> None:
        """The judge gave one more; report it if there are many by now, and none were reported lately."""
        self._in_a_row += 1
        now = self._clock()
        is_due = self._reported_at is None or now - self._reported_at >= self._repeat_after
        if self._in_a_row >= REPORT_AT and is_due:
            self._reported_at = now
            self._report(
                f"{self._subject} answers, but its last {self._in_a_row:,} answers are of no use ({error}), "
                f"so their evaluations fail; {_remedy(error, self._name)}"
            )

    def end(self) -> None:
        """The judge gave an answer that can be used."""
        if self._in_a_row >= REPORT_AT and self._reported_at is not None:
            self._report(f"judge {self._name} gives usable answers again, after {self._in_a_row:,} that were of no use")
            self._reported_at = None
        self._in_a_row = 0


def _remedy(error: JudgeReplyInvalid, name: str) -> str:
    match error.type:
        case "judge_reply_truncated":
            return f"raise judges.{name}.max_tokens"
        case "judge_refused":
            return f"name another model (judges.{name}.model), or leave such texts out (match of a monitor)"
        case _:
            return f"name a model that follows instructions and writes JSON (judges.{name}.model)"
