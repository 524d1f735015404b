"""The columns of the files, and the rows of evaluations and labels: what is nested in a record is flat in a row."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Literal

import orjson

from collector.calibration.page_labels import human_of
from collector.statistics.agreement import ScoreScale
from evaluators.cases import Json
from evaluators.results import Evaluation, Label

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
    "good": "flag",
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


_PLACES: Mapping[str, str] = {
    "error_type": "error.type",
    "error_message": "error.message",
    "judge_model": "judge.model",
    "judge_fingerprint": "judge.fingerprint",
    "judge_prompt_hash": "judge.prompt_hash",
    "input_tokens": "usage.input_tokens",
    "output_tokens": "usage.output_tokens",
    "judge_calls": "usage.calls",
    "retry_attempt": "retry.attempt",
    "retry_reason": "retry.reason",
    "escalation_reason": "escalation.reason",
    "escalation_probability": "escalation.probability",
    "escalation_doubt": "escalation.doubt",
    "first_score": "escalation.first_score",
    **{name: f"subject.{name}" for name in _SUBJECT},
    "probability": "sampling.probability",
    "stratum": "sampling.stratum",
    "sampling_unit": "sampling.unit",
}
"""The place of a column's value in a record, if it is nested there; other columns have the name of their field."""


def evaluation_row(evaluation: Evaluation, recorded_at: datetime, *, texts: bool) -> dict[str, Any]:
    """An evaluation that the log took at a time. Without `texts` the judge's words and details are left out."""
    low, high = evaluation.range or (None, None)
    made = {
        **_shared(evaluation, recorded_at),
        "range_low": low,
        "range_high": high,
        "details": _json(dict(evaluation.details)) if texts and evaluation.details else None,
        "supersedes": list(evaluation.supersedes),
        "attributes": [(name, _text(value)) for name, value in evaluation.attributes.items()],
        **({} if texts else {"explanation": None}),
    }
    return _row(evaluation, EVALUATION_COLUMNS, made)


def label_row(
    label: Label, recorded_at: datetime, *, texts: bool, lower_is_better: Collection[str] = ()
) -> dict[str, Any]:
    """A label that the log took at a time; `good` is the person's verdict. Without `texts` the note is left out.

    `lower_is_better` names the evaluators whose low scores are good.
    """
    lower = label.evaluator in lower_is_better
    human = human_of(label, lower_is_better=lower)
    made = {
        **_shared(label, recorded_at),
        "good": None if human is None else not ScoreScale(lower_is_better=lower).is_bad(human),
        "retracted": label.state == "retracted",
        **({} if texts else {"note": None}),
    }
    return _row(label, LABEL_COLUMNS, made)


def _row(record: Evaluation | Label, columns: Columns, made: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a record: those that are `made` of it, and the others as they are in it."""
    return {name: made[name] if name in made else _value(record, _PLACES.get(name, name)) for name in columns}


def _value(record: Any, place: str) -> Any:
    for name in place.split("."):
        record = None if record is None else getattr(record, name)
    return record


def _shared(record: Evaluation | Label, recorded_at: datetime) -> dict[str, Any]:
    """The columns that are made of an evaluation and of a label alike."""
    links, sampling = record.subject.links, record.sampling
    return {
        "links": _json([list(link) for link in links]) if links else None,
        "weight": 1.0 / sampling.probability,
        "upstream_probability": None if sampling.upstream == "unknown" else sampling.upstream,
        "recorded_at": recorded_at,
    }


def _text(value: Json) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
