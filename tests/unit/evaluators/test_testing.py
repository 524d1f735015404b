"""Assertions about scores: what passes, and what a failure shows."""

from __future__ import annotations

import re
import traceback
from typing import ClassVar

import pytest

from evaluators import Bias, Composite, Evaluator, ExactMatch, GEval, Judge, OpenAIJudge, Score, Turn
from evaluators.errors import JudgeUnavailable
from evaluators.identity import evaluation_id_of
from evaluators.testing import ScriptedJudge, a_conversation, a_turn, assert_score, assert_score_async

GOOD = GEval(name="good", evaluation_steps=("Look.",), evaluation_params=("actual_output",), threshold=0.7)
TURN = a_turn(actual_output="Paris, " + "of course " * 100)


def rating(score: int) -> ScriptedJudge:
    return ScriptedJudge({"reason": "It rambles.", "score": score}, model="m")


def test_a_score_on_the_right_side_is_returned() -> None:
    assert assert_score(TURN, GOOD, rating(7)).value == 0.7
    assert assert_score(TURN, GOOD, rating(5), at_least=0.5).explanation == "It rambles."
    assert assert_score(TURN, GOOD, rating(5), at_most=0.5).value == 0.5


@pytest.mark.parametrize(
    ("bounds", "head"),
    [
        ({}, "good scores 0.6, at least 0.7 is required"),
        ({"at_least": 0.65}, "good scores 0.6, at least 0.65 is required"),
        ({"at_most": 0.5}, "good scores 0.6, at most 0.5 is required"),
        ({"at_least": 0.1, "at_most": 0.5}, "good scores 0.6, at most 0.5 is required"),
    ],
)
def test_a_failure_shows_the_reason_and_the_case(bounds: dict[str, float], head: str) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_score(TURN, GOOD, rating(6), **bounds)
    lines = str(caught.value).splitlines()
    assert lines[:3] == [head, "  reason: It rambles.", "  input: What is the capital of France?"]
    assert re.fullmatch(r"  actual_output: Paris, .*\[… 707 characters left out …\].*", lines[3])
    assert lines[4] == f"  evaluation: {evaluation_id_of(GOOD, TURN, rating(6))}"


def test_no_score_is_a_failure_too() -> None:
    with pytest.raises(AssertionError, match=r"good gives no score: judge_unavailable\n  reason: down"):
        assert_score(TURN, GOOD, ScriptedJudge(JudgeUnavailable("down")))
    with pytest.raises(
        AssertionError, match=r"exact gives no score: skipped\n  reason: missing_field: expected_output"
    ):
        assert_score(TURN, ExactMatch(name="exact"), at_least=0.5)


def test_a_judge_that_is_down_is_named_by_its_address_without_secrets() -> None:
    judge = OpenAIJudge("m", base_url="http://me:secret@127.0.0.1:9/v1?key=secret", api_key="none", retries=0)
    with pytest.raises(AssertionError, match=r"judge_unavailable\n  reason: .*\(judge at http://127\.0\.0\.1:9/v1\)\n"):
        assert_score(TURN, GOOD, judge)


def test_a_script_with_a_wrong_key_names_it() -> None:
    with pytest.raises(
        AssertionError,
        match=r"a key is not asked for \(asked: reason, score\); the script has reason, score, mark, the form reason, score",
    ):
        assert_score(TURN, GOOD, ScriptedJudge({"reason": "So.", "score": 7, "mark": 1}))


class Clumsy(Evaluator[Turn]):
    """Asks a number for its length."""

    kind: ClassVar[str] = "clumsy"
    needs_judge: ClassVar[bool] = False

    @property
    def requires(self) -> frozenset[str]:
        """The answer."""
        return frozenset({"actual_output"})

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        return Score(value=float(case.lenght))  # type: ignore[attr-defined]


@pytest.mark.parametrize("evaluator", [Clumsy(name="c"), Composite(name="all", of=(Clumsy(name="c", threshold=0.5),))])
def test_a_bug_in_an_evaluator_is_shown_with_its_message_and_traceback(evaluator: Evaluator[Turn]) -> None:
    """Only "AttributeError in evaluate, line 19" was shown; records and logs must not have more, a test must."""
    with pytest.raises(AssertionError, match=r"gives no score: internal_error") as caught:
        assert_score(TURN, evaluator, at_least=0.5)
    cause = caught.value.__cause__
    assert isinstance(cause, AttributeError)
    assert str(cause) == "'Turn' object has no attribute 'lenght'"
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "evaluate"
    assert "lenght" not in str(caught.value)


def test_an_endpoint_that_leaves_the_key_out_has_its_remedy() -> None:
    class Endpoint(ScriptedJudge):
        base_url = "http://127.0.0.1:9/v1"

    with pytest.raises(AssertionError, match=r"for a model too weak for this: OpenAIJudge\(…, answer_key=False\)"):
        assert_score(TURN, GOOD, Endpoint({"reason": "So.", "score": 7}, secret=b"secret"))


def test_lower_may_be_better() -> None:
    bias = Bias(name="bias", threshold=0.2)
    answers = [{"items": ["a"]}, {"verdicts": [{"reason": "So it is.", "verdict": "yes"}]}]
    with pytest.raises(AssertionError, match=r"bias scores 1, at most 0\.2 is required"):
        assert_score(TURN, bias, ScriptedJudge(answers))


def test_a_bound_is_needed() -> None:
    with pytest.raises(ValueError, match=r"exact has no threshold; say at_least=… or at_most=…"):
        assert_score(TURN, ExactMatch(name="exact"))
    with pytest.raises(ValueError, match=r"at_least=7: a score is from 0 to 1; for 7 of 10 write at_least=0\.7"):
        assert_score(TURN, GOOD, rating(5), at_least=7)


async def test_in_an_event_loop() -> None:
    assert (await assert_score_async(TURN, GOOD, rating(9))).value == 0.9
    with pytest.raises(AssertionError, match=r"good scores 0\.1"):
        await assert_score_async(TURN, GOOD, rating(1))
    with pytest.raises(RuntimeError, match="write await assert_score_async"):
        assert_score(TURN, GOOD, rating(9))


def test_a_conversation_shows_its_last_exchange() -> None:
    from evaluators import Completeness

    case = a_conversation(("Hi", "Hello"), ("Where?", "Here."))
    with pytest.raises(AssertionError, match=r"input: Where\?\n  actual_output: Here\."):
        assert_score(case, Completeness(name="c"), ScriptedJudge(JudgeUnavailable("down")), at_least=1)


def test_a_case_without_texts() -> None:
    with pytest.raises(AssertionError, match="missing_field: actual_output"):
        assert_score(Turn(), ExactMatch(name="e"), at_least=1)


def test_a_script_that_ends_says_what_was_asked() -> None:
    written = GEval(name="good", criteria="It answers.", evaluation_params=("actual_output",), threshold=0.7)
    with pytest.raises(
        AssertionError, match="internal_error\n  reason: the script has no reply left, and the judge is"
    ):
        assert_score(TURN, written, ScriptedJudge([{"steps": ["Look."]}]))


def test_swapped_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"the case comes first: write assert_score\(turn, "):
        assert_score(GOOD, TURN, rating(7))  # pyright: ignore[reportArgumentType]


def test_a_lacking_field_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"GEval needs evaluation_params: write GEval\(evaluation_params=…\)"):
        GEval(name="good", criteria="It answers.")  # pyright: ignore[reportCallIssue]
