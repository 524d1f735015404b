"""A pack: one request for the questions of several evaluators, and every evaluator with its own answer."""

import asyncio
import math
from dataclasses import replace

import pytest

from evaluators import GEval
from evaluators.cases import Turn
from evaluators.catalogue import load_evaluators, make_example
from evaluators.errors import JudgeDenied, JudgeRejected, JudgeReplyInvalid, JudgeUnavailable
from evaluators.evaluation import evaluate
from evaluators.identity import judged_version
from evaluators.judge import Prompt
from evaluators.judges.answer_cache import AnswerCache
from evaluators.judges.jury import Jury
from evaluators.judges.retrying import Retrying
from evaluators.packs.evaluate_pack import evaluate_pack, packed_version
from evaluators.packs.pack import Pack
from evaluators.packs.packed_prompt import PackedQuestion, PackPrompt, pack_questions, pack_schema
from evaluators.results import Failure, Score, Usage
from evaluators.scale import Scale
from evaluators.testing import ScriptedJudge, a_moment, a_turn, answer_any_form
from tests.builders.judges import DecidingJudge, verdict_tokens

FIELDS = ("input", "actual_output")
STEPS = ("Compare what is asked with what is answered.",)
TURN = a_turn("Is it open on Sunday?", "It opens at ten.", retrieval_context=("Open daily from ten.",))


def g_eval(name="helpful", **settings) -> GEval:
    return GEval(name=name, **{"evaluation_steps": STEPS, "evaluation_params": FIELDS, **settings})


def example(kind):
    return make_example(load_evaluators()[kind])


def by_kind(prompt: Prompt, reply):
    return answer_any_form()(prompt, reply)


SEVEN = [
    g_eval(),
    *(
        example(kind)
        for kind in ("answer_relevancy", "faithfulness", "toxicity", "bias", "pii_leakage", "judged_refusal")
    ),
]


async def test_seven_usual_evaluators_take_two_requests_and_send_the_turn_once_in_each():
    alone, packed = ScriptedJudge(by_kind), ScriptedJudge(by_kind, secret=b"s")
    results = [await evaluate(each, TURN, alone, now=a_moment) for each in SEVEN]
    assert len(alone.questions) == 12
    together = await evaluate_pack(SEVEN, TURN, packed, now=a_moment)
    assert len(packed.questions) == 2
    for one, other in zip(results, together, strict=True):
        assert isinstance(one.outcome, Score)
        assert one.outcome == other.outcome
        assert one.judge == other.judge  # the prompt's hash is that of its own question
    assert packed.questions[0].message.count("It opens at ten.") == 1
    sent = [question.message.count("It opens at ten.") for question in alone.questions]
    assert sum(sent) == 7


async def test_each_question_has_its_own_key():
    judge = ScriptedJudge(by_kind, secret=b"s")
    await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
    message = judge.questions[0].message
    keys = [each.split('"')[1] for each in message.split('"answer_key": ')[1:]]
    assert len(keys) == len(set(keys)) == 2


async def test_tokens_of_each_verdict_are_its_own():
    answers = iter(
        [
            verdict_tokens("7", {"7": 0.6, "9": 0.4}, reason='He said: {"score": 3}'.replace('"', '\\"')),
            verdict_tokens("2", {" 2": 0.75, " 3": 0.25}, before=" "),
            verdict_tokens("10", {"10": 0.5, "8": 0.5}),
        ]
    )
    judge = ScriptedJudge(lambda _prompt, _reply: next(answers), secret=b"s")
    results = await evaluate_pack([g_eval("a"), g_eval("b"), g_eval("c")], TURN, judge, now=a_moment)
    assert [each.outcome.method for each in results] == ["logprobs"] * 3
    assert [each.outcome.details["expected"] for each in results] == pytest.approx([7.8, 2.25, 9.0])


async def test_a_broken_entry_fails_one_question():
    def script(prompt: Prompt, reply):
        return '{"reason": "so", "score": 99}' if "zebra" in prompt.instructions else {"reason": "so", "score": 8}

    judge = ScriptedJudge(script, secret=b"s")
    pack = [g_eval("a"), g_eval("b", evaluation_steps=("Find the zebra.",)), g_eval("c")]
    results = await evaluate_pack(pack, TURN, judge, now=a_moment)
    assert [type(each.outcome) for each in results] == [Score, Failure, Score]
    assert results[1].outcome.type == "judge_reply_invalid"
    assert len(judge.questions) == 2  # it was asked for once more, alone


