"""Judges in front of llama.cpp's server with a real, small model."""

from __future__ import annotations

import math
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from model_server import model_server
from planted_policy import planted_config, planted_labels

from collector.commands.align.align import AlignOptions, align
from collector.config.loading import load
from evaluators.catalogue import make_example
from evaluators.errors import JudgeDenied
from evaluators.evaluation import evaluate
from evaluators.judge import Answer, Prompt, R, Verdict
from evaluators.judges.apis.systemone import SYSTEMONE
from evaluators.judges.decision_judge import DecisionJudge
from evaluators.judges.openai import OpenAIJudge
from evaluators.questions import PredicateQuestion, QuestionGroup
from evaluators.results import Failure, Score
from evaluators.scale import Scale
from evaluators.testing import a_turn
from evaluators.turn.classifier import Classifier
from evaluators.turn.g_eval import GEval
from tests.contract.test_evaluators import JUDGED, case_for

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

FAILURES = frozenset({"judge_reply_invalid", "judge_reply_truncated"})
"""How a model fails that is too small for a question: never by the endpoint, never by a bug."""

MAX_TOKENS = 60
HELPFUL = GEval(name="h", evaluation_steps=("Is it right?",), evaluation_params=("input", "actual_output"))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with model_server() as base_url:
        yield base_url


def plain() -> ssl.SSLContext:
    """Without the machine's certificates, which take long to read."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass
class Recording:
    """A judge that keeps what it was asked and what came back."""

    inner: OpenAIJudge
    answers: list[Answer[Any]] = field(default_factory=list)

    @property
    def model(self) -> str:
        return self.inner.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        self.answers += verdict.answers
        return verdict


def small_judge(base_url: str, **options: Any) -> OpenAIJudge:
    return OpenAIJudge("smollm2", base_url=base_url, api_key="k", timeout=300, ssl_context=plain(), **options)


def mean_of_digits(answer: Answer[Any], scale: Scale) -> float | None:
    """The mean over a scale of one-digit numbers, from the raw alternatives at the digit of the score.

    None where a second digit may follow or has, or where the digit was forced.
    """
    written = str(orjson.loads(answer.text)["score"])
    at = max(n for n, token in enumerate(answer.tokens) if token.text.strip() == written)
    raw = {text: math.exp(logprob) for text, logprob in answer.tokens[at].alternatives}
    digits = {int(text): share for text, share in raw.items() if text in scale.numerals}
    if sum(digits.values()) < 0.5 or raw.get(answer.tokens[at].text, 0.0) < 0.01:
        return None
    return sum(value * share for value, share in digits.items()) / sum(digits.values())


async def score_of(evaluator: Any, judge: Any) -> Score:
    """So small a model now and then fails to copy the key of a question, or does not stop."""
    for number in range(10):
        outcome = (await evaluate(evaluator, a_turn(input=f"Where is bridge {number}?"), judge)).outcome
        if isinstance(outcome, Score):
            return outcome
        assert outcome.type in FAILURES, outcome
    pytest.fail("ten answers without a verdict")


async def test_a_score_is_the_mean_by_the_servers_own_probabilities(server: str) -> None:
    scale = Scale(1, 5)
    rated = HELPFUL.model_copy(update={"scale": (1, 5), "max_tokens": MAX_TOKENS, "reason": "none"})
    async with small_judge(server) as endpoint:
        judge = Recording(endpoint)
        outcome = await score_of(rated, judge)
    expected = mean_of_digits(judge.answers[-1], scale)
    if expected is None:
        assert outcome.method in {"single", "verdict_alone"}
    else:
        assert outcome.value == pytest.approx((expected - 1) / 4)
        assert outcome.details["expected"] == pytest.approx(expected)


async def test_a_reason_that_is_cut_off_still_ends_in_a_score(server: str) -> None:
    """It rambles about every other question."""
    rambling = HELPFUL.model_copy(update={"max_tokens": 48})
    async with small_judge(server) as judge:
        for number in range(20):
            outcome = (await evaluate(rambling, a_turn(input=f"What is {number} plus 1?"), judge)).outcome
            assert isinstance(outcome, Score), outcome
            if outcome.method == "verdict_alone":
                return
    pytest.fail("no reason was cut off")


async def test_a_model_that_makes_no_decisions_says_so(server: str) -> None:
    group = QuestionGroup("Judge it.", (PredicateQuestion(("score",), "It is right."),))
    judge = DecisionJudge("smollm2", api=SYSTEMONE, base_url=server, api_key="k", ssl_context=plain())
    async with judge:
        with pytest.raises(JudgeDenied) as failure:
            await judge.ask(Prompt("", {"actual_output": "Paris."}, groups=(group,)), Scale(0, 1).reply)
    assert failure.value.remedy == "model or address"


async def test_a_label_is_one_of_the_labels(server: str) -> None:
    labels = {"town": "It names a town.", "person": "It names a person."}
    kind = Classifier(name="c", question="What is named?", labels=labels, reason="none", max_tokens=MAX_TOKENS)
    async with small_judge(server) as judge:
        assert (await score_of(kind, judge)).label in labels


@pytest.mark.long
@pytest.mark.parametrize("cls", [each for each in JUDGED if each.kind != "similarity"], ids=lambda cls: cls.kind)
async def test_every_evaluator_ends_in_a_score_or_in_a_failure_with_its_name(server: str, cls: Any) -> None:
    async with small_judge(server, max_tokens=MAX_TOKENS) as endpoint:
        outcome = (await evaluate(make_example(cls), case_for(cls), Recording(endpoint))).outcome
    assert isinstance(outcome, Score | Failure)
    if isinstance(outcome, Failure):
        assert outcome.type in FAILURES, outcome
    else:
        assert 0.0 <= outcome.value <= 1.0


@pytest.mark.nightly
def test_a_proposer_of_this_size_ends_in_a_gain_or_in_one_sentence(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real model that is too small to find the clause; a planted judge judges, so that only the proposal takes long."""
    path = planted_config(tmp_path)
    settings = yaml.safe_load(path.read_text())
    patient = {"timeout": 200, "deadline": 200}
    settings["judges"]["small"] = {"model": "smollm2", "base_url": server, "api_key": "k", **patient}
    path.write_text(yaml.safe_dump(settings))
    labels = planted_labels(tmp_path / "labels.jsonl")
    status = align(load(path), AlignOptions(evaluator="helpful", labels=labels, proposer="small"))
    talk = capsys.readouterr()
    assert status in {0, 1}
    assert "Traceback" not in talk.err
    assert (tmp_path / "helpful_aligned.yaml").exists() is (status == 0)
    assert talk.err.count("evalstream: no better helpful: ") == status
