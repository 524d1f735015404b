"""Packs in the configuration: which evaluators ask together, what is refused, and what `check` says."""

from typing import Any

import pytest

from collector.commands.check.check import report
from collector.config.configured import Config
from collector.config.loading import check
from collector.config.packs import MOST_OF_A_PACK, packs_of
from collector.errors import ConfigError
from collector.service.plan_builder import build_plan, build_unasked_plan, evaluator_version_in
from evaluators.identity import judged_version
from evaluators.judge import NoJudge


def g_eval(**changes: Any) -> dict[str, Any]:
    return {"kind": "g_eval", "criteria": "Good?", "evaluation_params": ["input"], "judge": "mini", **changes}


def configured(monitor: dict[str, Any], **evaluators: Any) -> Config:
    usual = {
        "helpful": g_eval(),
        "polite": g_eval(),
        "grounded": {"kind": "faithfulness", "judge": "mini"},
        "strong": g_eval(judge="big"),
        "exact": {"kind": "exact_match"},
        "whole": {"kind": "completeness", "judge": "mini"},
    }
    values = {
        "judges": {"mini": {"model": "m"}, "big": {"model": "b"}},
        "evaluators": {**usual, **evaluators},
        "monitors": {"all": {"evaluators": [*usual, *evaluators], **monitor}},
    }
    return check(values, "my.yaml")


def packs(config: Config) -> list[tuple[str, ...]]:
    return [tuple(each) for each in packs_of(config.settings.monitors["all"], config.evaluators)]


def test_named_packs_and_everybody_elses() -> None:
    assert packs(configured({})) == []
    assert packs(configured({"packs": [["polite", "helpful"]]})) == [("polite", "helpful")]
    assert packs(configured({"pack": "auto"})) == [("helpful", "polite", "grounded")]
    assert packs(configured({"pack": "auto", "packs": [["polite", "grounded"]]}, other=g_eval())) == [
        ("polite", "grounded"),
        ("helpful", "other"),
    ]


def test_a_sample_of_its_own_is_a_pack_of_its_own() -> None:
    uses = ["helpful", "polite", {"name": "grounded", "sample": 0.1}]
    config = configured({"pack": "auto", "evaluators": uses})
    assert packs(config) == [("helpful", "polite")]


def test_many_are_divided_evenly() -> None:
    many = {f"e{number}": g_eval() for number in range(2 * MOST_OF_A_PACK)}
    lengths = [len(each) for each in packs(configured({"pack": "auto"}, **many))]
    assert lengths == [9, 9, 9]


@pytest.mark.parametrize(
    ("monitor", "sentence"),
    [
        ({"packs": [["helpful", "politee"]]}, "'politee' is not an evaluator of this monitor; did you mean 'polite'?"),
        ({"packs": [["helpful", "polite"], ["polite", "grounded"]]}, "polite is there twice; keep one of them"),
        ({"packs": [["helpful", "exact"]]}, "exact uses no judge, so it has no question; remove it"),
        ({"packs": [["helpful", "whole"]]}, "helpful, whole score turns and conversations; make one pack for either"),
        ({"packs": [["helpful", "strong"]]}, "helpful, strong ask several judges; make a pack for each judge"),
    ],
)
def test_what_cannot_be_a_pack(monitor: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configured(monitor)
    assert str(raised.value) == f"my.yaml: monitors.all.packs: {sentence}"


def test_a_judge_of_ones_own_has_to_say_that_it_takes_packs() -> None:
    judges = {"mini": {"kind": "evaluators.judge:NoJudge", "model": "m"}, "big": {"model": "b"}}
    values = {
        "judges": judges,
        "evaluators": {"helpful": g_eval(), "polite": g_eval()},
        "monitors": {"all": {"evaluators": ["helpful", "polite"], "packs": [["helpful", "polite"]]}},
    }
    with pytest.raises(ConfigError, match="judge mini takes no packs; if it can, set `takes_packs = True`"):
        check(values, "my.yaml")


def test_the_version_says_so() -> None:
    alone, packed = configured({}), configured({"packs": [["helpful", "polite"]]})
    assert evaluator_version_in(alone, "helpful") == judged_version(alone.evaluators["helpful"].evaluator, "m")
    assert evaluator_version_in(packed, "helpful") != evaluator_version_in(alone, "helpful")
    assert evaluator_version_in(packed, "grounded") == evaluator_version_in(alone, "grounded")
    plan = build_plan(packed, {"mini": Named("m"), "big": Named("b")})
    by_name = {each.evaluator.name: each for each in plan.monitors[0].assignments}
    assert by_name["helpful"].pack == ("helpful", "polite")
    assert by_name["helpful"].version == evaluator_version_in(packed, "helpful", "all")
    unasked = {each.evaluator.name: each.version for each in build_unasked_plan(packed).monitors[0].assignments}
    assert unasked == {name: each.version for name, each in by_name.items()}


class Named(NoJudge):
    def __init__(self, model: str) -> None:
        self.model = model


def test_check_says_how_many_requests_a_pack_takes() -> None:
    lines = list(report(configured({"packs": [["helpful", "polite", "grounded"]]})))
    assert "           pack: helpful, polite and grounded ask together: 2 requests per turn instead of 4" in lines
    assert "≈ 3,000 judge calls per 1,000 matching turns" in "\n".join(lines)
    assert "≈ 5,000 judge calls per 1,000 matching turns" in "\n".join(report(configured({})))
