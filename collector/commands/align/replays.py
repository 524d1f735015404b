"""Replays of a definition over labelled subjects: its verdicts, within what is left of the spending limit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.commands.align.reading import LabelledSubject
from collector.commands.score.runner import Run, run_jobs
from collector.evaluate.job_builder import command_job
from collector.evaluate.plan import Assignment, Job, Monitor
from collector.statistics.agreement import ScoreScale
from evaluators.evaluator import Evaluator
from evaluators.identity import judged_version, subject_id_of
from evaluators.judge import Judge


@dataclass(frozen=True, slots=True)
class ReplayBench:
    """The judge and its settings: `expected_usd` is the probable cost of an evaluation."""

    run: Run
    judge: Judge
    judge_name: str
    expected_usd: float
    concurrency: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """Verdicts and reasons by the label's name; why there is no score elsewhere; how many the limit left out."""

    passes: Mapping[str, bool]
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    no_score: Mapping[str, int] = field(default_factory=dict[str, int])
    left: int = 0
    spent_usd: float = 0.0


async def replayed(
    bench: ReplayBench, evaluator: Evaluator[Any], subjects: Sequence[LabelledSubject], max_usd: float | None
) -> Replayed:
    """A definition's verdicts on the subjects."""
    jobs = {job.evaluation_id: (subject, job) for subject in subjects for job in (_job(bench, evaluator, subject),)}
    made = await run_jobs(
        [job for _, job in jobs.values()], output=None, concurrency=bench.concurrency, run=bench.run, max_usd=max_usd
    )
    scale = ScoreScale.of(evaluator)
    scored = {
        jobs[evaluation.evaluation_id][0].name: evaluation
        for evaluation in made.evaluations
        if evaluation.score is not None and scale.decides(evaluation.passed)
    }
    return Replayed(
        passes={name: scale.passes(evaluation) for name, evaluation in scored.items()},
        reasons={name: evaluation.explanation for name, evaluation in scored.items() if evaluation.explanation},
        no_score=Counter(
            evaluation.reason_code or ("skipped" if evaluation.score is None else "no_verdict")
            for evaluation in made.evaluations
            if evaluation.score is None or not scale.decides(evaluation.passed)
        ),
        left=made.left,
        spent_usd=made.spent_usd,
    )


def _job(bench: ReplayBench, evaluator: Evaluator[Any], labelled: LabelledSubject) -> Job:
    version = judged_version(evaluator, bench.judge.model)
    assignment = Assignment(
        evaluator=evaluator, judge=bench.judge, version=version, expected_usd=bench.expected_usd,
        judge_name=bench.judge_name,
    )  # fmt: skip
    subject, revision = subject_id_of(labelled.case)
    name = assignment.evaluation_id(subject, f"{revision}\x1f{labelled.name}")
    return command_job(Monitor(name="align", assignments=(), match={}), assignment, labelled.case, evaluation_id=name)
