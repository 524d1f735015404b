"""Labels as people and feedback give them, with the judge's result beside them."""

from datetime import datetime
from typing import Any

from collector.records.audits import noted_audit, read_by_auditor
from evaluators.results import Evaluation, Label, Usage


def label_of(judged: Evaluation, label_id: str, at: datetime, paid: Evaluation | None = None, **fields: Any) -> Label:
    """A label of an evaluation; `fields` are those that its giver decides on. `paid` is the evaluation whose verdict it
    shares, if it shares one: that one knows how much the judge read.
    """
    return Label(
        label_id=label_id, evaluation_id=judged.evaluation_id, evaluator=judged.evaluator,
        evaluator_version=judged.evaluator_version, scope=judged.scope, monitor=judged.monitor,
        subject=judged.subject, judge_score=judged.score, judge_passed=judged.passed,
        judge=judged.judge, sampling=judged.sampling, judge_tokens=tokens_read(paid or judged),
        audit=noted_audit(judged), happened_at=judged.happened_at, attributes=judged.attributes,
        given_at=at, **fields,
    )  # fmt: skip


def tokens_read(evaluation: Evaluation) -> float | None:
    """How many tokens the judge read in a call, without its auditor's; None where that is not known."""
    tokens, calls = read_by_auditor(evaluation)
    usage = evaluation.usage or Usage()
    return (usage.input_tokens - tokens) / (usage.calls - calls) if usage.calls - calls > 0 else None
