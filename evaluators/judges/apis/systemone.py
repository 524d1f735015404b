"""System One: `POST /systemone`. Questions and answers are maps by name; each question carries all that it needs.

Servers read each question by itself, beside the state, so each question repeats a shared guide.
"""

from collections.abc import Sequence
from typing import Any, cast

from evaluators.asking.prompt_isolation import sanitize_json
from evaluators.cases import Json
from evaluators.judges.answer_places import mapping
from evaluators.judges.apis import deciding
from evaluators.judges.apis.payload import probability
from evaluators.questions import Decision

MOST_QUESTIONS = 255
"""No limit is documented; providers have their own."""


def body(request: deciding.DecisionRequest) -> dict[str, Json]:
    """The request's JSON."""
    return {
        "model": request.model,
        "state": sanitize_json(cast("Json", request.material)),
        "questions": {question.name: _question(question) for question in request.questions},
        **request.extra,
    }


def _question(numbered: deciding.NumberedQuestion) -> dict[str, Json]:
    if deciding.is_predicate(numbered):
        return {"type": "noul", "instructions": numbered.text}
    meanings = {value: meaning or value for value, meaning in numbered.meanings.items()}
    if deciding.is_score(numbered):
        levels = [value if meaning == value else f"{value}: {meaning}" for value, meaning in meanings.items()]
        return {"type": "score", "instructions": numbered.text, "criteria": levels}
    return {"type": "choice", "instructions": numbered.text, "criteria": meanings}


def decisions(value: Any, questions: Sequence[deciding.NumberedQuestion]) -> list[Decision]:
    """See `DecidingApi.decisions`."""
    answers = mapping(value)
    return [_decision(mapping(answers.get(question.name)), question) for question in questions]


def _decision(answer: dict[str, Any], numbered: deciding.NumberedQuestion) -> Decision:
    kind = answer.get("type")
    if kind != _question(numbered)["type"]:
        return deciding.REFUSED if kind == "refusal" else deciding.UNUSABLE
    kept_mass = probability(answer.get("option_mass"))
    if kind == "noul":
        return deciding.of_predicate(numbered, answer.get("noul"), kept_mass)
    shares = mapping(answer.get("probabilities"))
    if kind == "score":  # by the level's index, as text
        indices = {str(index): value for index, value in enumerate(numbered.order)}
        shares = {indices.get(index, index): share for index, share in shares.items()}
    return numbered.decision(shares, kept_mass)


SYSTEMONE = deciding.DecidingApi(
    name="systemone", path="/systemone", body=body, decisions=decisions, most=MOST_QUESTIONS
)
