"""Packs over real sockets: what the request is like, what endpoints do to it, and what becomes of each question."""

import orjson
import pytest
from chat_server import completion, rating, refusal, serving
from stand_in_judge import completion as stand_in

from evaluators import GEval, OpenAIJudge
from evaluators.catalogue import load_evaluators, make_example
from evaluators.packs.evaluate_pack import evaluate_pack
from evaluators.results import Failure, Score
from evaluators.testing import a_moment, a_turn

TURN = a_turn("When does it open?", "It opens at ten on every day of the week.", retrieval_context=("Open from ten.",))


def g_eval(name: str, **settings) -> GEval:
    usual = {"evaluation_steps": ("Compare.",), "evaluation_params": ("input", "actual_output")}
    return GEval(name=name, **{**usual, **settings})


def entries(**scores: int) -> dict:
    return completion(orjson.dumps({name: {"reason": "so", "score": score} for name, score in scores.items()}).decode())


def judge_at(chat, **settings) -> OpenAIJudge:
    return OpenAIJudge("m", base_url=chat.base_url, api_key="k", **settings)


async def test_one_request_with_the_case_once():
    async with serving(lambda _body, _n: entries(q1=3, q2=8)) as chat, judge_at(chat, max_tokens=200) as judge:
        results = await evaluate_pack([g_eval("a"), g_eval("b", max_tokens=50)], TURN, judge, now=a_moment)
    assert [each.outcome.raw_score for each in results] == [3, 8]
    (body,) = chat.requests
    assert body["max_tokens"] == 250
    form = body["response_format"]["json_schema"]["schema"]
    assert form["required"] == ["q1", "q2"]
    assert body["logprobs"] is True
    assert orjson.dumps(body["messages"]).count(b"It opens at ten") == 1


async def test_alternatives_are_as_many_as_the_forms_have_use_for():
    async with serving(lambda _body, _n: entries(q1=3, q2=4)) as chat, judge_at(chat) as judge:
        await evaluate_pack([g_eval("a"), g_eval("b", scale=(1, 5))], TURN, judge, now=a_moment)
        await evaluate_pack([g_eval("a", scale=(1, 5)), g_eval("b", scale=(1, 5))], TURN, judge, now=a_moment)
    assert [body["top_logprobs"] for body in chat.requests] == [13, 10]


async def test_an_endpoint_that_gives_fewer_alternatives_names_what_was_asked_for():
    def respond(body, _n):
        if (asked := body["top_logprobs"]) > 5:
            return refusal(400, f"top_logprobs is {asked}, and has to be 5 at most")
        return entries(q1=3, q2=4)

    async with serving(respond) as chat, judge_at(chat) as judge:
        results = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
    assert [each.outcome.raw_score for each in results] == [3, 4]
    assert [body["top_logprobs"] for body in chat.requests] == [13, 13, 5]


async def test_the_fixed_part_is_the_same_for_every_case():
    async with serving(lambda _body, _n: entries(q1=3, q2=8)) as chat, judge_at(chat) as judge:
        for text in ("One.", "Another."):
            await evaluate_pack([g_eval("a"), g_eval("b")], a_turn("x", text), judge, now=a_moment)
    first, second = (body["messages"] for body in chat.requests)
    assert first[0] == second[0]
    assert first[1] != second[1]


async def test_scores_are_weighed_by_the_tokens_of_their_entry():
    """The stand-in judge's real tokens, of an answer to seven questions."""
    kinds = ("faithfulness", "judged_refusal", "hallucination")
    pack = [g_eval("a"), *(make_example(load_evaluators()[kind]) for kind in kinds), g_eval("b")]
    case = a_turn("When does it open?", "It opens at ten.", retrieval_context=("Ten.",), context=("Ten.",))
    async with serving(lambda body, _n: stand_in(body)) as chat:
        chat.obeys = False  # it knows the keys itself
        async with judge_at(chat) as judge:
            results = await evaluate_pack(pack, case, judge, now=a_moment)
    assert [type(each.outcome) for each in results] == [Score] * 5, results
    assert [results[0].outcome.method, results[1].outcome.method] == ["logprobs", "single"]
    assert results[0].outcome.kept_mass == pytest.approx(0.98, abs=0.001)
    assert results[0].outcome == results[4].outcome
    assert len(chat.requests) == 2


