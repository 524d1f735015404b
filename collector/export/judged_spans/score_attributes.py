"""The attributes with which a judged span says its scores. They are a span's own, so a store can group by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.export.attributes import Value
from evaluators.results import Evaluation

PREFIX = "gen_ai.evaluation"


def score_attributes(evaluation: Evaluation, *, explanation: bool) -> dict[str, Value]:
    """The attributes of one evaluation, each below `gen_ai.evaluation.<evaluator>`."""
    pairs = _parts(evaluation, explanation=explanation)
    return {f"{PREFIX}.{evaluation.evaluator}.{name}": value for name, value in pairs if value is not None}


def _parts(evaluation: Evaluation, *, explanation: bool) -> Iterator[tuple[str, Value | None]]:
    yield "score.value", None if evaluation.score is None else float(evaluation.score)
    yield "score.label", evaluation.label
    yield "passed", evaluation.passed
    yield "explanation", evaluation.explanation if explanation else None
    yield "outcome", evaluation.outcome
    yield "error.type", evaluation.error.type if evaluation.error else None
    yield "id", evaluation.evaluation_id
    yield "evaluator.version", evaluation.evaluator_version
    yield "monitor", evaluation.monitor
    yield "scope", evaluation.scope
    yield "revision", evaluation.subject.revision if evaluation.scope == "conversation" else None
    yield "method", evaluation.method
    yield "judge.model", evaluation.judge.model if evaluation.judge else None
    yield "sampling.probability", float(evaluation.sampling.probability)
    yield "cost_usd", None if evaluation.cost_usd is None else float(evaluation.cost_usd)


def put_attributes(span: Any, attributes: Mapping[str, Value]) -> None:
    """Put attributes on a span; one that has such a name already is replaced. The rest of the span stays as it is."""
    for index in reversed(range(len(span.attributes))):
        if span.attributes[index].key in attributes:
            del span.attributes[index]
    span.attributes.extend(KeyValue(key=name, value=_any(value)) for name, value in attributes.items())


def _any(value: Value) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(string_value=str(value).encode("utf-8", "replace").decode())
