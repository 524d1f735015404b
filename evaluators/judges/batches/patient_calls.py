"""Calls that are tried again while they fail for now."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from evaluators.errors import JudgeUnavailable
from evaluators.judges.batches.batch_terms import BatchTerms
from evaluators.judges.batches.results import TRANSIENT
from evaluators.judges.error_mapping import HttpStatusError, meaning_of, retry_after, to_judge_error

T = TypeVar("T")

_FIXABLE = frozenset({401, 402, 403})
"""Statuses that end once a key is corrected or a bill is paid."""


@dataclass(frozen=True, slots=True)
class PatientCalls:
    """Tries calls again, with growing waits, as the terms of a batch endpoint say."""

    terms: BatchTerms
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], float] = time.time

    def passes(self, error: Exception) -> bool:
        """Whether a request may succeed later."""
        if not isinstance(error, HttpStatusError):
            return isinstance(error, JudgeUnavailable)
        return meaning_of(error) in TRANSIENT or (self.terms.endures and error.status in _FIXABLE)

    async def call(self, request: Callable[[], Awaitable[T]], patience: float | None, *, is_work: bool = False) -> T:
        """The response to a request, tried again while it fails for now: for `patience` seconds; None has no limit.

        The terms get the answer to a call that failed before, and to one that `is_work` (`BatchTerms.on_answer`).

        Raises:
            HttpStatusError, JudgeError: the last attempt raised it.
        """
        began, wait, has_failed = self.clock(), self.terms.pace.first_retry, False
        while True:
            try:
                response = await request()
            except HttpStatusError as error:
                if not self.passes(error):
                    if patience is None:
                        raise to_judge_error(error) from None
                    raise
                problem, delay = to_judge_error(error), retry_after(error)
                last: Exception = error
            except JudgeUnavailable as error:
                problem, delay, last = error, error.retry_after, error
            else:
                if has_failed or is_work:
                    self.terms.on_answer(has_failed)
                return response
            pause = max(wait, delay or 0.0)
            if patience is not None and self.clock() + pause - began > patience:
                raise last
            has_failed = True
            self.terms.on_problem(problem)
            await self.sleep(pause)
            wait = min(2 * wait, self.terms.pace.longest_look)
