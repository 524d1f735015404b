"""Running one evaluator on one case: the one place where an exception becomes a failure."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from evaluators.cases import Conversation, Json, Turn
from evaluators.errors import EvaluationError, NotApplicable
from evaluators.evaluator import Evaluator
from evaluators.judge import Judge
from evaluators.judges.metered import Metered
from evaluators.judges.panel import Opinion, Panel, combined, stamp_of
from evaluators.material import missing
from evaluators.outcome import Failure, JudgeStamp, Outcome, Score, Skipped, Usage
from evaluators.wordless import wordless

logger = logging.getLogger(__name__)

_LONGEST_MESSAGE = 500
_LONGEST_EXPLANATION = 4000

AnyOutcome = TypeVar("AnyOutcome", Score, Outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of running an evaluator. `judge`, `usage` are None where no judge was asked; `cost_usd` in US dollars,
    None where nothing was paid for or no price is known. Times are what `now` said before and after.
    """

    outcome: Outcome
    judge: JudgeStamp | None
    usage: Usage | None
    cost_usd: float | None
    started_at: datetime
    ended_at: datetime


async def run(
    evaluator: Evaluator[Any], case: Turn | Conversation, judge: Judge, *, now: Callable[[], datetime]
) -> Result:
    """Evaluate a case. Never raises but for cancellation, and for a case that is not of the evaluator's scope.

    Skipped without asking the judge is what cannot be judged: `incomplete: …` where the trace lacks its texts,
    `application_error` where the application failed and answered nothing, `missing_field: …` where the evaluator needs
    what the case has not. An answer without a word gets the lowest score from evaluators of its quality, also
    unasked.
    """
    if isinstance(case, Turn) != (evaluator.scope == "turn"):
        raise TypeError(f"{evaluator.name} scores a {evaluator.scope}, not a {type(case).__name__}")
    started = now()
    asked = [Metered(each) for each in (judge.judges if isinstance(judge, Panel) else (judge,))]
    if isinstance(judge, Panel):
        outcome, stamp = await _by_panel(evaluator, case, judge, asked)
    else:
        outcome, stamp = await _by_one(evaluator, case, asked[0])
    return Result(
        outcome=outcome,
        judge=stamp,
        usage=sum((each.usage for each in asked), Usage()) if stamp is not None else None,
        cost_usd=_sum_of([each.cost_usd for each in asked if each.asked]),
        started_at=started,
        ended_at=now(),
    )


async def _by_one(
    evaluator: Evaluator[Any], case: Turn | Conversation, judge: Metered
) -> tuple[Outcome, JudgeStamp | None]:
    outcome = await _outcome(evaluator, case, judge)
    return outcome, judge.stamp


async def _by_panel(
    evaluator: Evaluator[Any], case: Turn | Conversation, panel: Panel, judges: Sequence[Metered]
) -> tuple[Outcome, JudgeStamp | None]:
    """Every judge makes the whole evaluation; what each comes to is on record."""
    outcomes = await asyncio.gather(*(_outcome(evaluator, case, judge) for judge in judges))
    opinions = [Opinion(judge.model, outcome) for judge, outcome in zip(judges, outcomes, strict=True)]
    stamps = [judge.stamp for judge in judges if judge.stamp is not None]
    return _labelled(evaluator, combined(panel, evaluator, opinions)), stamp_of(panel, stamps)


def _sum_of(costs: Sequence[float | None]) -> float | None:
    """The sum; None if any part is unknown, or there is none."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known and len(known) == len(costs) else None


async def _outcome(evaluator: Evaluator[Any], case: Turn | Conversation, judge: Metered) -> Outcome:
    if (reason := _not_judgeable(evaluator, case)) is not None:
        return Skipped(reason=reason)
    if (field := evaluator.worthless_if_wordless) is not None and wordless(getattr(case, field)):
        return _finished(evaluator, _worthless(evaluator, field), judge)
    try:
        outcome = await evaluator.evaluate(case, judge)
    except NotApplicable as error:
        return Skipped(reason=str(error))
    except EvaluationError as error:
        return Failure(type=error.type, message=str(error)[:_LONGEST_MESSAGE])
    except Exception as error:  # noqa: BLE001 - a bug in one evaluator must cost one evaluation, not the service
        return _internal(evaluator, error)
    return _finished(evaluator, outcome, judge) if isinstance(outcome, Score) else outcome


def _not_judgeable(evaluator: Evaluator[Any], case: Turn | Conversation) -> str | None:
    """Why the case is skipped before anything is computed; None if it is not."""
    if evaluator.needs_content:
        turns = (case,) if isinstance(case, Turn) else case.turns
        for turn in turns:
            if turn.incomplete is not None:
                return f"incomplete: {turn.incomplete}"
        if all(turn.error is not None and not turn.actual_output for turn in turns):
            return "application_error"
    lacking = sorted(name for name in evaluator.requires if missing(case, name))
    return f"missing_field: {', '.join(lacking)}" if lacking else None


def _worthless(evaluator: Evaluator[Any], field: str) -> Score:
    lowest, highest = evaluator.score_range
    value = 0.0 if evaluator.direction == "higher_is_better" else 1.0
    return Score(
        value=value,
        explanation=f"{field} says nothing: it has no word in it.",
        raw_score=lowest if value == 0.0 else highest,
        range=(lowest, highest),
    )


def _finished(evaluator: Evaluator[Any], score: Score, judge: Metered) -> Score:
    """The score with its label, and with what casts doubt on it: signs in the material, quotations out of nowhere."""
    score = replace(_labelled(evaluator, score), explanation=(score.explanation or "")[:_LONGEST_EXPLANATION] or None)
    doubts: dict[str, Json] = {}
    if signs := judge.signs:
        doubts["suspicious"] = sorted(signs)
    if invented := judge.unfounded(score.explanation or ""):
        doubts["unfounded_quotes"] = len(invented)
    return replace(score, details={**score.details, **doubts}) if doubts else score


def _labelled(evaluator: Evaluator[Any], outcome: AnyOutcome) -> AnyOutcome:
    """A score with a label by its threshold, unless it has one of its own; anything else as it is."""
    if not isinstance(outcome, Score) or outcome.label is not None:
        return outcome
    passed = evaluator.passed(outcome.value)
    return outcome if passed is None else replace(outcome, label="pass" if passed else "fail")


def _internal(evaluator: Evaluator[Any], error: Exception) -> Failure:
    """A bug. Neither record nor log repeat the exception's text, which may hold judged text: they say where it was."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    message = f"{type(error).__name__} in {where.name}, line {where.lineno}"
    logger.error("evaluator %s (%s) failed: %s of %s", evaluator.name, evaluator.kind, message, where.filename)
    return Failure(type="internal_error", message=message)
