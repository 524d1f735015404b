"""Composites: all, any, weighted by hand; and a gate in code whose probabilities leave means unbiased."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from collector.config.loading import check
from collector.errors import ConfigError
from collector.evaluate.retry.request import RetryRequest
from evaluators import Composite, ConversationalComposite, Turn, evaluate
from evaluators.catalogue import load_evaluators
from evaluators.errors import JudgeUnavailable
from evaluators.evaluation import make_record
from evaluators.judges.jury import Jury
from evaluators.results import Failure, Sampling, Score, Skipped
from evaluators.testing import ScriptedJudge, a_conversation, a_moment, a_turn

KINDS = load_evaluators()


def rated(name: str, **fields: Any) -> Any:
    """A member whose judge gives a score of 0 to 10."""
    steps = {"evaluation_steps": ["?"], "evaluation_params": ["input", "actual_output"], "mode": "single"}
    return KINDS["g_eval"](name=name, threshold=0.5, **steps, **fields)


HELPFUL, KIND = rated("helpful"), rated("kind")
PARIS = KINDS["contains"](name="paris", search_text="Paris", threshold=1.0)
ROME = KINDS["contains"](name="rome", search_text="Rome", threshold=1.0)
CITED = KINDS["contains"](name="cited", search_text="[1]", threshold=1.0)
TOXIC = KINDS["refusal"](name="refused", threshold=0.0)  # lower is better
WITH_REFERENCE = KINDS["exact_match"](name="exact", threshold=1.0)


def judge(*scores: int) -> ScriptedJudge:
    return ScriptedJudge([{"reason": "so", "score": each} for each in scores])


async def outcome(evaluator: Any, scripted: ScriptedJudge | None = None, turn: Turn | None = None) -> Any:
    return (await evaluate(evaluator, turn or a_turn(), scripted or judge(), now=a_moment)).outcome


@pytest.mark.parametrize(
    ("combine", "members", "scores", "value", "asked"),
    [
        ("all", (HELPFUL, PARIS), (8,), 1.0, 1),
        ("all", (HELPFUL, PARIS), (3,), 0.0, 1),
        ("all", (HELPFUL, ROME), (), 0.0, 0),  # code decides: nobody is asked
        ("all", (HELPFUL, KIND), (3,), 0.0, 1),  # the first decides
        ("any", (HELPFUL, PARIS), (), 1.0, 0),
        ("any", (HELPFUL, ROME), (8,), 1.0, 1),
        ("any", (HELPFUL, ROME), (3,), 0.0, 1),
        ("any", (HELPFUL, KIND), (3, 9), 1.0, 2),
        ("weighted", (HELPFUL, KIND), (8, 5), 0.65, 2),
        ("weighted", (HELPFUL, TOXIC), (8,), 0.9, 1),  # nothing refused is 1 - 0
    ],
)
async def test_values_by_hand(combine: str, members: Any, scores: Any, value: float, asked: int) -> None:
    scripted = judge(*scores)
    score = await outcome(Composite(name="good", of=members, combine=combine), scripted)
    assert isinstance(score, Score)
    assert score.value == pytest.approx(value)
    assert len(scripted.questions) == asked
    assert set(score.details["members"]) == {each.name for each in members}
    assert score.method == ("single" if asked else "deterministic")


async def test_weights() -> None:
    composite = Composite(
        name="good", of=(HELPFUL, PARIS, ROME), combine="weighted", weights={"helpful": 3, "rome": 0.5}
    )
    score = await outcome(composite, judge(6))
    assert score.value == pytest.approx((3 * 0.6 + 1 * 1 + 0.5 * 0) / 4.5)


async def test_a_member_without_a_score() -> None:
    down = ScriptedJudge(JudgeUnavailable("down"))
    failed = Failure(type="judge_unavailable", message="down")
    assert await outcome(Composite(name="a", of=(HELPFUL, PARIS)), down) == failed
    assert (await outcome(Composite(name="a", of=(HELPFUL, ROME)), down)).value == 0.0  # decided without it
    assert (await outcome(Composite(name="a", of=(HELPFUL, PARIS), combine="any"), down)).value == 1.0
    assert await outcome(Composite(name="a", of=(HELPFUL, PARIS), combine="weighted"), down) == failed
    skipped = Skipped(reason="missing_field: expected_output")
    assert await outcome(Composite(name="a", of=(PARIS, WITH_REFERENCE))) == skipped
    assert (await outcome(Composite(name="a", of=(ROME, WITH_REFERENCE)))).value == 0.0


async def test_in_code_alone_no_judge_is_needed() -> None:
    composite = Composite(name="good", of=(PARIS, ROME), combine="any")
    assert not composite.needs_judge
    assert (await evaluate(composite, a_turn())).outcome.value == 1.0
    assert Composite(name="good", of=(PARIS, HELPFUL)).needs_judge


async def test_of_conversations() -> None:
    cheap = KINDS["task_cost"](name="cheap", max_tool_calls=3, threshold=0.5)
    composite = ConversationalComposite(name="good", of=(cheap,))
    assert (await evaluate(composite, a_conversation(("Hi", "Hello")))).outcome.value == 1.0


def test_the_version_is_that_of_all_that_counts() -> None:
    first = Composite(name="good", of=(HELPFUL, PARIS))
    assert first.version == Composite(name="other", of=(HELPFUL, PARIS)).version
    changed = [
        Composite(name="good", of=(HELPFUL, ROME)),
        Composite(name="good", of=(HELPFUL.model_copy(update={"threshold": 0.6}), PARIS)),
        Composite(name="good", of=(rated("helpful", strict_mode=False, reason="none"), PARIS)),
        Composite(name="good", of=(HELPFUL, PARIS), combine="any"),
        Composite(name="good", of=(HELPFUL, PARIS), combine="weighted"),
    ]
    assert len({first.version, *(each.version for each in changed)}) == len(changed) + 1


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"of": ()}, "at least 1 item"),
        ({"of": (PARIS, PARIS)}, "listed twice"),
        ({"of": (KINDS["latency"](name="fast", target=1, limit=2),)}, "fast has no threshold"),
        ({"of": (KINDS["classifier"](name="topic", **KINDS["classifier"].example),)}, "topic has no threshold"),
        ({"of": (PARIS, KINDS["task_cost"](name="cheap", max_tool_calls=3, threshold=0.5))}, "those of one scope"),
        ({"of": (Composite(name="inner", of=(PARIS,)),)}, "composites as members"),
        ({"of": (PARIS,), "combine": "weighted", "weights": {"pari": 1}}, "'pari' is not among"),
        ({"of": (PARIS,), "combine": "weighted", "weights": {"paris": 0}}, "one of them above 0"),
        ({"of": (PARIS,), "weights": {"paris": 2}}, "without combine: weighted"),
        ({"of": (PARIS,), "share": 0.5}, "without combine: if"),
        ({"of": (PARIS,), "combine": "if"}, "there are two"),
        ({"of": (HELPFUL, KIND), "combine": "if"}, "asks a judge itself"),
        ({"of": (PARIS, HELPFUL), "combine": "if", "share": 0.1, "otherwise": 1.0}, "no score of their own"),
        ({"of": {"a": {"kind": "no"}}}, "no evaluator of kind 'no'"),
        ({"of": ["paris"]}, "not str"),
    ],
)
def test_what_cannot_be_meant(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Composite(name="good", **fields)


# A gate


async def test_a_gate_decides_whether_a_judge_is_asked() -> None:
    gated = Composite(name="checked", of=(PARIS, HELPFUL), combine="if")  # asked where the city is missing
    scripted = judge(4)
    assert await outcome(gated, scripted) == Skipped(reason="gated: paris")
    assert scripted.questions == []
    score = await outcome(gated, scripted, a_turn(actual_output="Rome."))
    assert (score.value, score.probability, score.method) == (0.4, 1.0, "single")
    other_way = Composite(name="checked", of=(PARIS, HELPFUL), combine="if", ask_on="pass", otherwise=0.0)
    assert (await outcome(other_way, judge(4))).value == 0.4
    assert (await outcome(other_way, judge(), a_turn(actual_output="Rome."))).value == 0.0


async def test_of_the_others_a_share_is_asked_with_its_probability() -> None:
    gated = Composite(name="checked", of=(PARIS, HELPFUL), combine="if", share=0.25)
    outcomes = [await outcome(gated, judge(4), a_turn(turn_id=f"t{number}")) for number in range(400)]
    scores = [each for each in outcomes if isinstance(each, Score)]
    assert 70 <= len(scores) <= 130  # 100 ± 3.5 standard deviations
    assert {each.probability for each in scores} == {0.25}
    again = [await outcome(gated, judge(4), a_turn(turn_id=f"t{number}")) for number in range(400)]
    assert again == outcomes  # the same on every replay


async def test_the_record_has_the_product_of_both_probabilities() -> None:
    gated = Composite(name="checked", of=(PARIS, HELPFUL), combine="if", share=0.25)
    turns = [a_turn(turn_id=f"t{number}") for number in range(40)]
    results = [(turn, await evaluate(gated, turn, judge(4), now=a_moment)) for turn in turns]
    turn, result = next(each for each in results if isinstance(each[1].outcome, Score))
    record = make_record(
        gated, turn, result, evaluation_id="1" * 32, evaluator_version="v", monitor="all",
        sampling=Sampling(probability=0.5, stratum="slow"),
    )  # fmt: skip
    assert record.sampling == Sampling(probability=0.125, stratum="slow", own=0.25)
    whole = replace(result, outcome=Score(value=1.0))
    same = make_record(gated, turn, whole, evaluation_id="1" * 32, evaluator_version="v", monitor="all")
    assert same.sampling == Sampling()


@pytest.mark.parametrize("panel", [False, True])
async def test_what_is_drawn_and_gets_no_score_stands_for_as_much(panel: bool) -> None:
    """A failed evaluation of the share weighed 1 / p: what had no score looked like less than it was."""
    broken = Composite(name="checked", of=(PARIS, HELPFUL), combine="if", share=0.25)
    turns = [a_turn(turn_id=f"t{number}") for number in range(40)]
    silent = ScriptedJudge([JudgeUnavailable("down")] * 2)
    outcomes = [
        (await evaluate(broken, turn, Jury([silent, silent]) if panel else silent, now=a_moment)).outcome
        for turn in turns
    ]
    assert {each.probability for each in outcomes if isinstance(each, Failure)} == {0.25}
    without = Composite(name="checked", of=(PARIS, WITH_REFERENCE), combine="if", share=0.25)
    skips = [await outcome(without, judge(), turn) for turn in turns]
    assert {(each.reason.partition(":")[0], each.probability) for each in skips} == {
        ("gated", 1.0), ("missing_field", 0.25),
    }  # fmt: skip


async def test_a_retry_draws_its_share_once() -> None:
    gated = Composite(name="checked", of=(PARIS, HELPFUL), combine="if", share=0.25)
    down = ScriptedJudge([JudgeUnavailable("down")] * 2)
    results = [await evaluate(gated, a_turn(turn_id=f"t{number}"), down, now=a_moment) for number in range(40)]
    failed = next(each for each in results if isinstance(each.outcome, Failure))
    sampling, of = Sampling(probability=0.5), {"evaluation_id": "1" * 32, "evaluator_version": "v", "monitor": "all"}
    record = make_record(gated, a_turn(), failed, sampling=sampling, **of)
    assert record.sampling == Sampling(probability=0.125, own=0.25)
    assert RetryRequest(record, a_turn()).sampling == sampling


def test_the_sampling_of_a_subject_is_without_an_evaluators_own_draw() -> None:
    sampling = Sampling(probability=0.3, stratum="slow", upstream=0.5)
    assert sampling.of_subject is sampling
    drawn = sampling.with_own_draw(0.25)
    assert replace(drawn.of_subject, probability=0.3) == sampling
    assert drawn.of_subject.probability == pytest.approx(0.3)


async def test_the_weighted_mean_is_that_of_all_turns() -> None:
    """Of turns that the gate asks for all score 0.2, of the others 0.9: the mean of all is 0.55, that of the judged not."""
    gated = Composite(name="checked", of=(PARIS, HELPFUL), combine="if", share=0.1)
    total = weight = plain = count = 0.0
    for number in range(1500):
        bad = number % 2 == 0
        turn = a_turn(turn_id=f"turn-{number}", actual_output="Rome." if bad else "Paris.")
        score = await outcome(gated, judge(2 if bad else 9), turn)
        if isinstance(score, Score):
            total, weight = total + score.value / score.probability, weight + 1 / score.probability
            plain, count = plain + score.value, count + 1
    assert total / weight == pytest.approx(0.55, abs=0.05)
    assert plain / count < 0.3  # what one would get without the weights


async def test_a_jury_draws_once() -> None:
    gated = Composite(name="checked", of=(PARIS, HELPFUL), combine="if", share=0.25)
    outcomes = [
        (await evaluate(gated, a_turn(turn_id=f"t{number}"), Jury([judge(4), judge(6)]), now=a_moment)).outcome
        for number in range(40)
    ]
    assert {each.probability for each in outcomes if isinstance(each, Score)} == {0.25}


# In a configuration


def configured(**changes: Any) -> dict[str, Any]:
    asks = {"kind": "g_eval", "criteria": "?", "evaluation_params": ["input"], "judge": "main"}
    return {
        "judges": {"main": {"model": "m"}, "other": {"model": "o"}},
        "evaluators": {
            "good": {"kind": "composite", "of": ["helpful", "paris"]},
            "helpful": asks,
            "paris": {"kind": "contains", "search_text": "Paris", "threshold": 1},
            **changes,
        },
        "monitors": {"all": {"evaluators": ["good"]}},
    }


def test_members_are_named() -> None:
    config = check(configured(), "my.yaml")
    assert list(config.evaluators) == ["good", "helpful", "paris"]
    assert config.evaluators["good"].judge == "main"  # that of its members
    assert [each.name for each in config.evaluators["good"].evaluator.of] == ["helpful", "paris"]  # type: ignore[attr-defined]
    code = check(configured(good={"kind": "composite", "of": ["paris"]}), "my.yaml")
    assert code.evaluators["good"].judge is None


@pytest.mark.parametrize(
    ("good", "why"),
    [
        ({"of": ["helpfull", "paris"]}, "evaluators.good.of: unknown evaluator 'helpfull'"),
        ({"of": "paris"}, "evaluators.good.of: write a list"),
        ({"of": ["good"]}, "evaluators.good.of: "),
        ({"of": ["paris"], "combine": "if"}, "there are two"),
        ({"of": ["paris"], "judge": "main"}, "uses no judge"),
    ],
)
def test_mistakes_are_sentences(good: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as error:
        check(configured(good={"kind": "composite", **good}), "my.yaml")
    assert why in str(error.value)
