"""A cascade out of the configuration: whom the service asks, what it records, and what `check` says of it."""

from __future__ import annotations

import pytest
from stand_in_judge import StandInJudge, serve_judge
from test_judge_faults import helpful, ledger, put

from collector.commands.check.check import report
from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError
from collector.service.app import running


def configured(one: str, two: str, /, **cascade: object) -> Config:
    values = {
        "log": {"kind": "memory"},
        "judges": {name: {"model": name, "base_url": url, "deadline": "1s"} for name, url in (("a", one), ("b", two))},
        "cascades": {"careful": {"first": "a", "then": "b"} | cascade},
        "evaluators": {
            "helpful": {
                "kind": "g_eval", "evaluation_steps": ["Say whether it answers."],
                "evaluation_params": ["input", "actual_output"], "judge": "careful",
            },
            "exact": {"kind": "exact_match"},
        },
        "monitors": {"all": {"evaluators": ["helpful", "exact"]}},
        "receive": {"otlp_http": {"port": 0}},
        "export": {"prometheus": {"port": 0}},
    }  # fmt: skip
    return check(values, "test")


@pytest.mark.parametrize(
    ("doubt", "share", "reason", "calls"), [(1.0, 0.0, "sure", 0), (1.0, 1.0, "share", 1), (0.0, 0.0, "doubt", 1)]
)
async def test_the_second_judge_is_asked_where_it_is_needed(
    doubt: float, share: float, reason: str, calls: int
) -> None:
    first, second = StandInJudge(), StandInJudge()
    async with (
        serve_judge(first) as one,
        serve_judge(second) as two,
        running(configured(one, two, doubt=doubt, share=share)) as service,
    ):
        await put(service, 1)
        [made] = helpful(await ledger(service, 2))
    assert made.outcome == "scored"
    assert made.escalation is not None
    assert (made.escalation.reason, first.calls, second.calls) == (reason, 1, calls)
    assert made.judge is not None
    assert made.judge.model == f"b where a doubts ({doubt:g}, {share:g})"
    assert made.usage is not None
    assert made.usage.calls == 1 + calls


def test_check_names_the_cascade_and_its_mean() -> None:
    lines = "\n".join(report(configured("http://127.0.0.1:1", "http://127.0.0.1:2")))
    assert "cascade    careful: a, then b where its doubt is above 0.5 and on 5 % of the rest, which" in lines
    lines = "\n".join(report(configured("http://127.0.0.1:1", "http://127.0.0.1:2", share=0)))
    assert "the errors of its mean stay unknown" in lines


@pytest.mark.parametrize(
    ("cascade", "sentence"),
    [
        ({"then": "nobody"}, "cascades.careful.then: unknown judge 'nobody'"),
        ({"then": "a"}, "cascades.careful.then: is the same as first"),
        ({"first": "careful"}, "cascades.careful.first: careful is a cascade itself"),
        ({"share": 2}, "cascades.careful.share:"),
    ],
)
def test_mistakes_of_a_cascade(cascade: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configured("http://127.0.0.1:1", "http://127.0.0.1:2", **cascade)
    assert sentence in str(raised.value)
