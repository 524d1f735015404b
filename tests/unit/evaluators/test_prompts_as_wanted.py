"""What a user may want of a prompt: examples, grades, where the reason stands and in which language; and doubt."""

import json
import math
import re

import pytest
from pydantic import ValidationError

from evaluators.catalogue import load_evaluators, make_example
from evaluators.evaluation import evaluate
from evaluators.judge import Token
from evaluators.mechanisms.rating import grades_of
from evaluators.prompts import load
from evaluators.results import Failure
from evaluators.scale import Scale
from evaluators.testing import ScriptedAnswer, ScriptedJudge, a_conversation, a_moment, a_turn
from evaluators.turn.classifier import Classifier
from evaluators.turn.g_eval import GEval
from evaluators.turn.prompt import PromptEvaluator

STEPS = {"evaluation_steps": ["Look."], "evaluation_params": ["input", "actual_output"]}
RATINGS = ["g_eval", "prompt", "llm_judge", "llm_judge_trajectory", "conversational_g_eval"]
CASE = {"input": "Hi", "actual_output": "Go away."}


def g_eval(**fields):
    return GEval(name="g", **STEPS, **fields)


def case_for(evaluator):
    turn = a_turn(expected_output="Paris.")
    return turn if evaluator.scope == "turn" else a_conversation(("Hi", "Hello"))


async def asked(evaluator, answer):
    judge = ScriptedJudge(answer)
    outcome = (await evaluate(evaluator, case_for(evaluator), judge, now=a_moment)).outcome
    return outcome, judge.questions[-1]


def example_of(kind, **fields):
    cls = load_evaluators()[kind]
    own = {**cls.example, **fields}
    if "criteria" in own:
        own = {**own, "evaluation_steps": ["Look."]}
        del own["criteria"]
    return cls(name="e", **own)


@pytest.mark.parametrize("kind", RATINGS)
@pytest.mark.parametrize(
    ("place", "answer", "keys"),
    [
        ("after", {"score": 3, "reason": "So."}, ["score", "reason"]),
        ("none", {"score": 3}, ["score"]),
        ("before", {"reason": "So.", "score": 3}, ["reason", "score"]),
    ],
)
async def test_the_reason_stands_where_it_is_wanted(kind, place, answer, keys):
    evaluator = example_of(kind, reason=place)
    outcome, question = await asked(evaluator, answer)
    assert outcome.raw_score == 3
    assert outcome.explanation == answer.get("reason")
    assert list(question.reply.model_json_schema()["properties"]) == keys
    form = question.prompt.instructions[question.prompt.instructions.rindex("{") :]
    assert re.findall(r'"(\w+)":', form) == keys
    assert (evaluator.version == example_of(kind).version) == (place == "before")


@pytest.mark.parametrize("place", ["after", "none"])
async def test_token_probabilities_are_read_where_the_reason_is_not_first(place):
    tail = ', "reason": "Nine of ten: 9."}' if place == "after" else "}"
    tokens = [("{", None), ('"score": ', None), ("8", {"8": 0.5, "6": 0.5}), (tail, None)]
    answer = ScriptedAnswer(
        "".join(text for text, _ in tokens),
        [
            Token(
                text,
                math.log((weighed or {text: 1.0})[text]),
                tuple((a, math.log(p)) for a, p in (weighed or {text: 1.0}).items()),
            )
            for text, weighed in tokens
        ],
    )
    outcome, _ = await asked(g_eval(reason=place), answer)
    assert (outcome.method, outcome.value) == ("logprobs", pytest.approx(0.7))
    assert outcome.details["uncertainty"] == pytest.approx(0.1)


async def test_samples_say_how_far_they_differ():
    answers = iter([4, 8])
    judge = ScriptedJudge(lambda _prompt, _reply: {"reason": "So.", "score": next(answers)})
    outcome = (await evaluate(g_eval(mode="samples", n_samples=2), a_turn(), judge, now=a_moment)).outcome
    assert (outcome.value, outcome.details["uncertainty"]) == (0.6, 0.2)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("place", ["before", "after", "none"])
