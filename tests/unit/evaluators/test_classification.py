"""Classification by labels: what the judge is asked, what a label is worth, and what token probabilities say."""

import math

import pytest
from pydantic import ValidationError

from evaluators.answers.word_probabilities import word_distributions
from evaluators.catalogue import load_evaluators, make_example
from evaluators.conversation.classifier import ConversationalClassifier
from evaluators.evaluation import evaluate, make_record
from evaluators.judge import Answer, Token
from evaluators.judges.jury import Jury
from evaluators.results import Failure
from evaluators.scale import Reply
from evaluators.testing import ScriptedAnswer, ScriptedJudge, a_conversation, a_moment, a_turn
from evaluators.turn.classifier import Classifier

LABELS = {
    "resolved": {"meaning": "It ended well.", "pass": True},
    "half": {"meaning": "In part.", "score": 0.4},
    "escalated": {"meaning": "A person took over.", "score": 0.1, "pass": False},
}
TALK = a_conversation(("My order is late.", "I fetch a colleague."))


def token(text, **alternatives):
    weighed = {(name if name != "quote" else '"'): value for name, value in alternatives.items()} or {text: 1.0}
    return Token(text, math.log(weighed[text]), tuple((each, math.log(mass)) for each, mass in weighed.items()))


def answer_of(*tokens):
    return ScriptedAnswer("".join(each.text for each in tokens), tokens)


def weighed_label(*tokens):
    return answer_of(token('{"reason": "It says so.", "label": "'), *tokens, token('"}'))


def classifier(**fields):
    return ConversationalClassifier(name="outcome", question="How did it end?", labels=LABELS, **fields)


async def outcome_of(judge, evaluator=None, case=TALK):
    return (await evaluate(evaluator or classifier(), case, judge, now=a_moment)).outcome


@pytest.mark.parametrize(
    ("label", "value", "passed"), [("resolved", 1.0, True), ("half", 0.4, None), ("escalated", 0.1, False)]
)
async def test_a_label_is_worth_its_score_and_passes_as_it_says(label, value, passed):
    result = await evaluate(classifier(), TALK, ScriptedJudge({"reason": "So.", "label": label}), now=a_moment)
    record = make_record(classifier(), TALK, result, evaluation_id="e", evaluator_version="v", monitor="m")
    assert (record.score, record.label, record.passed, record.method) == (value, label, passed, "single")


@pytest.mark.parametrize(
    ("labels", "verdicts"),
    [
        ({"good": {"meaning": "m"}, "bad": {"meaning": "m", "pass": False}}, {"good": True, "bad": False}),
        ({"good": {"meaning": "m", "pass": True}, "bad": {"meaning": "m", "score": 0}}, {"good": True, "bad": False}),
        (LABELS, {"resolved": True, "half": None, "escalated": False}),
        ({"refund": "Money back.", "other": {"meaning": "All else.", "score": 0}}, {"refund": None, "other": None}),
    ],
    ids=["only one fails", "only one passes", "between", "topics"],
)
async def test_a_label_without_pass_has_the_verdict_of_its_score_once_another_label_has_pass(labels, verdicts):
    evaluator = Classifier(name="outcome", question="How is it?", labels=labels)
    for label, passed in verdicts.items():
        result = await evaluate(evaluator, a_turn(), ScriptedJudge({"reason": "So.", "label": label}), now=a_moment)
        record = make_record(evaluator, a_turn(), result, evaluation_id="e", evaluator_version="v", monitor="m")
        assert (record.label, record.passed) == (label, passed)
    assert evaluator.has_verdicts is any(verdicts.values())


def test_labels_that_all_pass_are_refused():
    labels = {"good": {"meaning": "Fine.", "pass": True}, "bad": {"meaning": "Not fine."}}
    with pytest.raises(ValidationError, match=r"labels: each one passes; write pass: false, or a score below 1"):
        Classifier(name="outcome", question="How is it?", labels=labels)


