"""The columns of the files, and the rows of evaluations and labels: what is nested in a record is flat in a row."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import orjson

from evaluators.cases import Json
from evaluators.results import Evaluation, Label, Subject

Kind = Literal["text", "number", "whole", "flag", "time", "texts", "map"]
"""Text, a double, a 64-bit whole number, a Boolean, a time in UTC (µs), a list of texts, a map from text to text."""

Columns = Mapping[str, Kind]

_SUBJECT: Columns = {
    "conversation_id": "text",
    "turn_id": "text",
    "trace_id": "text",
    "span_id": "text",
    "response_id": "text",
    "revision": "whole",
    "links": "text",
}
_IDENTITY: Columns = {
    "evaluation_id": "text",
    "evaluator": "text",
    "evaluator_version": "text",
    "monitor": "text",
    "scope": "text",
}
_SAMPLING: Columns = {
    "probability": "number",
    "weight": "number",
    "stratum": "text",
    "sampling_unit": "text",
    "upstream_probability": "number",
}
EVALUATION_COLUMNS: Columns = {
    **_IDENTITY,
    "outcome": "text",
    "score": "number",
    "label": "text",
    "passed": "flag",
    "explanation": "text",
    "reason": "text",
    "error_type": "text",
    "error_message": "text",
    "method": "text",
    "raw_score": "number",
    "range_low": "number",
    "range_high": "number",
    "kept_mass": "number",
    "details": "text",
    "judge_model": "text",
    "judge_fingerprint": "text",
    "judge_prompt_hash": "text",
    "input_tokens": "whole",
    "output_tokens": "whole",
    "judge_calls": "whole",
    "cost_usd": "number",
    **_SUBJECT,
    **_SAMPLING,
    "supersedes": "texts",
    "shares": "text",
    "retry_attempt": "whole",
    "retry_reason": "text",
    "escalation_reason": "text",
    "escalation_probability": "number",
    "escalation_doubt": "number",
    "first_score": "number",
    "started_at": "time",
    "ended_at": "time",
    "happened_at": "time",
    "time": "time",
    "recorded_at": "time",
    "attributes": "map",
}
LABEL_COLUMNS: Columns = {
    "label_id": "text",
    **_IDENTITY,
    "opinion": "text",
    "score": "number",
    "note": "text",
    "judge_score": "number",
    "judge_passed": "flag",
    "judge_model": "text",
    **_SUBJECT,
    **_SAMPLING,
    "label_probability": "number",
    "given_by": "text",
    "given_at": "time",
    "retracted": "flag",
    "recorded_at": "time",
}


def evaluation_row(evaluation: Evaluation, recorded_at: datetime, *, texts: bool) -> dict[str, Any]:
    """An evaluation that the log took at a time. Without `texts` the judge's words and details are left out."""
    low, high = evaluation.range or (None, None)
    error, judge, usage, retry = evaluation.error, evaluation.judge, evaluation.usage, evaluation.retry
    escalation = evaluation.escalation
    return {
        **_identity(evaluation),
        "outcome": evaluation.outcome,
        "score": evaluation.score,
        "label": evaluation.label,
        "passed": evaluation.passed,
        "explanation": evaluation.explanation if texts else None,
        "reason": evaluation.reason,
        "error_type": error.type if error else None,
        "error_message": error.message if error else None,
        "method": evaluation.method,
        "raw_score": evaluation.raw_score,
        "range_low": low,
        "range_high": high,
        "kept_mass": evaluation.kept_mass,
        "details": _json(dict(evaluation.details)) if texts and evaluation.details else None,
        "judge_model": judge.model if judge else None,
        "judge_fingerprint": judge.fingerprint if judge else None,
        "judge_prompt_hash": judge.prompt_hash if judge else None,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "judge_calls": usage.calls if usage else None,
        "cost_usd": evaluation.cost_usd,
        **_subject(evaluation.subject),
        **_sampling(evaluation),
        "supersedes": list(evaluation.supersedes),
        "shares": evaluation.shares,
        "retry_attempt": retry.attempt if retry else None,
        "retry_reason": retry.reason if retry else None,
        "escalation_reason": escalation.reason if escalation else None,
        "escalation_probability": escalation.probability if escalation else None,
        "escalation_doubt": escalation.doubt if escalation else None,
        "first_score": escalation.first_score if escalation else None,
        "started_at": evaluation.started_at,
        "ended_at": evaluation.ended_at,
        "happened_at": evaluation.happened_at,
        "time": evaluation.time,
        "recorded_at": recorded_at,
        "attributes": [(name, _text(value)) for name, value in evaluation.attributes.items()],
    }


def label_row(label: Label, recorded_at: datetime, *, texts: bool) -> dict[str, Any]:
    """A label that the log took at a time. Without `texts` the note is left out."""
    return {
        "label_id": label.label_id,
        **_identity(label),
        "opinion": label.opinion,
        "score": label.score,
        "note": label.note if texts else None,
        "judge_score": label.judge_score,
        "judge_passed": label.judge_passed,
        "judge_model": label.judge.model if label.judge else None,
        **_subject(label.subject),
        **_sampling(label),
        "label_probability": label.label_probability,
        "given_by": label.given_by,
        "given_at": label.given_at,
        "retracted": label.state == "retracted",
        "recorded_at": recorded_at,
    }


def _identity(record: Evaluation | Label) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _IDENTITY}


def _subject(subject: Subject) -> dict[str, Any]:
    links = _json([list(link) for link in subject.links]) if subject.links else None
    return {name: getattr(subject, name) for name in _SUBJECT} | {"links": links}


def _sampling(record: Evaluation | Label) -> dict[str, Any]:
    sampling = record.sampling
    return {
        "probability": sampling.probability,
        "weight": 1.0 / sampling.probability,
        "stratum": sampling.stratum,
        "sampling_unit": sampling.unit,
        "upstream_probability": None if sampling.upstream == "unknown" else sampling.upstream,
    }


def _text(value: Json) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