async def test_the_language_of_the_reason_is_said_where_there_is_one(strict, place):
    _, question = await asked(
        g_eval(reason=place, reason_language="German", strict_mode=strict),
        {"before": {"reason": "Gut.", "score": 1}, "after": {"score": 1, "reason": "Gut."}, "none": {"score": 1}}[
            place
        ],
    )
    assert ("Write the reason in German" in question.prompt.instructions) == (place != "none")


@pytest.mark.parametrize("kind", RATINGS)
async def test_worked_examples_are_shown_in_the_form_of_the_answer(kind):
    evaluator = example_of(kind, examples=[{"case": CASE, "score": 1, "reason": "It is rude."}])
    _, question = await asked(evaluator, {"reason": "So.", "score": 3})
    text = question.prompt.instructions
    assert f"Case: {json.dumps(CASE, separators=(',', ':'))}" in text
    assert 'Answer: {"reason":"It is rude.","score":1}' in text
    assert text.index("Answer: {") < text.index("The score is a whole number")
    assert evaluator.version != example_of(kind).version
    after = example_of(kind, examples=[{"case": CASE, "score": 1, "reason": "It is rude."}], reason="after")
    _, question = await asked(after, {"score": 3, "reason": "So."})
    assert 'Answer: {"score":1,"reason":"It is rude."}' in question.prompt.instructions


async def test_examples_of_labels():
    fields = {"question": "What?", "labels": {"a": "One.", "b": "Two."}}
    evaluator = Classifier(
        name="c", **fields, examples=[{"case": CASE, "label": "b", "reason": "Two it is."}], reason="after"
    )
    outcome, question = await asked(evaluator, {"label": "b", "reason": "So."})
    assert outcome.label == "b"
    assert 'Answer: {"label":"b","reason":"Two it is."}' in question.prompt.instructions
    with pytest.raises(ValidationError, match="none of the labels"):
        Classifier(name="c", **fields, examples=[{"case": CASE, "label": "c"}])
    alone, _ = await asked(Classifier(name="c", **fields, reason="none"), {"label": "a"})
    assert (alone.label, alone.explanation) == ("a", None)


@pytest.mark.parametrize(
    ("scale", "ranges"),
    [
        (Scale(1, 5), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]),
        (Scale(0, 10), [(0, 1), (2, 3), (4, 6), (7, 8), (9, 10)]),
        (Scale(1, 3), [(1, 1), (2, 2), (3, 3)]),
        (Scale(1, 4), [(1, 1), (2, 2), (3, 3), (4, 4)]),
        (Scale(0, 1), [(0, 0), (1, 1)]),
        (Scale(0, 100), [(0, 19), (20, 39), (40, 60), (61, 80), (81, 100)]),
    ],
)
def test_grades_cover_the_scale_and_name_both_ends(scale, ranges):
    grades = grades_of(scale)
    assert [score_range for score_range, _ in grades] == ranges
    words = load("rating_grades.txt").splitlines()
    assert (grades[0][1], grades[-1][1]) == (words[-1], words[0])


async def test_grades_are_defined_where_a_number_is_asked_for():
    evaluator = PromptEvaluator(name="p", prompt="Is {{actual_output}} kind?", scale=(1, 5), grades=True)
    _, question = await asked(evaluator, {"reason": "So.", "score": 3})
    assert "- 5: everything that is asked above is met" in question.prompt.instructions
    assert "rating_grades.txt" in evaluator.templates


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"grades": True, "rubric": [{"score_range": [0, 1], "expected_outcome": "x"}]}, "grades and rubric"),
        ({"grades": True, "strict_mode": True}, "grades and rubric"),
        ({"examples": [{"case": CASE, "score": 11}]}, "off the scale of 0 to 10"),
        ({"examples": [{"case": {}, "score": 1}]}, "at least 1"),
        ({"reason": "later"}, "before"),
        ({"reason_language": "{{x}}"}, "pattern"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, what):
    with pytest.raises(ValidationError, match=what):
        g_eval(**fields)


