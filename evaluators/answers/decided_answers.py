"""Answers made of decisions, as a chat model would write them if it always chose the most probable option.

So an evaluator reads every judge's answer in one form; the probabilities are beside it.
"""

from collections.abc import Mapping, Sequence, Set as AbstractSet
from functools import cache
from typing import Any, cast

import orjson
from pydantic import BaseModel, ValidationError

from evaluators.cases import Json
from evaluators.errors import JudgeReplyInvalid
from evaluators.judge import Answer, R
from evaluators.questions import Decision, ScoreQuestion, TypedQuestion


def decided_answer(reply: type[R], questions: Sequence[TypedQuestion], decisions: Sequence[Decision]) -> Answer[R]:
    """The answer that decisions make, one decision for each question, in order. The answer's reasons are empty.

    Raises:
        JudgeReplyInvalid: a question was refused, or the form has a place that no question fills.
    """
    if problems := {decision.problem for decision in decisions if decision.refused}:
        raise _failure(problems)
    placed: dict[Any, Any] = {}
    for question, decision in zip(questions, decisions, strict=True):
        value = int(decision.choice) if isinstance(question, ScoreQuestion) else decision.choice
        _set_at(placed, question.place, value)
    schema = _schema(reply)
    value = _fill(schema, schema.get("$defs", {}), placed)
    try:
        parsed = reply.model_validate(value)
    except ValidationError:
        raise JudgeReplyInvalid("the decisions do not make up the answer that was asked for") from None
    return Answer(parsed, orjson.dumps(value).decode(), decisions=tuple(decisions))


def _failure(problems: AbstractSet[str]) -> JudgeReplyInvalid:
    if "judge_refused" in problems:
        return JudgeReplyInvalid("the judge refused to answer", type="judge_refused")
    return JudgeReplyInvalid("the judge left a question without an answer, or answered it in another form")


def _set_at(tree: dict[Any, Any], place: Sequence[str | int], value: Json) -> None:
    for step in place[:-1]:
        tree = tree.setdefault(step, {})
    tree[place[-1]] = value


@cache
def _schema(reply: type[BaseModel]) -> Mapping[str, Any]:
    return reply.model_json_schema()


def _fill(node: Mapping[str, Any], definitions: Mapping[str, Any], placed: Any) -> Json:
    """The value of a form: the placed values, and empty texts and lists for its other required fields."""
    if "$ref" in node:
        return _fill(definitions[node["$ref"].rpartition("/")[2]], definitions, placed)
    if placed is not None and not isinstance(placed, dict):
        return placed
    tree = cast("dict[Any, Any]", placed or {})
    match node.get("type"):
        case "object":
            named = [name for name in node["properties"] if name in tree or name in node.get("required", ())]
            return {name: _fill(node["properties"][name], definitions, tree.get(name)) for name in named}
        case "array":
            return [_fill(node.get("items", {}), definitions, tree[at]) for at in sorted(tree)]
        case "string":
            return ""
        case _:
            return None
