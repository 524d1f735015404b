"""The bill where an endpoint reports no tokens, or what cannot be."""

from dataclasses import replace

import pytest

from evaluators.catalogue import load_evaluators
from evaluators.errors import JudgeDenied, JudgeRejected, JudgeUnavailable
from evaluators.evaluation import evaluate
from evaluators.judges.audited import Audited
from evaluators.judges.cascade import Cascade
from evaluators.judges.completions import completion_of, estimated_tokens, usage_of, with_estimates
from evaluators.judges.endpoint import CostTracker, Notices, Prices
from evaluators.judges.jury import Jury
from evaluators.results import Usage
from evaluators.testing import ScriptedJudge, a_moment, a_turn

PRICES = Prices(100.0, 100.0)


@pytest.mark.parametrize(
    ("reported", "tokens"),
    [
        ({"prompt_tokens": 400, "completion_tokens": 20}, (400, 20)),
        ({"prompt_tokens": 400.0, "completion_tokens": "20"}, (400, 20)),
        ({"prompt_tokens": "400", "completion_tokens": "20.0"}, (400, 20)),
        ({"input_tokens": 400, "output_tokens": 20}, (400, 20)),
        (None, (0, 0)),
        ("none", (0, 0)),
        ([], (0, 0)),
        ({"prompt_tokens": None}, (0, 0)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": True}, (0, 0)),
        ({"prompt_tokens": 10**30, "completion_tokens": 10**400}, (0, 0)),
        ({"prompt_tokens": "1e309", "completion_tokens": "nan"}, (0, 0)),
        # reasoning beside the answer's tokens, in the total alone, without a total, and within
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}, (32, 103)),
        ({"prompt_tokens": 32, "completion_tokens_details": {"reasoning_tokens": 94}, "completion_tokens": 9}, (32, 103)),
        ({"prompt_tokens": 32, "completion_tokens": 103, "completion_tokens_details": {"reasoning_tokens": 94}}, (32, 103)),
        ({"prompt_tokens": 32, "total_tokens": 135}, (32, 103)),
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 10**30}, (32, 9)),
        # Anthropic: input beside the cache's
        ({"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 7}, (92, 2)),
    ],
)  # fmt: skip
def test_tokens_by_whatever_names_and_types(reported, tokens):
    usage = usage_of(reported)
    assert (usage.input_tokens, usage.output_tokens, usage.calls) == (*tokens, 1)


def test_cached_tokens_by_whatever_names():
    for reported in (
        {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": "8"}},
        {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 8.0}},
        {"prompt_tokens": 10, "prompt_cache_hit_tokens": 8},
    ):
        assert usage_of(reported).cached_input_tokens == 8


def test_what_is_missing_is_estimated_and_marked():
    assert with_estimates(Usage(calls=1), 100, 5) == Usage(
        input_tokens=100, output_tokens=5, calls=1, estimated_calls=1
    )
    assert with_estimates(Usage(input_tokens=90, calls=1), 100, 5).input_tokens == 90
    known = Usage(input_tokens=90, output_tokens=4, calls=1)
    assert with_estimates(known, 100, 5) is known
    for false in ({"input_tokens": 1}, {"output_tokens": 1_000_000}, {"output_tokens": 0}):
        assert with_estimates(replace(known, **false), 100, 5).estimated_calls == 1
    assert with_estimates(replace(known, output_tokens=30_000), 100, 5).output_tokens == 30_000  # it reasoned
    impossible = replace(known, input_tokens=9_000_000, cached_input_tokens=8_000_000)
    assert with_estimates(impossible, 100, 5) == Usage(input_tokens=100, output_tokens=4, calls=1, estimated_calls=1)
    assert with_estimates(Usage(input_tokens=90, calls=1), 100, 0).estimated_calls is None  # a decision writes nothing


def test_texts_and_pictures_are_estimated():
    picture = {"type": "image_url", "image_url": {"url": "data:" + "A" * 100_000}}
    assert estimated_tokens("a" * 400) == 100
    assert estimated_tokens([{"role": "user", "content": [{"type": "text", "text": "a" * 400}, picture]}]) < 1200


@pytest.mark.parametrize("usage", ["null", '{"prompt_tokens": 0}', '{"prompt_tokens": 1e30}', '{"prompt_tokens": ""}'])
def test_an_answer_without_usage_is_not_free(usage, caplog):
    bill = CostTracker(PRICES, Notices("m"))
    body = '{"choices": [{"message": {"content": "' + "word " * 80 + '"}}], "usage": ' + usage + "}"
    for _ in range(2):
        completion = completion_of(body.encode())
        bill.add(completion, 300, completion.tokens)
    assert bill.usage == Usage(input_tokens=600, output_tokens=200, calls=2, estimated_calls=2)
    assert bill.cost_usd == pytest.approx(0.08)
    assert caplog.text.count("estimated from the texts") == 1


def test_nothing_paid_and_no_price_known_are_two_things():
    assert CostTracker(PRICES, Notices("m")).cost_usd == 0.0
    assert CostTracker(Prices(None, None), Notices("m")).cost_usd is None


def judge(score, model, **options):
    return ScriptedJudge({"reason": "so", "score": score}, model=model, cost_usd=0.5, **options)


ERRORS = [JudgeRejected("400"), JudgeDenied("401", remedy="key"), JudgeUnavailable("503")]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("kind", ["jury", "cascade", "audit", "jury without a quorum"])
async def test_a_judge_that_does_not_answer_takes_nothing_off_the_bill(kind, error):
    silent = ScriptedJudge([error], model="silent")
    panel = {
        "jury": lambda: Jury([judge(6, "a"), judge(8, "b"), silent]),
        "jury without a quorum": lambda: Jury([judge(6, "a"), judge(8, "b"), silent], quorum=3),
        "cascade": lambda: Cascade(judge(6, "a"), silent, doubt=0.0, share=1.0),
        "audit": lambda: Audited(judge(6, "a"), silent, 1.0),
    }[kind]()
    evaluator = load_evaluators()["g_eval"](name="g", evaluation_steps=["Look."], evaluation_params=["actual_output"])
    result = await evaluate(evaluator, a_turn(), panel, now=a_moment)
    assert result.cost_usd == (1.0 if "jury" in kind else 0.5)


async def test_an_unknown_price_of_an_answer_is_not_hidden():
    evaluator = load_evaluators()["g_eval"](name="g", evaluation_steps=["Look."], evaluation_params=["actual_output"])
    unpriced = ScriptedJudge({"reason": "so", "score": 5}, model="unpriced")
    result = await evaluate(evaluator, a_turn(), Jury([judge(6, "a"), unpriced]), now=a_moment)
    assert result.cost_usd is None
    assert result.usage.calls == 2