async def test_a_refused_pack_is_asked_one_by_one():
    class Squeamish(ScriptedJudge):
        async def ask(self, prompt, reply, **settings):
            if isinstance(prompt, PackPrompt) or "blood" in prompt.instructions:
                error = JudgeReplyInvalid("the judge refused to answer", type="judge_refused")
                error.usage, error.cost_usd = Usage(input_tokens=10, output_tokens=1, calls=1), 0.02
                raise error
            return await super().ask(prompt, reply, **settings)

    judge = Squeamish(by_kind, cost_usd=0.5)
    results = await evaluate_pack([g_eval("a"), g_eval("b", evaluation_steps=("blood",))], TURN, judge, now=a_moment)
    assert results[0].outcome.details["pack"] == "split_up"
    assert results[0].cost_usd == pytest.approx(0.51)
    assert results[1].outcome == Failure(type="judge_refused", message="the judge refused to answer")
    assert results[1].cost_usd == pytest.approx(0.03)
    assert sum(each.usage.input_tokens for each in results) == 10 + 100 + 10


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (JudgeUnavailable("down"), "judge_unavailable"),
        (JudgeDenied("no", remedy="key"), "judge_denied"),
    ],
)
async def test_an_outage_is_everybodys(error, kind):
    error.usage, error.cost_usd = Usage(input_tokens=7, calls=1), 0.07

    class Down(ScriptedJudge):
        async def ask(self, prompt, reply, **settings):
            raise error

    results = await evaluate_pack([g_eval("a"), g_eval("b"), g_eval("c")], TURN, Down(by_kind), now=a_moment)
    assert [each.outcome.type for each in results] == [kind] * 3
    assert sum(each.usage.input_tokens for each in results) == 7
    assert math.fsum(each.cost_usd for each in results) == pytest.approx(0.07)


async def test_too_long_together_is_asked_apart():
    class Small(ScriptedJudge):
        async def ask(self, prompt, reply, **settings):
            if isinstance(prompt, PackPrompt):
                raise JudgeRejected("context length exceeded")
            return await super().ask(prompt, reply, **settings)

    results = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, Small(by_kind), now=a_moment)
    assert all(isinstance(each.outcome, Score) for each in results)


async def test_price_and_tokens_are_split_without_a_rest():
    judge = ScriptedJudge(by_kind, cost_usd=0.06)
    results = await evaluate_pack([g_eval(name) for name in "abc"], TURN, judge, now=a_moment)
    assert [each.usage.input_tokens for each in results] == [34, 33, 33]
    assert sum(each.usage.calls for each in results) == 1
    assert math.fsum(each.cost_usd for each in results) == pytest.approx(0.06)


async def test_an_evaluator_that_ends_early_holds_nobody_up():
    """One that lacks a field, one whose answer says nothing, and one that is cancelled."""
    pack = [g_eval("a", evaluation_params=("expected_output",)), g_eval("b"), example("faithfulness")]
    results = await evaluate_pack(pack, TURN, ScriptedJudge(by_kind), now=a_moment)
    assert results[0].outcome.reason == "missing_field: expected_output"
    assert all(isinstance(each.outcome, Score) for each in results[1:])


async def test_steps_are_asked_before_and_apart():
    judge = ScriptedJudge(by_kind)
    await evaluate_pack([g_eval("a", evaluation_steps=None, criteria="Good."), g_eval("b")], TURN, judge, now=a_moment)
    assert [isinstance(each.prompt, PackPrompt) for each in judge.questions] == [False, True]


async def test_samples_are_drawn_apart():
    judge = ScriptedJudge(by_kind)
    results = await evaluate_pack([g_eval("a", mode="samples"), g_eval("b")], TURN, judge, now=a_moment)
    assert results[0].outcome.method == "samples"
    assert {each.samples for each in judge.questions} == {1, 5}


