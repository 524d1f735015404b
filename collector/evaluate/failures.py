"""Failed evaluations: the remedy of each type, and reports of evaluators that fail again and again.

A judge that cannot be reached causes no such report: evaluations wait for it, and the log has a line about the judge.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from time import monotonic

from collector.backoff import StateLines
from collector.records.grouping import group_by
from collector.wording import listed
from evaluators.asking.prompt_isolation import ANSWER_KEY
from evaluators.judges.metered import COPIED
from evaluators.results import JUDGE_ERRORS, Failure, Outcome, Score

logger = logging.getLogger(__name__)

REPORT_AT = 3
"""Failures in a row after which an evaluator is reported: any judge gives an unusable answer now and then."""
_CALM = 60.0
"""Seconds without a failure, after which a report ends: an evaluator may fail in a part of its evaluations."""

REMEDIES = {
    "judge_reply_truncated": "raise judges.{judge}.max_tokens",
    "judge_refused": "name another model (judges.{judge}.model), or leave such texts out (match of a monitor)",
    "judge_reply_invalid": "name a model that follows instructions and writes JSON (judges.{judge}.model)",
    "judge_timeout": "raise judges.{judge}.timeout, or name a faster model",
    "judge_rate_limited": "set judges.{judge}.requests_per_minute to the endpoint's limit",
    "judge_rejected": "correct what it names; if questions are too long, name another model (judges.{judge}.model)",
    "internal_error": "mend the evaluator's code, restart, and run `evalstream rejudge --what failed`",
}
FAILURE_TYPES = frozenset({
    *REMEDIES, *JUDGE_ERRORS, "judge_shed", "method_unavailable", "process_ended", "redaction_failed", "too_expensive",
})  # fmt: skip
"""The types of failures; a plug-in may have more."""
_OF_COPIED = (
    "look in the judged text for a planted verdict (deploy/docs/security.md, section 'Prompt injection'), "
    "or name another model (judges.{judge}.model)"
)
_OTHER = "deploy/docs/troubleshooting.md, section 'Evaluations fail'"
_OTHER_OF_JUDGES = "see that judges.{judge} answers, and run `evalstream rejudge --what failed`"


def remedy_of(type: str, message: str, judge: str = "<name>") -> str:
    """The remedy of a failure; `judge` is the key of the evaluator's judge under `judges`."""
    remedy = REMEDIES.get(type, _OTHER_OF_JUDGES if type.startswith("judge_") else _OTHER)
    if COPIED in message:
        remedy = _OF_COPIED
    if ANSWER_KEY in message:
        remedy += ", or write judges.{judge}.answer_key: false"
    return remedy.format(judge=judge)


class FailingEvaluators:
    """Counts the failures in a row of each evaluator. `judges` maps an evaluator's name to the key of its judge.

    `waits` says whether an evaluator waits for a judge at present: what failed before that is no problem meanwhile.
    """

    def __init__(self, judges: Mapping[str, str], waits: Callable[[str], bool] = lambda _: False) -> None:
        self._judges = judges
        self._waits = waits
        self._failed_at: dict[str, float] = {}
        self._in_a_row: dict[str, int] = {}
        self._problems: dict[str, dict[str, str]] = {}
        """The problems of each evaluator by the type of its failures; the newest is the last."""
        self._lines = defaultdict[str, StateLines](lambda: StateLines(3600.0, monotonic))

    def add(self, evaluator: str, outcome: Outcome) -> None:
        """An evaluation ended. A skip says nothing about its evaluator."""
        if isinstance(outcome, Score):
            self._in_a_row.pop(evaluator, None)
            self._problems.pop(evaluator, None)
            if (lines := self._lines[evaluator]).open and monotonic() - self._failed_at[evaluator] >= _CALM:
                lines.open.clear()
                logger.info("evaluator %s gives scores again, without a failure for a minute", evaluator)
        elif isinstance(outcome, Failure):
            self._failed_at[evaluator] = monotonic()
            self._in_a_row[evaluator] = self._in_a_row.get(evaluator, 0) + 1
            if self._in_a_row[evaluator] >= REPORT_AT:
                remedy = remedy_of(outcome.type, outcome.message, self._judges.get(evaluator, "<name>"))
                problem = f"failed in the last {REPORT_AT} evaluations ({outcome.type}: {outcome.message}); {remedy}"
                problems = self._problems.setdefault(evaluator, {})
                problems.pop(outcome.type, None)
                if self._lines[evaluator].is_due(outcome.type):
                    logger.error("evaluator %s %s", evaluator, problem)
                problems[outcome.type] = problem

    def problem(self) -> str | None:
        """See `telemetry.health.Check`. Evaluators that fail alike, as by one judge, are named together."""
        failing = sorted(name for name in self._problems if not self._waits(name))
        alike = group_by(failing, lambda name: list(self._problems[name].values())[-1])
        return "; ".join(f"{listed(names)} {why}" for why, names in alike.items()) or None