async def test_judges_of_a_majority_vote_by_the_verdicts_of_their_labels():
    labels = {"good": {"meaning": "Fine.", "pass": True}, "handed on": {"meaning": "m", "score": 0.5, "pass": False}}
    evaluator = Classifier(name="outcome", question="How is it?", labels=labels)
    judges = [ScriptedJudge({"reason": "So.", "label": label}) for label in ("handed on", "handed on", "good")]
    outcome = await outcome_of(Jury(judges, combine="majority"), evaluator, a_turn())
    assert (outcome.value, outcome.label, evaluator.verdict(outcome)) == (0.0, "handed on", False)


async def test_a_threshold_decides_where_there_is_one():
    evaluator = classifier(threshold=0.4)
    result = await evaluate(evaluator, TALK, ScriptedJudge({"reason": "So.", "label": "half"}), now=a_moment)
    record = make_record(evaluator, TALK, result, evaluation_id="e", evaluator_version="v", monitor="m")
    assert (record.label, record.passed) == ("half", True)


async def test_probabilities_give_expectation_confidence_and_entropy():
    judge = ScriptedJudge(weighed_label(token("resolved", resolved=0.6, half=0.3, escalated=0.05, other=0.05)))
    outcome = await outcome_of(judge)
    p = {"resolved": 0.6 / 0.95, "half": 0.3 / 0.95, "escalated": 0.05 / 0.95}
    assert outcome.method == "logprobs"
    assert outcome.kept_mass == pytest.approx(0.95)
    assert outcome.value == pytest.approx(p["resolved"] * 1 + p["half"] * 0.4 + p["escalated"] * 0.1)
    assert outcome.details["confidence"] == pytest.approx(p["resolved"])
    assert outcome.details["entropy"] == pytest.approx(-sum(each * math.log2(each) for each in p.values()))
    assert outcome.details["probabilities"] == pytest.approx(p)


async def test_labels_of_several_tokens_are_followed_token_by_token():
    names = {"topic: refunds": "Money.", "topic: delivery": "Parcels.", "other": "Else."}
    evaluator = Classifier(name="topic", question="What about?", labels=names)
    judge = ScriptedJudge(
        weighed_label(
            token("topic", topic=0.9, other=0.1),
            token(": "),
            token("ref", **{"ref": 0.5, "del": 0.5}),
            token("unds"),
        )
    )
    outcome = await outcome_of(judge, evaluator, a_turn())
    assert outcome.label == "topic: refunds"
    expected = {"topic: refunds": 0.45, "topic: delivery": 0.45, "other": 0.1}
    assert outcome.details["probabilities"] == pytest.approx(expected)


async def test_a_label_that_begins_another_one_ends_at_its_quotation_mark():
    names = {"refused": "No.", "refused wrongly": "No, though it should.", "answered": "Yes."}
    evaluator = Classifier(name="refusal", question="Did it?", labels=names)
    tokens = (token("refused"), token('"}', **{'"}': 0.7, " wrongly": 0.3}))
    judge = ScriptedJudge(answer_of(token('{"reason": "It is.", "label": "'), *tokens))
    outcome = await outcome_of(judge, evaluator, a_turn())
    assert outcome.details["probabilities"] == pytest.approx({"refused": 0.7, "refused wrongly": 0.3})


@pytest.mark.parametrize(
    "tokens",
    [
        (token("resolved", resolved=0.001, half=0.9),),  # forced by a grammar
        (token("resolved", resolved=0.9, half=0.9),),  # no distribution
        (token("resolved", resolved=0.3, Resolution=0.7),),  # too little on labels
    ],
    ids=["forced", "of a neighbour", "elsewhere"],
)
async def test_probabilities_that_cannot_be_trusted_are_not_used(tokens):
    outcome = await outcome_of(ScriptedJudge(weighed_label(*tokens)))
    assert (outcome.method, outcome.value, "confidence" in outcome.details) == ("single", 1.0, False)


async def test_the_label_in_a_reason_is_no_label():
    head = token('{"reason": "\\"label\\": \\"half\\" it is not.", "label": "')
    judge = ScriptedJudge(answer_of(head, token("resolved", resolved=0.8, half=0.2), token('"}')))
    outcome = await outcome_of(judge)
    assert outcome.details["probabilities"] == pytest.approx({"resolved": 0.8, "half": 0.2})


