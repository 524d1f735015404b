"""What a turn of 4.9 k characters costs by seven usual evaluators, apart and as a pack."""

from collections.abc import Sequence

from evaluators import GEval
from evaluators.catalogue import load_evaluators, make_example
from evaluators.evaluation import evaluate
from evaluators.evaluator import Evaluator
from evaluators.judge import Prompt
from evaluators.packs.evaluate_pack import evaluate_pack
from evaluators.testing import RecordedQuestion, ScriptedJudge, a_moment, a_turn, answer_any_form

QUESTION = "Can I return the lamp that I bought in your shop in March, and who pays for sending it back? " * 5
ANSWER = "You can return it within thirty days, and a faulty one within two years; we pay for the label. " * 20
PASSAGE = "Returns: thirty days from delivery, unused, with the receipt. Faulty goods: two years. We pay the label. "
TURN = a_turn(QUESTION, ANSWER, retrieval_context=(PASSAGE * 12, PASSAGE * 12))
USD_PER_MILLION = 0.40, 1.60
"""List price of a small chat model, input and output."""


def usual() -> list[Evaluator]:
    kinds = ("answer_relevancy", "faithfulness", "toxicity", "bias", "pii_leakage", "judged_refusal")
    helpful = GEval(
        name="helpful",
        evaluation_steps=("Compare what is asked with what is answered.",) * 3,
        evaluation_params=("input", "actual_output"),
    )
    return [helpful, *(make_example(load_evaluators()[kind]) for kind in kinds)]


def input_characters(questions: Sequence[RecordedQuestion]) -> int:
    return sum(len(each.prompt.instructions) + len(each.message) for each in questions)


async def test_requests_the_turn_and_the_price() -> None:
    written: list[int] = []

    def script(prompt: Prompt, reply: type) -> dict:
        answer = answer_any_form()(prompt, reply)
        written.append(60 if "score" in reply.model_fields or "label" in reply.model_fields else 40)  # tokens
        return answer

    assert 4800 < len(QUESTION) + len(ANSWER) + 24 * len(PASSAGE) < 5000
    alone, packed = ScriptedJudge(script), ScriptedJudge(script, secret=b"s")
    for each in usual():
        await evaluate(each, TURN, alone, now=a_moment)
    output, written = sum(written), []
    await evaluate_pack(usual(), TURN, packed, now=a_moment)
    assert (len(alone.questions), len(packed.questions)) == (12, 2)
    sent = [sum(ANSWER[:200] in each.message for each in judge.questions) for judge in (alone, packed)]
    assert sent == [7, 1]
    before, after = input_characters(alone.questions), input_characters(packed.questions)
    assert after < before * 0.75
    usd = [(characters / 4 * USD_PER_MILLION[0] + output * USD_PER_MILLION[1]) / 1e6 for characters in (before, after)]
    fixed = len(packed.questions[0].prompt.instructions)
    assert fixed / 4 > 1024  # where providers' prompt caches begin: the fixed part of a pack is found there again
    print(f"fixed {fixed}, characters {before} -> {after}; US dollars a turn {usd[0]:.6f} -> {usd[1]:.6f}")
    assert usd[1] < usd[0]
