"""The promises of an evaluator, as a check that anybody can run on a class of their own: `await find_breaches(…)`."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from evaluators.asking.judge_input import is_missing, is_program_field, iter_texts
from evaluators.cases import Conversation, Turn
from evaluators.errors import JudgeUnavailable
from evaluators.evaluation import evaluate
from evaluators.evaluator import Evaluator
from evaluators.promises import class_breaches, definition_breaches
from evaluators.questions import QuestionGroup
from evaluators.results import Failure, Score, Skipped
from evaluators.testing import ScriptedJudge, a_moment, answer_any_form

_RECOGNISABLE = 8  # a judged text is recognised in a prompt by at least this many characters


async def find_breaches(evaluator: Evaluator[Any], case: Turn | Conversation) -> list[str]:
    """The promises that an evaluator does not keep, one sentence each; none if all is well.

    `case` has every field that the evaluator needs. No real judge is asked: a stand-in fills each form with the best
    answer.
    """
    return [sentence async for sentence in _breaches(evaluator, case)]


async def _breaches(evaluator: Evaluator[Any], case: Turn | Conversation) -> AsyncIterator[str]:
    seen = [*class_breaches(type(evaluator)), *definition_breaches(evaluator)]
    for sentence in seen:
        yield sentence
    if seen:
        return
    if lacking := sorted(name for name in evaluator.requires if is_missing(case, name)):
        yield f"the case has no {', '.join(lacking)}: give one that has"
        return
    judge = ScriptedJudge(answer_any_form())
    first = (await evaluate(evaluator, case, judge, now=a_moment)).outcome
    again = (await evaluate(evaluator, case, ScriptedJudge(answer_any_form()), now=a_moment)).outcome
    if not isinstance(first, Score | Skipped):
        yield f"it fails on the case: {first.type}: {first.message}"
    if first != again:
        yield "it scores the same case differently with the same answers: it keeps state, or draws lots"
    for sentence in _about_questions(evaluator, case, judge):
        yield sentence
    for sentence in _about_definition(evaluator):
        yield sentence
    down = (await evaluate(evaluator, case, ScriptedJudge(JudgeUnavailable("down")), now=a_moment)).outcome
    if judge.questions and not isinstance(down, Failure):
        yield "it makes something of a judge that gives no answer: let the error through"
    for name in sorted(evaluator.requires):
        if not isinstance((await evaluate(evaluator, _drop_field(case, name), judge, now=a_moment)).outcome, Skipped):
            yield f"it scores a case without {name}, which it says it needs"


def _own_words(group: QuestionGroup) -> list[str]:
    """The texts of a group that are not material."""
    options = [
        word for question in group.questions for option in question.options for word in (option.value, option.meaning)
    ]
    return [group.guide, *(question.text for question in group.questions), *options]


def _about_questions(evaluator: Evaluator[Any], case: Turn | Conversation, judge: ScriptedJudge) -> list[str]:
    sentences: list[str] = []
    if judge.questions and not evaluator.needs_judge:
        sentences.append("it asks a judge: set needs_judge to True")
    if not judge.questions and evaluator.needs_judge and not evaluator.templates:
        sentences.append("it asks no judge: set needs_judge: ClassVar[bool] = False")
    if judge.questions and not evaluator.templates:
        sentences.append("its version does not know what it asks: write prompts: ClassVar[tuple[str, ...]] = (PROMPT,)")
    texts = [text for text in _judged_texts(case) if len(text) >= _RECOGNISABLE]
    if any(text in question.prompt.instructions for question in judge.questions for text in texts):
        sentences.append("it puts judged text into the instructions: give it as the prompt's material")
    typed = [part for question in judge.questions for group in question.prompt.groups for part in _own_words(group)]
    if any(text in part for part in typed for text in texts):
        sentences.append("it puts judged text into a typed question: give it as the prompt's material")
    return sentences


def _about_definition(evaluator: Evaluator[Any]) -> list[str]:
    cls = type(evaluator)
    if not (cls.__doc__ or "").strip() or cls.__doc__ == Evaluator.__doc__:
        return ["it has no docstring: say how it is calculated"]
    if cls.model_validate(evaluator.model_dump(mode="json")) != evaluator:
        return ["its definition does not survive being written down as JSON"]
    return []


def _judged_texts(case: Turn | Conversation) -> list[str]:
    turns = (case,) if isinstance(case, Turn) else case.turns
    texts = [text for turn in turns for text in (turn.input, turn.actual_output, turn.expected_output) if text]
    return texts + [text for turn in turns for text in iter_texts([*(turn.context or ()), *turn.retrieval_context])]


def _drop_field(case: Turn | Conversation, name: str) -> Turn | Conversation:
    """The case with one field taken away, by the names of `Evaluator.requires`."""
    if name.startswith("attributes."):
        remaining = {key: value for key, value in case.attributes.items() if key != name.removeprefix("attributes.")}
        return replace(case, attributes=remaining)
    if isinstance(case, Turn) and is_program_field(name):
        return replace(
            case,
            program_fields={key: program_field for key, program_field in case.program_fields.items() if key != name},
        )
    if isinstance(case, Conversation) and name.startswith("turns."):
        field = name.removeprefix("turns.")
        return replace(case, turns=tuple(replace(turn, **_empty_field(field)) for turn in case.turns))
    return replace(case, **_empty_field(name))


def _empty_field(field: str) -> dict[str, Any]:
    return {field: () if field in {"retrieval_context", "tools_offered"} else None}
