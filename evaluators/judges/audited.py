"""A cheap judge, and an expensive judge that judges a random part of the cases again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

from evaluators.cases import Conversation, Turn
from evaluators.evaluator import Evaluator
from evaluators.identity import judged_version, subject_id_of
from evaluators.judge import Judge, WholeJudge
from evaluators.texts.draw import draw

PATIENCE = 60.0
"""Seconds that a score waits for its audit."""
AuditResult = TypeVar("AuditResult")


@dataclass(eq=False, repr=False)
class Audited(WholeJudge):
    """A judge, and an auditor that judges a `share` of the same cases again, drawn by hash.

    The score is the judge's; its details have the auditor's score as `audit`, with the probability of the draw. So the
    mean over all cases can be corrected to the mean that the auditor would give. The audit may use another `evaluator`,
    for instance if the first one asks no judge.

    A score waits `patience` seconds for its audit, then goes out without it. After a late audit only one audit at a
    time is tried, until one ends in time: so an unavailable auditor delays one score at a time.

    A secret `salt` makes the draw unpredictable for a sender that chooses ids.

    Raises:
        ValueError: the share is not in (0, 1], or the auditing evaluator has another scope.
    """

    refusal = "an audited judge answers no single question: give it to evaluators.evaluate"

    judge: Judge
    auditor: Judge
    share: float
    evaluator: Evaluator[Any] | None = None
    _: KW_ONLY
    patience: float = PATIENCE
    salt: str = ""

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"the share of audits lies in (0, 1], not {self.share!r}")
        self._is_late = False
        """Whether the last audit did not end in time."""
        self._tried = False
        """Whether an audit is being tried although the last one was late."""

    async def in_time(self, audit: Callable[[], Awaitable[AuditResult]]) -> AuditResult | None:
        """The result of an audit; None if it does not end in time, or is not tried as the last audit was late."""
        is_trial = self._is_late
        if is_trial and self._tried:
            return None
        self._tried = self._tried or is_trial
        try:
            async with asyncio.timeout(self.patience):
                result = await audit()
        except TimeoutError:
            self._is_late = True
            return None
        else:
            self._is_late = False
            return result
        finally:
            self._tried = self._tried and not is_trial

    @property
    def model(self) -> str:
        """The first judge's model: its scores mean the same with and without audits."""
        return self.judge.model

    def audit_version(self, evaluator: Evaluator[Any]) -> str:
        """The version of an evaluator's audits: 12 hex digits that change when their scores may."""
        return judged_version(self.evaluator or evaluator, self.auditor.model)

    def audits(self, evaluator: Evaluator[Any], case: Turn | Conversation) -> bool:
        """Whether a case is drawn: by its id alone, independent of the judges and of the draw that sampled it."""
        subject, _ = subject_id_of(case)
        return draw(f"audit\x1f{evaluator.name}\x1f{subject}", salt=self.salt) < self.share
