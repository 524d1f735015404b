"""The record of an evaluation, made from its result: what goes into a log, a file or an exporter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from evaluators.cases import Conversation, Json, Turn
from evaluators.evaluation import Result
from evaluators.evaluator import Evaluator
from evaluators.identity import conversation_id_of, turn_id_of
from evaluators.results import ErrorDetail, Evaluation, Failure, Outcome, Retry, Sampling, Score, Skipped, Subject

_CERTAIN = Sampling()


def make_record(
    evaluator: Evaluator[Any],
    case: Turn | Conversation,
    result: Result,
    *,
    evaluation_id: str,
    evaluator_version: str,
    monitor: str,
    sampling: Sampling = _CERTAIN,
    supersedes: tuple[str, ...] = (),
    retry: Retry | None = None,
    happened_at: datetime | None = None,
    attributes: Mapping[str, Json] | None = None,
) -> Evaluation:
    """The record of a result. See `evaluators.identity` for the id and the version."""
    return Evaluation(
        evaluation_id=evaluation_id,
        evaluator=evaluator.name,
        evaluator_version=evaluator_version,
        scope=evaluator.scope,
        monitor=monitor,
        subject=subject_of(case),
        judge=result.judge,
        usage=result.usage,
        cost_usd=result.cost_usd,
        sampling=_with_own_draw(sampling, result.outcome),
        supersedes=supersedes,
        retry=retry,
        started_at=result.started_at,
        ended_at=result.ended_at,
        happened_at=happened_at,
        attributes=dict(attributes or {}),
        **_outcome(evaluator, result),
    )


def _with_own_draw(sampling: Sampling, outcome: Outcome) -> Sampling:
    """The sampling with the evaluator's own draw, if it made one: the two draws are independent."""
    if not isinstance(outcome, Score) or outcome.probability == 1.0:
        return sampling
    return replace(sampling, probability=sampling.probability * outcome.probability)


def _outcome(evaluator: Evaluator[Any], result: Result) -> dict[str, Any]:
    match result.outcome:
        case Score() as score:
            return {
                "outcome": "scored",
                "score": score.value,
                "label": score.label,
                "passed": evaluator.verdict(score),
                "explanation": score.explanation,
                "method": score.method,
                "raw_score": score.raw_score,
                "range": score.range,
                "kept_mass": score.kept_mass,
                "details": score.details,
                "escalation": score.escalation,
            }
        case Skipped(reason=reason):
            return {"outcome": "skipped", "reason": reason}
        case Failure(type=type_, message=message):
            return {"outcome": "failed", "error": ErrorDetail(type=type_, message=message)}


def subject_of(case: Turn | Conversation) -> Subject:
    """What was evaluated, by its ids."""
    if isinstance(case, Turn):
        return Subject(
            conversation_id=conversation_id_of(case),
            turn_id=turn_id_of(case),
            trace_id=case.trace_id,
            span_id=case.span_id,
            response_id=case.response_id,
        )
    last = case.turns[-1] if case.turns else Turn()
    return Subject(
        conversation_id=conversation_id_of(case),
        trace_id=last.trace_id,
        span_id=last.span_id,
        revision=case.revision,
        links=tuple((turn.trace_id, turn.span_id) for turn in case.turns if turn.trace_id and turn.span_id),
    )