async def test_what_a_cut_off_answer_never_came_to_is_asked_again():
    def respond(body, number):
        if number == 0:
            answer = completion(
                '{"q1": {"reason": "so", "score": 4}, "q2": {"reason": "this goes on and on', finish_reason="length"
            )
            keys = body["messages"][1]["content"].split('"answer_key": "')[1:]
            text = answer["choices"][0]["message"]["content"]
            for name, key in zip(("q1", "q2"), keys, strict=False):
                text = text.replace(f'"{name}": {{', f'"{name}": {{"answer_key": "{key[:8]}", ')
            answer["choices"][0]["message"]["content"] = text
            return orjson.dumps(answer)
        return entries(q1=6, q2=6)

    async with serving(respond) as chat, judge_at(chat, max_tokens=20, input_price=1.0, output_price=1.0) as judge:
        results = await evaluate_pack([g_eval("a"), g_eval("b"), g_eval("c")], TURN, judge, now=a_moment)
    assert results[0].outcome.raw_score == 4
    assert [result.outcome.raw_score for result in results[1:]] == [6, 6]
    assert len(chat.requests) == 2
    assert sum(each.usage.calls for each in results) == 2
    assert sum(each.cost_usd for each in results) == pytest.approx(2 * 1100 / 1e6)


async def test_a_pack_of_which_nothing_came_through_is_divided():
    def respond(body, number):
        content = body["messages"][-1]["content"]
        if content.count('"answer_key": "') > 2:
            return completion('{"q1": {"reason": "this goes on', finish_reason="length")
        return entries(q1=6, q2=6) if '"q1"' in content else rating(6)

    async with serving(respond) as chat, judge_at(chat, max_tokens=20) as judge:
        results = await evaluate_pack([g_eval(name) for name in "abcd"], TURN, judge, now=a_moment)
    assert [result.outcome.raw_score for result in results] == [6, 6, 6, 6]
    assert len(chat.requests) == 3


async def test_a_broken_entry_is_asked_for_once_more_with_what_is_wrong():
    def respond(_body, number):
        return entries(q1=3, q2=88) if number == 0 else entries(q2=8)

    async with serving(respond) as chat, judge_at(chat) as judge:
        results = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
    assert [each.outcome.raw_score for each in results] == [3, 8]
    complaint = chat.requests[1]["messages"][-1]["content"]
    assert "q2: the answer is not in the asked form: score: must be less than or equal to 10" in complaint
    assert chat.requests[1]["response_format"]["json_schema"]["schema"]["required"] == ["q2"]


async def test_an_endpoint_without_schemas_is_asked_in_words():
    def respond(body, _n):
        if "response_format" in body:
            return refusal(400, "response_format is not supported")
        return entries(q1=3, q2=8)

    async with serving(respond) as chat, judge_at(chat) as judge:
        results = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
    assert [each.outcome.raw_score for each in results] == [3, 8]


async def test_a_judge_without_answer_keys():
    async with serving(lambda _body, _n: entries(q1=3, q2=88)) as chat, judge_at(chat, answer_key=False) as judge:
        results = await evaluate_pack([g_eval("a"), g_eval("b")], TURN, judge, now=a_moment)
    assert results[0].outcome.raw_score == 3
    assert results[1].outcome.type == "judge_reply_invalid"
    assert "answer_key" not in str(chat.requests)


async def test_a_refused_pack_costs_one_question_its_answer():
    def respond(body, _n):
        texts = str(body["messages"])
        if "===== q1" in texts or "blood" in texts:
            return completion("", finish_reason="content_filter")
        return completion('{"reason": "so", "score": 5}')

    async with serving(respond) as chat, judge_at(chat) as judge:
        pack = [g_eval("a"), g_eval("b", evaluation_steps=("blood",)), g_eval("c")]
        results = await evaluate_pack(pack, TURN, judge, now=a_moment)
    assert [type(each.outcome) for each in results] == [Score, Failure, Score]
    assert results[1].outcome.type == "judge_refused"
    assert len(chat.requests) == 4