async def test_a_judge_that_takes_no_packs_is_asked_as_usual():
    class Own:
        model = "own"

        def __init__(self):
            self.inner = ScriptedJudge(by_kind)

        async def ask(self, prompt, reply, *, logprobs=False, samples=1):
            return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)

    judge = Own()
    results = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
    assert all(isinstance(each.outcome, Score) for each in results)
    assert not any(isinstance(each.prompt, PackPrompt) for each in judge.inner.questions)


async def test_a_jury_has_a_pack_for_each_judge():
    judges = [ScriptedJudge(by_kind, model="one"), ScriptedJudge(by_kind, model="two")]
    pack = [g_eval("a"), example("faithfulness"), example("answer_relevancy")]
    results = await evaluate_pack(pack, TURN, Jury(judges), now=a_moment)
    assert all(isinstance(each.outcome, Score) for each in results)
    assert [len(each.questions) for each in judges] == [2, 2]


async def test_questions_of_two_temperatures_are_two_requests():
    judge = ScriptedJudge(by_kind)
    await evaluate_pack([g_eval("a"), g_eval("b", temperature=0.7), g_eval("c")], TURN, judge, now=a_moment)
    assert sorted(len(each.prompt.questions) for each in judge.questions) == [1, 2]


async def test_a_seat_that_was_left_asks_a_pack_of_its_own():
    """As a canary run does, after its evaluation."""
    judge = ScriptedJudge(by_kind)
    pack = Pack(judge, 2)
    pack.seats[0].leave()
    prompt = Prompt("x", {"input": "a"})
    await pack.seats[0].ask(prompt, Scale(0, 10).reply)
    assert len(judge.questions[0].prompt.questions) == 1


async def test_what_nobody_waits_for_is_cancelled():
    started, ended = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedJudge):
        async def ask(self, prompt, reply, **settings):
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    task = asyncio.create_task(evaluate_pack([g_eval("a"), g_eval("b")], TURN, Slow(by_kind), now=a_moment))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 5)


def test_fields_that_differ_stand_under_their_question():
    rating = Scale(0, 10).reply
    long, short = {"input": "a", "items": [1]}, {"input": "a", "items": [2]}
    pack = pack_questions([PackedQuestion(Prompt("x", long), rating), PackedQuestion(Prompt("y", short), rating)])
    assert pack.material == {"input": "a", "q1": {"items": [1]}, "q2": {"items": [2]}}
    assert "q1: input, q1.items; q2: input, q2.items" in pack.reminder


def test_a_field_with_a_questions_name_is_its_own():
    pack = pack_questions([PackedQuestion(Prompt("x", {"q2": "mine"}), Scale(0, 10).reply)] * 2)
    assert pack.material == {"q1": {"q2": "mine"}, "q2": {"q2": "mine"}}


def test_the_schema_holds_the_forms_with_their_definitions():
    from evaluators.mechanisms.item_verdicts import verdicts_form

    pack = pack_questions([PackedQuestion(Prompt("x", {"a": 1}), verdicts_form(count)) for count in (2, 3)])
    schema = pack_schema(pack.named(["k1", "k2"]))
    assert list(schema["properties"]) == ["q1", "q2"]
    assert schema["properties"]["q2"]["properties"]["verdicts"]["items"] == {"$ref": "#/$defs/q2_ItemVerdict"}
    assert sorted(schema["$defs"]) == ["q1_ItemVerdict", "q2_ItemVerdict"]
    assert list(schema["properties"]["q1"]["properties"]) == ["answer_key", "verdicts"]


def test_a_packed_version_says_so_and_with_whom():
    one, other, third = g_eval("a"), g_eval("b"), g_eval("c", evaluation_steps=("Other.",))
    alone = judged_version(one, "m")
    assert packed_version(one, "m", [one, other]) != alone
    assert packed_version(one, "m", [one, other]) == packed_version(one, "m", [other, one])
    assert packed_version(one, "m", [one, third]) != packed_version(one, "m", [one, other])
    assert packed_version(one, "n", [one, other]) != packed_version(one, "m", [one, other])
    assert len(packed_version(one, "m", [one, other])) == 12


