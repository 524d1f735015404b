"""Labels as people and feedback give them, with the judge's result beside them."""

from datetime import datetime
from typing import Any

from collector.records.audits import noted_audit
from evaluators.results import Evaluation, Label


def label_of(evaluation: Evaluation, label_id: str, given_at: datetime, **fields: Any) -> Label:
    """A label of an evaluation; `fields` are those that its giver decides on."""
    return Label(
        label_id=label_id, evaluation_id=evaluation.evaluation_id, evaluator=evaluation.evaluator,
        evaluator_version=evaluation.evaluator_version, scope=evaluation.scope, monitor=evaluation.monitor,
        subject=evaluation.subject, judge_score=evaluation.score, judge_passed=evaluation.passed,
        judge=evaluation.judge, sampling=evaluation.sampling, judge_tokens=tokens_read(evaluation),
        audit=noted_audit(evaluation), happened_at=evaluation.happened_at, attributes=evaluation.attributes,
        given_at=given_at, **fields,
    )  # fmt: skip


def tokens_read(evaluation: Evaluation) -> float | None:
    """How many tokens the judge read in a call; an audit is a further call; None where that is not known."""
    usage = evaluation.usage
    return usage.input_tokens / usage.calls if usage is not None and usage.calls else None
