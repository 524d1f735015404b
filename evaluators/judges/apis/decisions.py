"""OpenAI's Decisions: `POST /decisions`. Answers come in the order of the questions; any may be a refusal.

The judged text comes first, so that a provider's prompt cache has it for the next questions about it.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from evaluators.cases import Json
from evaluators.judges.apis import deciding
from evaluators.judges.apis.payload import objects, text
from evaluators.questions import Decision

MOST_QUESTIONS = 400


def body(request: deciding.DecisionRequest) -> dict[str, Json]:
    """The request's JSON."""
    messages: list[Json] = [{"role": "user", "content": request.fenced}]
    if guides := _shared_guides(request.questions):
        messages.append({"role": "developer", "content": "\n\n".join(guides)})
    return {
        "model": request.model,
        "input": messages,
        "questions": [_question(question) for question in request.questions],
        **request.extra,
    }


def _shared_guides(questions: Sequence[deciding.NumberedQuestion]) -> list[str]:
    """The guides that several questions share, each once."""
    shared = [question for question in questions if question.shares_guide]
    runs = [(guide, [question.name for question in run]) for guide, run in groupby(shared, key=lambda each: each.guide)]
    return [f"How to answer the questions {names[0]} to {names[-1]}:\n{guide}" for guide, names in runs]


def _question(numbered: deciding.NumberedQuestion) -> dict[str, Json]:
    instructions = numbered.question.text if numbered.shares_guide else numbered.text
    named: dict[str, Json] = {"name": numbered.name, "instructions": instructions}
    if deciding.is_predicate(numbered):
        return {"type": "predicate", **named}
    if deciding.is_score(numbered):
        return {"type": "score", **named, "levels": _described("label", numbered)}
    return {"type": "choice", **named, "choices": _described("value", numbered)}


def _described(key: str, numbered: deciding.NumberedQuestion) -> list[Json]:
    values = numbered.meanings.items()
    return [{key: value, "description": meaning} if meaning else {key: value} for value, meaning in values]


def decisions(value: Any, questions: Sequence[deciding.NumberedQuestion]) -> list[Decision]:
    """See `DecidingApi.decisions`."""
    answers = objects(value)
    by_name = {answer["name"]: answer for answer in answers if isinstance(answer.get("name"), str)}
    nothing: list[dict[str, Any]] = [{}] * len(questions)
    in_order = answers if len(answers) == len(questions) and not by_name else nothing
    pairs = zip(questions, in_order, strict=True)
    return [_decision(by_name.get(question.name, answer), question) for question, answer in pairs]


def _decision(answer: dict[str, Any], numbered: deciding.NumberedQuestion) -> Decision:
    kind = answer.get("type")
    if kind != _question(numbered)["type"]:
        return deciding.REFUSED if kind == "refusal" else deciding.UNUSABLE
    if kind == "predicate":
        return deciding.of_predicate(numbered, answer.get("probability"))
    key = "label" if kind == "score" else "value"
    shares = {
        text(probability.get(key)) or "": probability.get("probability")
        for probability in objects(answer.get("probabilities"))
    }
    return numbered.decision(shares)


DECISIONS = deciding.DecidingApi(
    name="decisions", path="/decisions", body=body, decisions=decisions, most=MOST_QUESTIONS
)
