"""The record of a job and its result, for the ledger."""

from dataclasses import replace
from typing import Any

from collector.evaluate.plan import Job
from collector.records.attributes import attributes_of
from evaluators.cases import Conversation, Turn
from evaluators.evaluation import Result, make_record
from evaluators.results import Evaluation

FALLBACK_ATTRIBUTE = "fallback_judge"
"""The attribute that names the judge where it was a budget's fallback."""


def evaluation_of(job: Job, case: Turn | Conversation, result: Result) -> Evaluation:
    """The record of a job that is done."""
    return make_record(
        job.assignment.evaluator,
        case,
        result,
        evaluation_id=job.evaluation_id,
        evaluator_version=job.assignment.version_by(fallback=job.fallback),
        monitor=job.monitor.name,
        sampling=job.sampling,
        supersedes=job.supersedes,
        retry=job.retry,
        happened_at=job.happened_at,
        attributes=_attributes(job, case),
    )


def repeated(job: Job, case: Turn | Conversation, verdict: Evaluation) -> Evaluation:
    """The record of a job whose verdict another monitor has paid for."""
    return replace(
        verdict,
        evaluation_id=job.evaluation_id,
        monitor=job.monitor.name,
        sampling=job.sampling.with_own_draw(verdict.sampling.own),
        supersedes=job.supersedes,
        retry=job.retry,
        happened_at=job.happened_at,
        attributes=_attributes(job, case),
        usage=None,
        cost_usd=0.0,
        shares=verdict.shares or verdict.evaluation_id,
    )


def _attributes(job: Job, case: Turn | Conversation) -> dict[str, Any]:
    fallback = {FALLBACK_ATTRIBUTE: job.judge.model} if job.fallback else {}
    return {**attributes_of(case, job.monitor.attributes), **job.attributes, **fallback}