async def test_a_turn_without_a_word_asks_nobody():
    judge = ScriptedJudge(by_kind)
    results = await evaluate_pack([g_eval("a"), g_eval("b")], replace(TURN, actual_output=" "), judge, now=a_moment)
    assert [each.outcome.value for each in results] == [0.0, 0.0]
    assert judge.questions == []
    assert isinstance(TURN, Turn)


class TestByDecisions:
    """A judge that decides gets the typed questions of a pack in one request, and those that are written apart."""

    async def test_one_request_for_all_groups(self):
        writer = ScriptedJudge(by_kind)
        judge = DecidingJudge(lambda question: {question.options[-1].value: 1.0}, writer)
        results = await evaluate_pack(SEVEN, TURN, judge, now=a_moment)
        assert [type(each.outcome) for each in results] == [Score] * 7
        assert [each.outcome.method for each in results] == ["decision"] * 7
        assert [len(each.groups) for each in judge.questions] == [2, 5]  # helpful and refusal; then the verdicts
        assert [isinstance(each.prompt, PackPrompt) for each in writer.questions] == [True]  # all that is extracted
        for each, one in zip(SEVEN, results, strict=True):
            alone = await evaluate(each, TURN, DecidingJudge(judge.decide, writer), now=a_moment)
            assert one.outcome == alone.outcome

    async def test_a_refusal_is_one_questions(self):
        judge = DecidingJudge(lambda question: {} if len(question.options) == 11 else {question.options[0].value: 1.0})
        results = await evaluate_pack([g_eval("a"), example("judged_refusal")], TURN, judge, now=a_moment)
        assert [type(each.outcome) for each in results] == [Failure, Score]
        assert results[0].outcome.type == "judge_refused"

    def test_fields_of_their_own_are_named_in_the_guide(self):
        from evaluators.questions import QuestionGroup

        group = QuestionGroup("Guide.", ())
        prompts = [Prompt("x", {"input": "a", "items": [n]}, groups=(group,)) for n in (1, 2)]
        pack = pack_questions([PackedQuestion(each, Scale(0, 10).reply) for each in prompts])
        assert [each.name for each in pack.groups] == ["q1", "q2"]
        assert pack.groups[1].guide == "Guide.\n`items` is the field `q2.items` of the case."
        assert pack.material["q2"] == {"items": [2]}


class TestThroughWrappers:
    async def test_a_cached_pack_costs_nothing_and_other_fields_are_another_pack(self):
        inner = ScriptedJudge(by_kind, cost_usd=0.1)
        judge = AnswerCache(inner, capacity=10)
        first = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
        again = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
        assert [each.outcome for each in again] == [each.outcome for each in first]
        assert [each.cost_usd for each in again] == [None, None]
        assert len(inner.questions) == 1
        await evaluate_pack([g_eval("a"), g_eval("b")], a_turn("x", "y"), judge, now=a_moment)
        assert len(inner.questions) == 2

    async def test_a_pack_with_a_failure_is_asked_again(self):
        inner = ScriptedJudge(lambda prompt, _r: {"reason": "so", "score": 99 if "zebra" in prompt.instructions else 8})
        judge = AnswerCache(inner, capacity=10)
        pack = [g_eval("a"), g_eval("b", evaluation_steps=("zebra",))]
        for _ in range(2):
            await evaluate_pack(pack, TURN, judge, now=a_moment)
        assert len(inner.questions) == 4  # each time once more for the broken entry

    async def test_what_failed_attempts_cost_is_split_too(self):
        class Busy(ScriptedJudge):
            failures = 1

            async def ask(self, prompt, reply, **settings):
                if self.failures:
                    self.failures -= 1
                    error = JudgeUnavailable("busy")
                    error.usage, error.cost_usd = Usage(input_tokens=10, calls=1), 0.02
                    raise error
                return await super().ask(prompt, reply, **settings)

        async def at_once(_seconds):
            """No wait."""

        judge = Retrying(Busy(by_kind, cost_usd=0.1), sleep=at_once)
        results = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
        assert [each.cost_usd for each in results] == pytest.approx([0.06, 0.06])
        assert sum(each.usage.input_tokens for each in results) == 110
