"""A jury out of the configuration: several judges on one evaluator, their disagreement recorded."""

from __future__ import annotations

import pytest
from faulty_judge import Faults, FaultyJudge
from stand_in_judge import serve_judge
from test_judge_faults import helpful, ledger, put

from collector.config.loading import check
from collector.errors import ConfigError
from collector.service.app import running


def values(first: str, second: str, **jury: object) -> dict[str, object]:
    return {
        "log": {"kind": "memory"},
        "judges": {name: {"model": name, "base_url": url, "deadline": "1s"} for name, url in (("a", first), ("b", second), ("c", first))},
        "juries": {"three": {"judges": ["a", "b", "c"]} | jury},
        "evaluators": {
            "helpful": {
                "kind": "g_eval", "evaluation_steps": ["Say whether it answers."],
                "evaluation_params": ["input", "actual_output"], "judge": "three",
            },
            "exact": {"kind": "exact_match"},
        },
        "monitors": {"all": {"evaluators": ["helpful", "exact"]}},
        "receive": {"otlp_http": {"port": 0}},
        "export": {"prometheus": {"port": 0}},
    }  # fmt: skip


async def test_the_median_of_three_is_one_evaluation_that_names_them() -> None:
    judge = FaultyJudge()
    async with serve_judge(judge) as url, running(check(values(url, url), "test")) as service:
        await put(service, 1)
        [found] = helpful(await ledger(service, 2))
    assert found.outcome == "scored"
    assert found.judge is not None
    assert "median(" in found.judge.model or found.judge.model.count("stand-in") >= 1
    assert judge.calls == 3
    assert found.usage is not None
    assert found.usage.calls == 3


async def test_two_of_three_are_enough_and_one_is_not() -> None:
    broken = FaultyJudge(Faults(prose_share=1.0))
    async with serve_judge() as good, serve_judge(broken) as bad:
        async with running(check(values(good, bad), "test")) as service:
            await put(service, 1)
            assert [each.outcome for each in helpful(await ledger(service, 2))] == ["scored"]
        async with running(check(values(bad, good), "test")) as service:
            await put(service, 1)
            assert [each.outcome for each in helpful(await ledger(service, 2))] == ["failed"]


def test_mistakes_of_a_jury() -> None:
    with pytest.raises(ConfigError) as raised:
        check(values("http://x", "http://y", judges=["a", "nobody"], quorum=3), "test")
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("test: juries.three.judges: unknown judge 'nobody'")
    assert lines[1] == "test: juries.three.quorum: must be at most 2, the number of its judges"