@pytest.mark.parametrize("written", ["Resolved", " resolved. ", '"RESOLVED"'])
async def test_capitals_and_full_stops_do_not_matter(written):
    assert (await outcome_of(ScriptedJudge({"reason": "So.", "label": written}))).label == "resolved"


async def test_another_label_is_no_answer():
    outcome = await outcome_of(ScriptedJudge({"reason": "So.", "label": "solved"}))
    assert isinstance(outcome, Failure)
    assert outcome.type == "judge_reply_invalid"


async def test_the_judge_reads_question_meanings_and_labels_apart_from_the_case():
    judge = ScriptedJudge({"reason": "So.", "label": "half"})
    await outcome_of(judge)
    [asked] = judge.questions
    assert "How did it end?" in asked.prompt.instructions
    assert "- escalated: A person took over." in asked.prompt.instructions
    assert asked.logprobs
    assert asked.reply.model_json_schema()["properties"]["label"]["enum"] == list(LABELS)
    assert "My order is late." not in asked.prompt.instructions


async def test_judges_of_a_jury_vote_on_the_label():
    judges = [ScriptedJudge({"reason": "So.", "label": each}) for each in ("escalated", "resolved", "escalated")]
    outcome = await outcome_of(Jury(judges, combine="mean"))
    assert outcome.label == "escalated"
    assert outcome.value == pytest.approx((0.1 + 1.0 + 0.1) / 3)
    assert [each["label"] for each in outcome.details["judges"]] == ["escalated", "resolved", "escalated"]


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        ({"one": "Only."}, "at least 2"),
        ({"a": "x", "A.": "y"}, "pattern"),
        ({"yes": "x", "Yes": "y"}, "capitals"),
        ({"a": {"meaning": "x", "score": 2}, "b": "y"}, "less than or equal to 1"),
        ({"a": {"meaning": " "}, "b": "y"}, "pattern"),
        ({"a": {"meaning": "x", "passed": True}, "b": "y"}, "passed"),
    ],
)
def test_labels_that_make_no_sense(labels, what):
    with pytest.raises(ValidationError, match=what):
        Classifier(name="c", question="What?", labels=labels)


async def test_a_judge_tells_refusals_that_are_wrong():
    evaluator = make_example(load_evaluators()["judged_refusal"])
    wrong = await evaluate(evaluator, a_turn(), ScriptedJudge({"reason": "So.", "label": "refused wrongly"}))
    right = await evaluate(evaluator, a_turn(), ScriptedJudge({"reason": "So.", "label": "refused rightly"}))
    records = [
        make_record(evaluator, a_turn(), each, evaluation_id="e", evaluator_version="v", monitor="m")
        for each in (wrong, right)
    ]
    assert [(each.score, each.passed) for each in records] == [(0.0, False), (1.0, True)]


class Words(Reply):
    """Two words."""

    first: str
    second: str


@pytest.mark.parametrize("pieces", [("\\xf0\\x9f", "\\x99\\x82"), ("\ufffd", "\ufffd"), (" \\xf0\\x9f\\x99", "\ufffd")])
def test_a_character_in_pieces_hides_no_word_behind_it(pieces):
    """As endpoints give the bytes of 🙂 in a reason."""
    text = '{"reason": "Fine 🙂 so far", "label": "yes"}'
    tokens = [
        token('{"reason": "Fine '),
        *map(token, pieces),
        token(' so far", "label": "'),
        token("yes", yes=0.8, no=0.2),
    ]
    [weighed] = word_distributions(
        Answer(Words(first="", second=""), text, [*tokens, token('"}')]), "label", ("yes", "no")
    )
    assert weighed.masses == pytest.approx({"yes": 0.8, "no": 0.2})


def test_tokens_that_do_not_spell_the_answer_say_nothing():
    text = '{"first": "yes", "second": "no"}'
    assert word_distributions(Answer(Words(first="yes", second="no"), text, [token("else")]), "first", ("yes",)) == ()
