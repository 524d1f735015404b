"""Which conversations are wanted follows the configuration; what the one before could want stays wanted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from collector.commands.check.check import report
from collector.config.configured import Config
from collector.config.loading import check
from collector.evaluate.sampling.draw import draw
from collector.service.assembly_builder import WantedConversations
from collector.service.plan_builder import build_unasked_plan
from collector.service.process import Process

KEYS = sorted((f"sess-{number}" for number in range(2000)), key=lambda key: draw("evalstream", key))


def configured(sample: float, **monitor: Any) -> Config:
    values = {
        "log": {"kind": "memory"},
        "judges": {"main": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}},
        "evaluators": {"good": {"kind": "g_eval", "criteria": "Good?", "evaluation_params": ["input"]}},
        "monitors": {"all": {"evaluators": ["good"], "sample": sample, **monitor}},
    }
    return check(values, "test.yaml")


async def test_the_configuration_before_counts_too_and_no_older_one() -> None:
    wanted = WantedConversations(build_unasked_plan(configured(0.1)))

    async def take(sample: float) -> None:
        config = configured(sample)
        await wanted.take_over(cast("Process", SimpleNamespace(config=config, plan=build_unasked_plan(config))))

    def share() -> float:
        assert wanted.selects()
        found = [wanted.is_wanted(key) for key in KEYS]
        assert found == sorted(found, reverse=True), "the lowest draws"
        return round(sum(found) / len(found), 1)

    assert share() == 0.1
    await take(0.3)
    assert share() == 0.3, "at once"
    await take(0.1)
    assert share() == 0.3, "as what is on its way may still be judged at that rate"
    await take(0.1)
    assert share() == 0.1
    await take(1.0)
    assert not wanted.selects(), "so that no trace is looked at for it"
    await take(0.1)
    assert not wanted.selects()
    await take(0.1)
    assert share() == 0.1


def test_check_says_what_it_does() -> None:
    [line] = [line for line in report(configured(0.01)) if "keep" in line]
    assert "stored without content" in line
    [line] = [line for line in report(configured(0.01, match={"service": "shop"})) if "keep" in line]
    assert line.strip() == (
        "every turn is assembled in full (assemble.keep), because monitor all reads a field of each turn (match)"
    )
