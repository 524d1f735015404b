"""Evaluators in code take time that grows with the case, or say that it is too large: they run between other work."""

import asyncio
import json
import random
import time

import pytest
from pydantic import ValidationError

from evaluators.cases import ToolCall, Turn
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.results import Failure, Score
from evaluators.turn.tool_calls import _pairs


def outcome_of(kind, turn, **fields):
    evaluator = load_evaluators()[kind](name="e", **fields)
    started = time.process_time()
    outcome = asyncio.run(evaluate(evaluator, turn)).outcome
    return outcome, time.process_time() - started


def schema_outcome(answer, **schema):
    return outcome_of("json_schema", Turn(actual_output=answer), json_schema=schema)


def test_unique_items_of_a_long_list():
    items = [{"at": number, "more": [number]} for number in range(10_000)]
    outcome, spent = schema_outcome(json.dumps(items), type="array", uniqueItems=True)
    assert outcome.value == 1.0
    assert spent < 2
    outcome, _ = schema_outcome(json.dumps([*items, items[7]]), type="array", uniqueItems=True)
    assert outcome.explanation == "violates uniqueItems at $"


@pytest.mark.parametrize(
    ("answer", "unique"), [("[1, true]", True), ("[1, 1.0]", False), ('[{"a": 1, "b": 2}, {"b": 2, "a": 1}]', False)]
)
def test_what_is_unique(answer, unique):
    assert schema_outcome(answer, uniqueItems=True)[0].value == float(unique)


def test_patterns_of_a_schema():
    outcome, spent = schema_outcome(json.dumps("many words " * 3000 + "!"), pattern=r"^(\w+\s?)*$")
    assert outcome.explanation == "violates pattern at $"
    assert spent < 2
    schema = {
        "patternProperties": {r"^\d+$": {"type": "string"}},
        "additionalProperties": False,
        "properties": {"a": {}},
    }
    assert schema_outcome('{"a": 1, "12": "b"}', **schema)[0].value == 1.0
    assert schema_outcome('{"12": 1}', **schema)[0].explanation == "violates type at $['12']"
    assert schema_outcome('{"b": 1}', **schema)[0].explanation == "violates additionalProperties at $"
    schema["additionalProperties"] = {"type": "null"}
    assert schema_outcome('{"b": 1}', **schema)[0].explanation == "violates type at $.b"


def test_a_schema_with_a_pattern_that_needs_backtracking_is_refused():
    with pytest.raises(ValidationError, match=r"pattern '\(\?!a\)b': looks ahead or behind"):
        load_evaluators()["json_schema"](name="e", json_schema={"properties": {"x": {"pattern": "(?!a)b"}}})
    load_evaluators()["json_schema"](
        name="e", json_schema={"enum": [{"pattern": "(?!a)"}], "properties": {"pattern": {}}}
    )


def test_what_takes_the_square_of_an_answer_is_refused_for_long_ones():
    schema = {"prefixItems": [{}], "unevaluatedItems": {"type": "integer"}}
    assert schema_outcome("[1, 2]", **schema)[0].value == 1.0
    outcome, _ = schema_outcome(json.dumps([1] * 20_000), **schema)
    assert outcome.type == "too_expensive"


def test_an_answer_that_is_nested_too_deeply():
    schema = {"items": {"$ref": "#"}}
    assert schema_outcome("[" * 900 + "]" * 900, **schema)[0].type == "too_expensive"


def test_texts_that_are_too_long_for_an_edit_distance():
    turn = Turn(actual_output="ab" * 200_000, expected_output="ba" * 200_000)
    outcome, spent = outcome_of("json_similarity", turn)
    assert isinstance(outcome, Failure)
    assert outcome.type == "too_expensive"
    assert spent < 1
    same = Turn(actual_output="ab" * 200_000, expected_output="ab" * 200_000)
    assert outcome_of("json_similarity", same)[0].value == 1.0


def calls(count, **more):
    return tuple(ToolCall(name="search", arguments=json.dumps({"q": "x" * 200, "n": n, **more})) for n in range(count))


@pytest.mark.parametrize("compare", ["order", "count", "arguments", "output"])
def test_many_tool_calls(compare):
    outcome, spent = outcome_of(
        "tool_calls", Turn(tools_called=calls(1200), expected_tools=calls(600)), compare=compare
    )
    assert isinstance(outcome, Score)
    assert outcome.value == float(compare != "count")
    assert spent < 2


def test_tool_calls_with_more_arguments():
    turn = Turn(tools_called=calls(400, page=1), expected_tools=calls(300))
    outcome, spent = outcome_of("tool_calls", turn, compare="arguments", subset=True)
    assert outcome.value == 1.0
    assert spent < 2
    turn = Turn(tools_called=calls(1200), expected_tools=calls(600))
    assert outcome_of("tool_calls", turn, compare="arguments", subset=True)[0].type == "too_expensive"


def by_trying(fits, used=frozenset()):
    """The largest matching, by trying everything."""
    if not fits:
        return 0
    free = [call for call in range(6) if fits[0] >> call & 1 and call not in used]
    return max([by_trying(fits[1:], used), *(1 + by_trying(fits[1:], used | {call}) for call in free)])


def test_pairs_are_as_many_as_possible():
    chance = random.Random(1)
    for _ in range(300):
        fits = [chance.getrandbits(6) & chance.getrandbits(6) for _ in range(chance.randint(0, 6))]
        assert _pairs(fits) == by_trying(fits)
    assert _pairs([(1 << at) | (1 << at + 1) for at in range(2000)]) == 2000
