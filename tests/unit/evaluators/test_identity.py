"""The library and the service name the same evaluation by the same id."""

from __future__ import annotations

from dataclasses import replace

from collector.commands.score.score import jobs_of
from collector.evaluate.plan import Assignment
from evaluators.cases import Conversation, Turn
from evaluators.conversation.completeness import Completeness
from evaluators.evaluator import Evaluator
from evaluators.identity import conversation_id_of, evaluation_id_of, judged_version, turn_id_of
from evaluators.judge import Judge, NoJudge
from evaluators.testing import ScriptedJudge
from evaluators.turn.exact_match import ExactMatch
from evaluators.turn.toxicity import Toxicity

JUDGE = ScriptedJudge("", model="judge-1")
TURNS = (
    Turn(turn_id="turn-1", conversation_id="visit-7", input="a", actual_output="b"),
    Turn(turn_id="turn-2", conversation_id="visit-7", input="c", actual_output="d"),
)


def assigned(evaluator: Evaluator[Turn] | Evaluator[Conversation], judge: Judge) -> Assignment:
    return Assignment(evaluator, judge, judged_version(evaluator, judge.model))


def test_the_service_gives_the_same() -> None:
    kinds = (Toxicity(name="toxic"), ExactMatch(name="exact"), Completeness(name="complete"))
    jobs = list(jobs_of(TURNS, [assigned(each, JUDGE if each.needs_judge else NoJudge()) for each in kinds]))
    assert len(jobs) == 5
    for job in jobs:
        assert evaluation_id_of(job.assignment.evaluator, job.case(), JUDGE) == job.evaluation_id


def test_a_turn_without_a_name_is_named_by_all_that_it_holds() -> None:
    turn = Turn(input="a", actual_output="b")
    assert turn_id_of(turn) == turn_id_of(Turn(input="a", actual_output="b"))
    assert len(turn_id_of(turn)) == 32
    others = (replace(turn, expected_output="c"), replace(turn, context=("c",)), replace(turn, attributes={"a": 1}))
    assert len({turn_id_of(each) for each in (turn, *others)}) == 4


def test_a_conversation_without_a_name_is_named_by_its_first_turn() -> None:
    assert conversation_id_of(Conversation(turns=TURNS)) == "visit-7"
    nameless = Conversation(turns=(Turn(input="a"), Turn(input="b")))
    assert conversation_id_of(nameless) == turn_id_of(Turn(input="a"))
    longer = Conversation(turns=(*nameless.turns, Turn(input="c")))
    complete = Completeness(name="complete")
    assert evaluation_id_of(complete, nameless, JUDGE) != evaluation_id_of(complete, longer, JUDGE)
