"""From what a person says on the page to a label in the log of labels."""

from __future__ import annotations

import uuid
from datetime import datetime

from collector.logs.log import Log, Record
from collector.page.asked import LabelRequest
from collector.page.view import Listed
from collector.records import label_to_json
from evaluators.outcome import Label


def label_of(listed: Listed, said: LabelRequest, now: datetime) -> Label:
    """The label, with the judge's own words beside it."""
    judged = listed.evaluation
    return Label(
        label_id=uuid.uuid4().hex,
        evaluation_id=judged.evaluation_id,
        evaluator=judged.evaluator,
        evaluator_version=judged.evaluator_version,
        scope=judged.scope,
        monitor=judged.monitor,
        subject=judged.subject,
        opinion=said.opinion,
        score=said.score,
        note=said.note or None,
        judge_score=judged.score,
        judge_passed=judged.passed,
        judge=judged.judge,
        sampling=judged.sampling,
        given_by=said.by or None,
        given_at=now,
    )


async def append_label(labels: Log, label: Label) -> None:
    """Write a label down; those of one evaluation stand in one partition. Raises LogUnavailable."""
    await labels.append([Record(label.evaluation_id.encode(), label_to_json(label))])
