"""A judge class of one's own, named in the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.configured import Config
from collector.config.loading import check
from collector.errors import ConfigError
from collector.judging.open_judges import open_judges
from evaluators.evaluation import evaluate
from evaluators.judge import Answer, Prompt, R, Verdict
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
