"""`calibrate` over a log: which scores count, and with what weight."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from evaluation_samples import label, scored

from collector.commands.calibrate import CalibrateOptions, calibrate
from collector.config.loading import Config, check
from collector.logs.log import Record
from collector.records.json import evaluation_to_json, label_to_json
from collector.service.open_logs import open_logs
from collector.service.plan_builder import evaluator_version_in
from evaluators.results import Evaluation, Label, Sampling


def config(folder: Path) -> Config:
    return check(
        {
            "log": {"kind": "sqlite", "path": str(folder / "log.db")},
            "judges": {"main": {"model": "m"}},
            "evaluators": {"helpful": {"kind": "g_eval", "criteria": "Right?", "evaluation_params": ["actual_output"]}},
            "monitors": {"all": {"evaluators": ["helpful"]}},
        },
        "test.yaml",
    )


async def fill(of: Config, evaluations: list[Evaluation], labels: list[Label]) -> None:
    async with open_logs(of.settings.log) as logs:
        await logs.evaluations.append([Record(b"k", evaluation_to_json(each), partition=0) for each in evaluations])
        await logs.labels.append([Record(b"k", label_to_json(each)) for each in labels])


def test_means_are_weighted_and_of_the_configured_version_alone(tmp_path: Path) -> None:
    of = config(tmp_path)
    names = {"evaluator": "helpful", "evaluator_version": evaluator_version_in(of, "helpful")}
    often, seldom = Sampling(probability=1.0), Sampling(probability=0.25)
    bad = [scored(n, **names, score=0.0, sampling=often) for n in range(20)]
    good = [scored(n, **names, score=1.0, sampling=seldom) for n in range(20, 40)]
    other = [scored(n, evaluator="helpful", evaluator_version="of-old", score=0.5) for n in range(40, 47)]
    labels = [
        label(**names, label_id=f"{n:032x}", evaluation_id=each.evaluation_id, sampling=each.sampling,
              judge_score=each.score, score=each.score)
        for n, each in enumerate((*bad, *good))
    ]  # fmt: skip
    asyncio.run(fill(of, [*bad, *good, *other], labels))
    for given in (None, tmp_path / "labels.jsonl"):
        if given is not None:
            lines = [{"human": each.score, "evaluation_id": each.evaluation_id} for each in labels]
            given.write_text("\n".join(map(json.dumps, lines)))
        found = json.loads(calibrate(of, CalibrateOptions(labels=given, evaluator="helpful", json=True)))
        assert found["raw_mean"] == 0.8, "20 good ones stand for 80, 20 bad ones for themselves"
        assert abs(found["corrected_mean"]["mean"] - 0.8) < 1e-9
        assert "Not used: 7 scores of other versions of helpful or other judges." in found["notes"]
