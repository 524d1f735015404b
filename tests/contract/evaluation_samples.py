"""Evaluations as the service writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from evaluators.results import ErrorDetail, Evaluation, JudgeStamp, Label, Sampling, Subject, Usage

START = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def scored(number: int = 1, **changes: Any) -> Evaluation:
    """A turn's score by token probabilities."""
    fields: dict[str, Any] = {
        "evaluation_id": f"{number:032x}",
        "evaluator": "answers_question",
        "evaluator_version": "0123456789ab",
        "scope": "turn",
        "monitor": "helpdesk",
        "subject": Subject(
            conversation_id="visit-7", turn_id="f" * 32, trace_id=TRACE, span_id=SPAN, response_id="chatcmpl-1"
        ),
        "outcome": "scored",
        "score": 0.75,
        "label": "good",
        "passed": True,
        "explanation": "It names the price.",
        "method": "logprobs",
        "raw_score": 8.0,
        "range": (0.0, 10.0),
        "kept_mass": 0.98,
        "judge": JudgeStamp(model="judge-1", fingerprint="fp", prompt_hash="ab" * 8),
        "usage": Usage(input_tokens=400, output_tokens=60, calls=2),
        "cost_usd": 0.002,
        "sampling": Sampling(probability=0.25),
        "started_at": START,
        "ended_at": START + timedelta(seconds=1.5),
    }
    return Evaluation(**{**fields, **changes})


_NO_SCORE = dict.fromkeys(("score", "label", "passed", "explanation", "method", "raw_score", "range", "kept_mass"))


def skipped(number: int = 2, reason: str = "missing_field: expected_output", **changes: Any) -> Evaluation:
    unjudged = {**_NO_SCORE, "judge": None, "usage": None, "cost_usd": None}
    return scored(number, **{**unjudged, "outcome": "skipped", "reason": reason, **changes})


def failed(number: int = 3, **changes: Any) -> Evaluation:
    error = ErrorDetail(type="judge_timeout", message="no answer within 60 s")
    return scored(number, **{**_NO_SCORE, "outcome": "failed", "error": error, **changes})


def bare(number: int, score: float | None, conversation: str | None = None, **changes: Any) -> Evaluation:
    """What arithmetic needs of an evaluation, held to 0.5; a failure where there is no score."""
    fields: dict[str, Any] = {
        "evaluation_id": f"e{number}",
        "evaluator": "helpful",
        "evaluator_version": "v",
        "scope": "turn",
        "monitor": "all",
        "subject": Subject(conversation_id=conversation or f"c{number}", turn_id=f"t{number}"),
        "outcome": "scored" if score is not None else "failed",
        "score": score,
        "passed": None if score is None else score >= 0.5,
        "error": None if score is not None else ErrorDetail(type="judge_timeout", message=""),
        "started_at": START,
        "ended_at": START,
    }
    return Evaluation(**{**fields, **changes})


def of_conversation(number: int = 4, **changes: Any) -> Evaluation:
    links = ((TRACE, SPAN), ("ab" * 16, "cd" * 8))
    subject = Subject(conversation_id="visit-7", trace_id="ab" * 16, span_id="cd" * 8, revision=2, links=links)
    return scored(number, scope="conversation", subject=subject, **changes)


def label(**changes: Any) -> Label:
    """What a person says of `scored()`."""
    judged = scored()
    fields: dict[str, Any] = {
        "label_id": "1" * 32,
        "evaluation_id": judged.evaluation_id,
        "evaluator": judged.evaluator,
        "evaluator_version": judged.evaluator_version,
        "scope": judged.scope,
        "monitor": judged.monitor,
        "subject": judged.subject,
        "opinion": "disagree",
        "score": 0.2,
        "note": "It names the wrong price.",
        "judge_score": judged.score,
        "judge_passed": judged.passed,
        "judge": judged.judge,
        "sampling": judged.sampling,
        "given_by": "ada",
        "given_at": START + timedelta(hours=1),
    }
    return Label(**{**fields, **changes})
