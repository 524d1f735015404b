"""The version by which means are kept: another judge's model is another version, and a fallback's, too."""

from __future__ import annotations

from typing import Any

from configurations import checked
from evaluation_samples import scored

from collector.config.configured import Config
from collector.evaluate.plan import Assignment
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.judging.open_judges import open_judges
from collector.logs.memory import MemoryLog
from collector.service.plan_builder import build_plan, evaluator_version_in


def configured(judge: dict[str, Any], by: str = "main", **more: Any) -> Config:
    return checked(
        {
            "helpful": {
                "kind": "g_eval",
                "criteria": "Does it help?",
                "evaluation_params": ["actual_output"],
                "judge": by,
            },
            "exact": {"kind": "exact_match"},
        },
        judges={"main": judge, "small": {"model": "small-1"}},
        **more,
    )


async def planned(config: Config) -> dict[str, Assignment]:
    definitions = await GeneratedStepsStore.open(MemoryLog("definitions", partitions=1))
    async with open_judges(config, definitions) as judges:
        (monitor,) = build_plan(config, judges).monitors
        return {each.evaluator.name: each for each in monitor.assignments}


async def test_another_model_is_another_version_and_without_a_judge_it_is_the_evaluators() -> None:
    one, other = await planned(configured({"model": "big-1"})), await planned(configured({"model": "big-2"}))
    assert one["helpful"].version != other["helpful"].version
    assert one["exact"].version == other["exact"].version == one["exact"].evaluator.version
    assert len(one["helpful"].version) == len(scored().evaluator_version)


async def test_what_a_fallback_judges_is_of_its_own_version() -> None:
    found = (await planned(configured({"model": "big-1", "fallback": "small"})))["helpful"]
    small = (await planned(configured({"model": "big-1"}, by="small")))["helpful"]
    assert found.version_by(fallback=True) == small.version != found.version_by(fallback=False) == found.version


async def test_the_configuration_alone_tells_the_same_versions() -> None:
    jury = {"juries": {"both": {"judges": ["main", "small"], "combine": "mean"}}}
    for config in (configured({"model": "big-1"}), configured({"model": "big-1"}, by="both", **jury)):
        assignments = await planned(config)
        assert {name: evaluator_version_in(config, name) for name in assignments} == {
            name: each.version for name, each in assignments.items()
        }
