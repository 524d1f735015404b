"""The layers around a judge: their order is that of the list."""

from __future__ import annotations

from typing import Any

from collector.config.configured import Config
from collector.config.loading import check
from collector.config.settings import JudgeSettings
from collector.judging.layers import without_answer_cache
from collector.judging.open_judges import EndpointBreakers, open_judges
from collector.judging.outage_reporter import ReportPolicy, limits_by_endpoint
from collector.telemetry.registry import Telemetry
from evaluators.judges.jury import Jury
from evaluators.judges.openai import OpenAIJudge
from evaluators.judges.wrapper import JudgeWrapper

WRAPPERS = [
    "AnswerCache", "DefinitionCache", "QueueWhileOpen", "Retrying", "RateLimited", "CircuitBreakerJudge",
    "ConfirmedJudge", "OutageReporter", "InstrumentedJudge",
]  # fmt: skip


class NoStore:
    async def load(self, key: str) -> str | None:
        raise AssertionError(key)

    async def save(self, key: str, text: str) -> str:
        raise AssertionError(key, text)


async def owned() -> None:
    """It is certain who owns the log: several processes might."""


def configured(judges: dict[str, Any], by: str = "main", **more: Any) -> Config:
    evaluators = {"polite": {"kind": "toxicity", "judge": by}}
    return check(
        {"judges": judges, "evaluators": evaluators, "monitors": {"all": {"evaluators": ["polite"]}}, **more}, "here"
    )


def chain(judge: Any) -> list[str]:
    names: list[str] = []
    while isinstance(judge, JudgeWrapper):
        names.append(type(judge).__name__)
        judge = judge.inner
    assert isinstance(judge, OpenAIJudge)
    return names


async def test_the_wrappers_are_in_the_order_of_the_list() -> None:
    config = configured({"main": {"model": "m", "cache_size": 5}, "spare": {"model": "n"}})
    async with open_judges(config, NoStore(), Telemetry(), confirm=owned) as judges:
        assert list(judges) == ["main"], "nobody asks the other"
        assert chain(judges["main"]) == WRAPPERS
        assert chain(without_answer_cache(judges["main"])) == WRAPPERS[1:]
        assert judges["main"].model == "m"


async def test_a_jury_without_answer_caches_has_the_same_rules_and_its_judges_without_them() -> None:
    """Else a cached answer would hide from the golden set that a judge of the jury has shifted."""
    judges = {"main": {"model": "m", "cache_size": 5}, "other": {"model": "n", "cache_size": 5}}
    jury = {"both": {"judges": ["main", "other"], "combine": "mean", "quorum": 1}}
    config = configured(judges, by="both", juries=jury)
    async with open_judges(config, NoStore(), Telemetry(), confirm=owned) as opened:
        fresh = without_answer_cache(opened["both"])
        assert isinstance(fresh, Jury)
        assert [chain(each) for each in fresh.judges] == [WRAPPERS[1:]] * 2
        assert (fresh.model, fresh.combine, fresh.quorum) == ("mean(m, n)", "mean", 1)


def test_judges_of_one_endpoint_share_the_strictest_of_their_limits() -> None:
    one = JudgeSettings(model="m", concurrency=8, requests_per_minute=60)
    two = JudgeSettings(model="m", concurrency=2, tokens_per_minute=9000)
    elsewhere = JudgeSettings(model="n")
    limits = limits_by_endpoint([one, two, elsewhere])
    assert [each.text for each in limits.values()] == ["2 at once, 60 requests/min, 9,000 tokens/min", "32 at once"]


def test_judges_that_share_a_breaker_are_all_named_when_it_opens() -> None:
    """Only the first counted. Keys in different files are different keys: one that was refused held up the other."""
    telemetry, said = Telemetry(), list[str]()
    breakers = EndpointBreakers(telemetry, ReportPolicy(said.append, repeat_after=60.0, awaited=False))
    shared = JudgeSettings(model="m", api_key_file="a.key")
    first, second = (breakers.breaker(name, shared) for name in ("first", "second"))
    other = breakers.breaker("other", JudgeSettings(model="m", api_key_file="b.key"))
    another = breakers.breaker("another", JudgeSettings(model="m", header_files={"authorization": "b.header"}))
    assert first is second
    for _ in range(shared.breaker.failures):
        first.record_failure(probe=False)
    assert [each.state for each in (second, other, another)] == ["open", "closed", "closed"]
    counts = [
        telemetry.registry.get_sample_value("evalstream_judge_breaker_opened_total", {"judge": name})
        for name in ("first", "second", "other")
    ]
    assert counts == [1, 1, 0]
    assert said == ["the circuit breaker of judge first, second is open: requests wait until a test request succeeds"]
