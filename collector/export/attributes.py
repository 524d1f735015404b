"""The OpenTelemetry attributes of an evaluation: every exported name is in this file.

`gen_ai.*` and `error.type` are names of the GenAI semantic conventions, event `gen_ai.evaluation.result` (status:
development). The conventions know neither how a score came about nor what a conversation's score belongs to, so this
is under `evalstream.*`.
"""

from collections.abc import Iterator
from typing import cast

from evaluators.cases import Json
from evaluators.results import Evaluation, Subject

EVENT_NAME = "gen_ai.evaluation.result"
SPAN_NAME = "evaluate {evaluator}"

Value = str | bool | int | float | tuple[float, ...] | tuple[str, ...]


def attributes(evaluation: Evaluation, *, explanation: bool = True) -> dict[str, Value]:
    """The attributes of the event and of the span; without `explanation` no text of the judge is among them."""
    pairs = (*_standard(evaluation, explanation=explanation), *_own(evaluation))
    return {name: value for name, value in pairs if value is not None}


def openinference_attributes(evaluation: Evaluation, *, explanation: bool = True) -> dict[str, Value]:
    """The same as OpenInference writes it: the span's kind, and one result of a span or of a session.

    Source: https://arize-ai.github.io/openinference/spec/feedback/annotations.html. A result has a score, a label or an
    explanation: an evaluation without a score is an evaluator span without a score.
    """
    of_conversation = evaluation.scope == "conversation"
    prefix = "session.evaluations.0.evaluation" if of_conversation else "evaluations.0.evaluation"
    known: dict[str, Value | None] = {"openinference.span.kind": "EVALUATOR"}
    if of_conversation:
        known["session.id"] = evaluation.subject.conversation_id
    if evaluation.outcome == "scored":
        known |= {
            f"{prefix}.name": evaluation.evaluator,
            f"{prefix}.score": _number(evaluation.score),
            f"{prefix}.label": evaluation.label,
            f"{prefix}.explanation": evaluation.explanation if explanation else None,
            f"{prefix}.annotator_kind": "CODE" if evaluation.judge is None else "LLM",
            f"{prefix}.identifier": evaluation.evaluation_id,
        }
    return {name: value for name, value in known.items() if value is not None}


def conversation_id(subject: Subject) -> str | None:
    """The conversation's id as the traffic had it; None where the subject is a conversation of its own."""
    return None if subject.conversation_id in (subject.trace_id, subject.turn_id) else subject.conversation_id


def _standard(evaluation: Evaluation, *, explanation: bool) -> Iterator[tuple[str, Value | None]]:
    yield "gen_ai.evaluation.name", evaluation.evaluator
    yield "gen_ai.evaluation.score.value", _number(evaluation.score)
    yield "gen_ai.evaluation.score.label", evaluation.label
    yield "gen_ai.evaluation.explanation", evaluation.explanation if explanation else None
    yield "gen_ai.response.id", evaluation.subject.response_id
    yield "gen_ai.conversation.id", conversation_id(evaluation.subject)
    yield "error.type", evaluation.error.type if evaluation.error else None


def _own(evaluation: Evaluation) -> Iterator[tuple[str, Value | None]]:
    yield "evalstream.evaluation.id", evaluation.evaluation_id
    yield "evalstream.evaluator.version", evaluation.evaluator_version
    yield "evalstream.evaluation.supersedes", evaluation.supersedes or None
    yield "evalstream.evaluation.backfill", True if evaluation.happened_at else None
    yield "evalstream.evaluation.attempt", evaluation.retry.attempt if evaluation.retry else None
    yield "evalstream.monitor", evaluation.monitor
    yield "evalstream.scope", evaluation.scope
    yield "evalstream.subject.turn_id", evaluation.subject.turn_id
    yield "evalstream.subject.revision", evaluation.subject.revision
    yield "evalstream.outcome", evaluation.outcome
    yield "evalstream.reason", evaluation.reason
    yield "evalstream.passed", evaluation.passed
    yield "evalstream.method", evaluation.method
    yield "evalstream.range", evaluation.range and tuple(map(float, evaluation.range))
    yield "evalstream.raw_score", _number(evaluation.raw_score)
    yield "evalstream.kept_mass", _number(evaluation.kept_mass)
    yield "evalstream.sampling.probability", float(evaluation.sampling.probability)
    yield "evalstream.sampling.stratum", evaluation.sampling.stratum
    yield "evalstream.sampling.unit", evaluation.sampling.unit
    yield "evalstream.cost_usd", _number(evaluation.cost_usd)
    for name, value in evaluation.attributes.items():
        if isinstance(value, (str, bool, int, float)):
            yield f"evalstream.attributes.{name}", value
        elif isinstance(value, (list, tuple)):
            yield f"evalstream.attributes.{name}", tuple(map(str, cast("list[Json]", value)))
    if judge := evaluation.judge:
        yield "evalstream.judge.model", judge.model
        yield "evalstream.judge.fingerprint", judge.fingerprint
        yield "evalstream.judge.prompt_hash", judge.prompt_hash
    if usage := evaluation.usage:
        yield "evalstream.judge.calls", usage.calls
        yield "evalstream.judge.input_tokens", usage.input_tokens
        yield "evalstream.judge.output_tokens", usage.output_tokens
        yield "evalstream.judge.cached_input_tokens", usage.cached_input_tokens
        yield "evalstream.judge.estimated_calls", usage.estimated_calls


def _number(value: float | None) -> float | None:
    """A float also where a record held a whole number: an attribute has one type."""
    return None if value is None else float(value)
