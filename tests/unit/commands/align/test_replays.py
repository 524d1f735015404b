"""Replays of a definition: which of its scores are verdicts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from evaluation_samples import scored

from collector.commands.align import replays
from collector.commands.align.reading import LabelledSubject
from collector.commands.align.replays import ReplayBench, replayed
from evaluators.cases import Turn
from evaluators.turn.classifier import Classifier


async def test_a_label_that_decides_nothing_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A label of score 0.5 without `pass` was a pass."""
    labels = {"good": {"meaning": "g", "pass": True}, "half": {"meaning": "h", "score": 0.5}}
    evaluator = Classifier.model_validate({"name": "c", "question": "Good?", "labels": labels})
    cases = [Turn(turn_id=f"t{n}", input="?", actual_output="!") for n in range(2)]
    subjects = [
        LabelledSubject(name=f"{n}", case=case, conversation=f"c{n}", material={}, passes=True)
        for n, case in enumerate(cases)
    ]

    async def run_jobs(jobs: list[Any], **_: object) -> Any:
        made = [scored(0, score=1.0, passed=True), scored(1, score=0.5, passed=None)]
        both = [replace(each, evaluation_id=job.evaluation_id) for each, job in zip(made, jobs, strict=True)]
        return SimpleNamespace(evaluations=both, left=0, spent_usd=0.0)

    monkeypatch.setattr(replays, "run_jobs", run_jobs)
    judge: Any = SimpleNamespace(model="m")
    run: Any = None
    found = await replayed(ReplayBench(run, judge, "main", 0.0, 1), evaluator, subjects, None)
    assert found.passes == {"0": True}
    assert found.no_score == {"no_verdict": 1}
