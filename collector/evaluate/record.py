"""From a job and its result to the record that goes into the ledger."""

from __future__ import annotations

from typing import Any

from collector.evaluate.plan import Job, conversation_key
from evaluators.cases import Conversation, Turn
from evaluators.outcome import ErrorDetail, Evaluation, Failure, Score, Skipped, Subject
from evaluators.run import Result


def evaluation_of(job: Job, case: Turn | Conversation, result: Result) -> Evaluation:
    """The record of a job that is done."""
    evaluator = job.assignment.evaluator
    return Evaluation(
        evaluation_id=job.evaluation_id,
        evaluator=evaluator.name,
        evaluator_version=job.assignment.version_by(fallback=job.fallback),
        scope=evaluator.scope,
        monitor=job.monitor.name,
        subject=_subject(case),
        judge=result.judge,
        usage=result.usage,
        cost_usd=result.cost_usd,
        sampling=job.sampling,
        supersedes=job.supersedes,
        started_at=result.started_at,
        ended_at=result.ended_at,
        attributes=_attributes(job),
        **_outcome(job, result),
    )


def _attributes(job: Job) -> dict[str, Any]:
    return {**job.attributes, "fallback_judge": job.judge.model} if job.fallback else dict(job.attributes)


def _outcome(job: Job, result: Result) -> dict[str, Any]:
    match result.outcome:
        case Score() as score:
            return {
                "outcome": "scored",
                "score": score.value,
                "label": score.label,
                "passed": job.assignment.evaluator.passed(score.value),
                "explanation": score.explanation,
                "method": score.method,
                "raw_score": score.raw_score,
                "range": score.range,
                "kept_mass": score.kept_mass,
                "details": score.details,
            }
        case Skipped(reason=reason):
            return {"outcome": "skipped", "reason": reason}
        case Failure(type=type_, message=message):
            return {"outcome": "failed", "error": ErrorDetail(type=type_, message=message)}


def _subject(case: Turn | Conversation) -> Subject:
    if isinstance(case, Turn):
        return Subject(
            conversation_id=conversation_key(case),
            turn_id=case.turn_id,
            trace_id=case.trace_id,
            span_id=case.span_id,
            response_id=case.response_id,
        )
    last = case.turns[-1]
    return Subject(
        conversation_id=case.conversation_id,
        trace_id=last.trace_id,
        span_id=last.span_id,
        revision=case.revision,
        links=tuple((turn.trace_id, turn.span_id) for turn in case.turns if turn.trace_id and turn.span_id),
    )
