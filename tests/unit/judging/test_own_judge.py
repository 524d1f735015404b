"""A judge class of one's own, named in the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError
from collector.judging.open_judges import open_judges
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from evaluators.errors import JudgeDenied
from evaluators.evaluation import evaluate
from evaluators.judge import Answer, Judge, Prompt, R, Verdict
from evaluators.results import Score, Usage
from evaluators.testing import a_turn


class Parrot:
    """Gives every case the same score, and says when it was closed."""

    closed = 0

    def __init__(self, model: str, *, score: int) -> None:
        if score < 0:
            raise ValueError("score: is below 0")
        self.model = model
        self._score = score

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        parsed = reply.model_validate({"reason": "so", "score": self._score})
        answers = [Answer(parsed, parsed.model_dump_json())] * samples
        return Verdict(answers, self.model, usage=Usage(calls=1), cost_usd=0.5)

    async def aclose(self) -> None:
        type(self).closed += 1


class Nameless(Parrot):
    def __init__(self, model: str) -> None:
        """Without a model."""


class Store:
    async def load(self, key: str) -> str | None:
        return None

    async def save(self, key: str, text: str) -> str:
        return text


def configured(**judge: Any) -> Config:
    rated = {"kind": "g_eval", "evaluation_steps": ["Look."], "evaluation_params": ["input"]}
    values = {"judges": {"mine": judge}, "evaluators": {"rated": rated}, "monitors": {"all": {"evaluators": ["rated"]}}}
    return check(values, "here")


async def test_it_is_asked_and_closed() -> None:
    config = configured(kind=f"{__name__}:Parrot", model="polly", options={"score": 7})
    async with open_judges(config, Store()) as judges:
        result = await evaluate(config.evaluators["rated"].evaluator, a_turn(), judges["mine"])
    assert isinstance(result.outcome, Score), result.outcome
    assert (result.outcome.value, result.cost_usd) == (0.7, 0.5)
    assert result.judge is not None
    assert (result.judge.model, Parrot.closed) == ("polly", 1)


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        ({"kind": "nowhere.at_all:Judge"}, r"judges\.mine\.kind: 'nowhere\.at_all:Judge' cannot be imported"),
        ({"kind": "collections:OrderedDict"}, r"judges\.mine\.kind: 'collections:OrderedDict' is not a judge"),
        ({"kind": "anthropic"}, r"judges\.mine\.kind"),
        ({"options": {"score": 1}}, r"judges\.mine.*options: are for a judge of your own"),
    ],
)
def test_what_is_no_judge(judge: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        configured(model="m", **judge)


@pytest.mark.parametrize(
    ("cls", "options", "sentence"),
    [
        ("Parrot", {}, r"judges\.mine\.options: .*Parrot does not take them: .*score"),
        ("Parrot", {"score": -1}, r"judges\.mine\.options: .* score: is below 0"),
        ("Nameless", {}, r"judges\.mine\.kind: .*Nameless has no `model`"),
    ],
)
async def test_what_it_is_made_with(cls: str, options: dict[str, Any], sentence: str) -> None:
    config = configured(kind=f"{__name__}:{cls}", model="polly", options=options)
    with pytest.raises(ConfigError, match=sentence):
        async with open_judges(config, Store()):
            pass


class Moody(Parrot):
    """Refuses the key while `score` is 0."""

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        if not self._score:
            raise JudgeDenied("the judge answered HTTP 401", remedy="key")
        return await super().ask(prompt, reply, logprobs=logprobs, samples=samples)


async def test_a_judge_that_a_changed_configuration_repairs_is_said_to_answer_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log had only "configuration 3 is taken", and nobody knew whether the new key works."""
    telemetry, health = Telemetry(), Health()

    def judging(score: int) -> tuple[Config, AbstractAsyncContextManager[Mapping[str, Judge]]]:
        config = configured(kind=f"{__name__}:Moody", model="polly", options={"score": score})
        return config, open_judges(config, Store(), telemetry, health)

    with caplog.at_level("INFO"):
        config, wrong = judging(0)
        evaluator = config.evaluators["rated"].evaluator
        async with wrong as refused:
            asked = asyncio.create_task(evaluate(evaluator, a_turn(), refused["mine"]))
            while "mine" not in health.unavailable_judges:
                await asyncio.sleep(0)
            async with judging(7)[1] as judges:
                assert not health.unavailable_judges
                for _ in range(2):
                    await evaluate(evaluator, a_turn(), judges["mine"])
            asked.cancel()
    assert [line for line in caplog.messages if "again" in line] == ["judge mine is available again"]
