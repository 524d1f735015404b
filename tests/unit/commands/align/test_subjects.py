"""Contradictions of labels, and the split."""

from __future__ import annotations

import pytest

from collector.commands.align.reading import (
    FEWEST,
    Contradiction,
    LabelledSubject,
    consistent,
    material_of,
    shortage,
    split,
)
from evaluators.cases import Conversation, Turn
from evaluators.conversation.g_eval import ConversationalGEval
from evaluators.turn.prompt import PromptEvaluator

EVALUATOR = PromptEvaluator(name="e", prompt="Is {{actual_output}} an answer to {{input}}?")


def labelled(
    name: str, question: str, answer: str, *, passes: bool, conversation: str = "", at_random: bool = False
) -> LabelledSubject:
    turn = Turn(turn_id=f"of {name}", conversation_id=conversation or name, input=question, actual_output=answer)
    return LabelledSubject(
        name=name,
        case=turn,
        conversation=conversation or name,
        material=material_of(turn, EVALUATOR),
        passes=passes,
        at_random=at_random,
    )


LONG = "Parcels arrive within three working days; for islands it takes two days more. Is there anything else? "


def test_the_same_subject_with_opposite_labels_counts_as_most_say() -> None:
    found = consistent(
        [
            labelled("line 1", "When?", "On  Monday.", passes=True),
            labelled("line 2", "when?", "on monday.", passes=False),
            labelled("line 3", "When?", "On Monday.", passes=True),
            labelled("line 4", "Where?", "Here.", passes=True),
            labelled("line 5", "Where?", "Here.", passes=False),
        ]
    )
    assert found.contradictions == (
        Contradiction(("line 1", "line 3"), ("line 2",)),
        Contradiction(("line 4",), ("line 5",)),
    )
    assert [each.name for each in found.subjects] == ["line 1", "line 3"]


def test_the_same_question_with_another_answer_is_no_contradiction() -> None:
    found = consistent(
        [
            labelled("line 1", LONG, "Yes.", passes=True),
            labelled("line 2", LONG, "No.", passes=False),
        ]
    )
    assert found.contradictions == ()


def test_two_labels_of_one_subject_are_one() -> None:
    label = labelled("line 1", "When?", "Now.", passes=True)
    assert len(consistent([label, label]).subjects) == 1


def test_a_conversation_is_on_one_side_and_so_are_those_that_share_a_text() -> None:
    subjects = [
        labelled(f"line {n}", f"q{n}", f"a{n}", passes=n % 2 == 0, conversation=f"c{n // 3}") for n in range(300)
    ]
    subjects += [labelled(f"copy {n}", f"q{n}", f"a{n}", passes=n % 2 == 0, conversation=f"d{n}") for n in range(300)]
    parts = split(subjects, 0.5)
    again = split(list(reversed(subjects)), 0.5)
    assert {each.name for each in parts.holdout} == {each.name for each in again.holdout}
    assert {each.conversation for each in parts.training}.isdisjoint(each.conversation for each in parts.holdout)
    assert {each.content for each in parts.training}.isdisjoint(each.content for each in parts.holdout)
    assert 0.3 < len(parts.holdout) / len(subjects) < 0.7


def test_what_was_picked_teaches_and_what_was_drawn_is_the_test() -> None:
    subjects = [labelled(f"line {n}", f"q{n}", f"a{n}", passes=n % 2 == 0, at_random=n % 3 == 0) for n in range(180)]
    parts = split(subjects, 0.5)
    assert parts.at_random
    assert all(each.at_random for each in parts.holdout)
    assert sum(not each.at_random for each in parts.training) == 120


def test_where_too_few_were_drawn_all_count_alike() -> None:
    subjects = [labelled(f"line {n}", f"q{n}", f"a{n}", passes=n % 2 == 0, at_random=n < 6) for n in range(100)]
    parts = split(subjects, 0.5)
    assert not parts.at_random
    assert len(parts.training) + len(parts.holdout) == 100


@pytest.mark.parametrize("passes", [True, False])
def test_both_verdicts_are_needed(passes: bool) -> None:
    part = [labelled(f"line {n}", f"q{n}", f"a{n}", passes=passes) for n in range(30)]
    assert shortage(part) == f"0 that people {'fail' if passes else 'pass'}"
    others = [labelled(f"other {n}", f"q{n}", f"a{n}", passes=not passes) for n in range(FEWEST)]
    assert shortage([*part, *others]) is None


def test_of_a_conversation_what_was_said_is_compared() -> None:
    turns = (Turn(input="a", actual_output="b"), Turn(input="c", actual_output="d"))
    case = Conversation(conversation_id="c", turns=turns)
    evaluator = ConversationalGEval(name="e", criteria="Good?")
    assert material_of(case, evaluator) == {
        "turns": [{"input": "a", "actual_output": "b"}, {"input": "c", "actual_output": "d"}]
    }