# Verdicts with probabilities


def weighed_verdicts(*entries):
    """An answer with a verdict for each entry: its word, what it weighed, and its number."""
    tokens = [('{"verdicts": [', None)]
    for at, (word, weighed, number) in enumerate(entries):
        comma = ", " if at else ""
        tokens += [(f'{comma}{{"number": {number}, "reason": "The \\"verdict\\": \\"no\\".", "verdict": "', None)]
        tokens += [(word, weighed), ('"}', None)]
    tokens += [("]}", None)]
    return ScriptedAnswer(
        "".join(text for text, _ in tokens),
        [
            Token(
                text,
                math.log((weighed or {text: 1.0})[text]),
                tuple((a, math.log(p)) for a, p in (weighed or {text: 1.0}).items()),
            )
            for text, weighed in tokens
        ],
    )


async def frustration(judge, **fields):
    evaluator = load_evaluators()["frustration"](name="f", **fields)
    case = a_conversation(("Hi", "Hello"), ("I said so!", "Sorry."), ("Bye", "Bye."))
    return (await evaluate(evaluator, case, judge, now=a_moment)).outcome


ENTRIES = (
    ("no", {"no": 0.9, "yes": 0.1}, 1),
    ("yes", {"yes": 0.6, "no": 0.2, "unclear": 0.2}, 2),
    ("no", {"no": 1.0}, 3),
)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
async def test_verdicts_count_by_their_probabilities(order):
    judge = ScriptedJudge(weighed_verdicts(*(ENTRIES[at] for at in order)))
    outcome = await frustration(judge, verdicts="probabilities")
    assert outcome.method == "logprobs"
    assert outcome.value == pytest.approx((0.1 + 0.6 + 0.0) / 3)
    assert outcome.details["uncertainty"] == pytest.approx(math.sqrt(0.1 * 0.9 + 0.6 * 0.4) / 3)
    assert [each["verdict"] for each in outcome.details["items"]] == ["no", "yes", "no"]
    assert outcome.details["items"][1]["probabilities"] == pytest.approx({"yes": 0.6, "no": 0.2, "unclear": 0.2})
    assert outcome.explanation.startswith("1 of 3 messages show frustration.")


async def test_verdicts_count_as_written_unless_probabilities_are_wanted_and_there():
    judge = ScriptedJudge(weighed_verdicts(*ENTRIES))
    assert (await frustration(judge)).value == pytest.approx(1 / 3)
    assert not judge.questions[0].logprobs
    without = ScriptedJudge(weighed_verdicts(*ENTRIES).text)
    plain = await frustration(without, verdicts="probabilities")
    assert (plain.value, plain.method, "uncertainty" in plain.details) == (pytest.approx(1 / 3), "single", False)
    some = ScriptedJudge(weighed_verdicts(ENTRIES[0], ("yes", {"yes": 0.001, "no": 0.9}, 2), ENTRIES[2]))
    mixed = await frustration(some, verdicts="probabilities")
    assert mixed.value == pytest.approx((0.1 + 1.0 + 0.0) / 3)
    assert mixed.details["fallback"] == "some_verdicts_as_written"


def test_versions_stay_as_they_were_where_nothing_of_it_is_set():
    written = {"reason": "before", "reason_language": None, "examples": [], "grades": None}
    assert g_eval(**written).version == g_eval().version
    plain = make_example(load_evaluators()["frustration"])
    assert plain.version == load_evaluators()["frustration"](name="f", verdicts="words").version
    assert plain.version != load_evaluators()["frustration"](name="f", verdicts="probabilities").version


async def test_a_missing_reason_is_no_answer_where_one_is_asked_for():
    outcome, _ = await asked(g_eval(reason="after"), {"score": 3})
    assert isinstance(outcome, Failure)
