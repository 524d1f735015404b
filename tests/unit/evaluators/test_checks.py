"""Evaluators that compute their score without a judge."""

import json
import time
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from pydantic import ValidationError

from evaluators.cases import ToolCall
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.results import Skipped
from evaluators.testing import ScriptedJudge, a_moment, a_turn


async def outcome_of(kind, turn, **fields):
    evaluator = load_evaluators()[kind](name=kind, **fields)
    return (await evaluate(evaluator, turn, ScriptedJudge(AssertionError("asked")), now=a_moment)).outcome


async def value_of(kind, turn, **fields):
    return (await outcome_of(kind, turn, **fields)).value


def answer(text, **fields):
    return a_turn(actual_output=text if isinstance(text, str) else orjson.dumps(text).decode(), **fields)


# exact_match


@pytest.mark.parametrize(
    ("actual", "expected", "fields", "value"),
    [
        ('{"b": 2, "a": 1}', '{"a": 1, "b": 2}', {}, 1.0),
        ('{"a": "X"}', '{"a": "x"}', {}, 0.0),
        ('{"a": "X"}', '{"a": "x"}', {"case_sensitive": False}, 1.0),
        ('{"a": {"b": [1, 2]}}', '{"a": {"b": [1, 3]}}', {"target_output_key": "a.b[0]"}, 1.0),
        ('{"a": 12345}', "12345", {"target_output_key": "a"}, 1.0),
        ("12345", "12345.0", {}, 1.0),
        ("007", "7", {}, 0.0),  # no JSON
        ("12345678901234567890123", "12345678901234567890124", {}, 0.0),
        ('{"id": 12345678901234567890123}', '{"id": 12345678901234567890124}', {}, 0.0),
        ('{"id": 12345678901234567890123}', '{"id": 12345678901234567890123}', {}, 1.0),
        ('{"a": true}', '{"a": 1}', {}, 0.0),
        ('{"a": [0]}', '{"a": [false]}', {}, 0.0),
        ('{"a": true}', "true", {"target_output_key": "a"}, 1.0),
        ('{"a": 1}', '{"a": 1.0}', {}, 1.0),
        ('{"A": "X"}', '{"a": "x"}', {"case_sensitive": False}, 1.0),
        ("[]", "[]", {}, 1.0),
        ("{}", "[]", {}, 0.0),
        ("[" * 900 + "]" * 900, "[" * 900 + "]" * 900, {}, 1.0),
        ("[" * 900 + "]" * 900, "[" * 899 + "]" * 899, {}, 0.0),
    ],
)
async def test_exact_match(actual, expected, fields, value):
    assert await value_of("exact_match", answer(actual, expected_output=expected), **fields) == value


# contains, regex


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"search_text": "paris"}, 1.0),
        ({"search_text": "paris", "case_sensitive": True}, 0.0),
        ({"search_text": "rome"}, 0.0),
        ({"search_text": "rome", "negated": True}, 1.0),
    ],
)
async def test_contains(fields, value):
    assert await value_of("contains", answer("It is Paris."), **fields) == value


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"pattern": r"\bP\w+s\b"}, 1.0),
        ({"pattern": r"\bp\w+s\b"}, 0.0),
        ({"pattern": r"\bp\w+s\b", "case_sensitive": False}, 1.0),
        ({"pattern": r"Paris", "match": "whole"}, 0.0),
        ({"pattern": r"It is \w+\.", "match": "whole"}, 1.0),
        ({"pattern": r"Rome", "negated": True}, 1.0),
    ],
)
async def test_regex(fields, value):
    assert await value_of("regex", answer("It is Paris.\n"), **fields) == value


@pytest.mark.parametrize(("length", "truncated"), [(100_000, False), (100_001, True)])
async def test_a_regex_says_how_far_it_looked(length, truncated):
    outcome = await outcome_of("regex", answer("x" * length), pattern="y")
    assert (outcome.details.get("truncated", False), "first 100,000" in outcome.explanation) == (truncated, truncated)


def test_a_pattern_that_does_not_compile():
    with pytest.raises(ValidationError, match="not a regular expression"):
        load_evaluators()["regex"](name="r", pattern="(")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "looks ahead or behind"),
        ("(?<!a)b", "looks ahead or behind"),
        (r"(a)\1", "refers back to a group"),
        ("(?>a)", "has an atomic group"),
        ("a++", "possessive repetition"),
        (r"(?:\w{1000}){1000}", "too large"),
    ],
)
def test_a_pattern_that_needs_backtracking_is_refused(pattern, reason):
    with pytest.raises(ValidationError, match=reason):
        load_evaluators()["regex"](name="r", pattern=pattern)


async def test_no_pattern_makes_a_search_slow():
    started = time.process_time()
    for pattern in (r"(\w+\s?)*", r"(a|a)*b", r"(.*)*x"):
        await value_of("regex", answer("many words " * 9000 + "!"), pattern=pattern, match="whole")
    assert time.process_time() - started < 2


# json_schema

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "minimum": 1}}}


@pytest.mark.parametrize(
    ("text", "value", "explanation"),
    [
        ('{"id": 1}', 1.0, "fits the schema"),
        ('```json\n{"id": 1}\n```', 1.0, "fits the schema"),
        ('{"id": 0}', 0.0, "violates minimum at $.id"),
        ("{}", 0.0, "violates required at $"),
        ("sorry", 0.0, "is no JSON"),
        ("", 0.0, "is no JSON"),
    ],
)
async def test_json_schema(text, value, explanation):
    outcome = await outcome_of("json_schema", answer(text), json_schema=SCHEMA)
    assert (outcome.value, outcome.explanation) == (value, explanation)


@pytest.mark.parametrize("schema", [{"required": ["id"]}, {"type": ["object", "string"]}, {}])
async def test_prose_is_no_json_whatever_the_schema_takes(schema):
    assert await value_of("json_schema", answer("Sorry, I cannot."), json_schema=schema) == 0.0
    assert await value_of("json_schema", answer('{"id": 1}'), json_schema=schema) == 1.0


def test_a_schema_that_takes_no_text_keeps_its_version():
    cls = load_evaluators()["json_schema"]
    calculations = [
        cls(name="j", json_schema=schema).calculation for schema in (SCHEMA, {"type": ["null", "array"]}, {})
    ]
    assert calculations == [1, 1, 2]


def test_a_schema_that_is_none():
    with pytest.raises(ValidationError, match="no JSON Schema"):
        load_evaluators()["json_schema"](name="j", json_schema={"type": "objekt"})


async def test_a_reference_to_elsewhere_is_not_fetched():
    outcome = await outcome_of("json_schema", answer("{}"), json_schema={"$ref": "http://127.0.0.1:9/schema"})
    assert (outcome.type, "not fetched" in outcome.message) == ("evaluation_error", True)


# latency, length


@pytest.mark.parametrize(("seconds", "value"), [(0, 1.0), (2, 1.0), (6, 0.5), (10, 0.0), (99, 0.0)])
async def test_latency(seconds, value):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    turn = a_turn(started_at=start, ended_at=start + timedelta(seconds=seconds))
    outcome = await outcome_of("latency", turn, target=2, limit=10)
    assert (outcome.value, outcome.raw_score) == (value, seconds)


async def test_latency_does_not_need_to_know_what_was_said():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    turn = a_turn(None, None, incomplete="no_content", started_at=start, ended_at=start)
    assert await value_of("latency", turn, target=2, limit=10) == 1.0


async def test_a_clock_that_went_back():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    turn = a_turn(started_at=start, ended_at=start - timedelta(seconds=1))
    assert await outcome_of("latency", turn, target=2, limit=10) == Skipped(reason="invalid_field: ended_at")


@pytest.mark.parametrize(
    ("words", "fields", "value"),
    [
        (0, {"minimum": 4}, 0.0),
        (2, {"minimum": 4}, 0.5),
        (4, {"minimum": 4, "maximum": 8}, 1.0),
        (8, {"minimum": 4, "maximum": 8}, 1.0),
        (12, {"maximum": 8}, 0.5),
        (16, {"maximum": 8}, 0.0),
        (99, {"maximum": 8}, 0.0),
    ],
)
async def test_length(words, fields, value):
    assert await value_of("length", answer("word " * words), **fields) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002",
            11,
        ),  # one sentence, no space; its full stop is one, too
        ("GPT-4 \u306f\u901f\u3044", 4),
        ("\uc11c\uc6b8\uc740 \uc218\ub3c4\ub2e4", 2),  # Korean has spaces
        ("It is Paris.", 3),
    ],
)
async def test_words_without_spaces_between_them(text, words):
    outcome = await outcome_of("length", answer(text), maximum=1000)
    assert outcome.details["length"] == words


async def test_length_in_characters():
    assert await value_of("length", answer("12345"), unit="characters", maximum=5) == 1.0


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("latency", {"target": 5, "limit": 5}),
        ("length", {}),
        ("length", {"minimum": 5, "maximum": 4}),
        ("tool_calls", {"strict": True, "compare": "count"}),
        ("tool_calls", {"compare": "count", "counts": {"a": "many"}}),
        ("tool_calls", {"compare": "order", "counts": {"a": "1"}}),
    ],
)
def test_limits_that_make_no_sense(kind, fields):
    with pytest.raises(ValidationError):
        load_evaluators()[kind](name=kind, **fields)


# refusal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I'm sorry, but I can't help with that.", 1.0),
        ("I\u2019m sorry, I cannot assist with this request.", 1.0),
        ("As an AI language model, I cannot have opinions.", 1.0),
        ("I must decline.", 1.0),
        ("That is against my guidelines.", 1.0),
        ("I can't provide that information", 1.0),
        ("Sorry for the delay! Your order is on its way.", 0.0),
        ("You can't return shoes after 30 days.", 0.0),
        ("I can help with that.", 0.0),
        ("a" * 500 + " I cannot help", 0.0),
        ("Das darf ich nicht beantworten.", 1.0),
    ],
)
async def test_refusal(text, value):
    assert await value_of("refusal", answer(text), phrases=["darf ich nicht"]) == value


# json_similarity


@pytest.mark.parametrize(
    ("expected", "actual", "value"),
    [
        ({"a": 1}, {"a": 1}, 1.0),
        ({"a": 10}, {"a": 8}, 0.8),
        ({"a": 10}, {"a": 30}, 0.0),
        ({"a": 0}, {"a": 0}, 1.0),
        ({"a": 0}, {"a": 1}, 0.0),
        ({"a": -10}, {"a": -9}, 0.9),
        ({"a": "kitten"}, {"a": "sitting"}, 1 - 3 / 7),
        ({"a": ""}, {"a": ""}, 1.0),
        ({"a": True}, {"a": True}, 1.0),
        ({"a": True}, {"a": 1}, 0.0),
        ({"a": None}, {"a": None}, 1.0),
        ({"a": None}, {}, 0.0),
        ({"a": 1}, {"a": "1"}, 0.0),
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": 5}, 1 / 3),
        ({"a": [1, 2, 3]}, {"a": [1, 2]}, 2 / 3),
        ({"a": [1]}, {"a": [1, 2], "z": 9}, 1.0),
        ({"a": {}}, {"a": 5}, 1.0),
        ({}, {"a": 5}, 1.0),
        ({"a": 10**400}, {"a": 1}, 0.0),
    ],
)
async def test_json_similarity(expected, actual, value):
    turn = answer(json.dumps(actual), expected_output=json.dumps(expected))
    assert await value_of("json_similarity", turn) == pytest.approx(value)


async def test_texts_that_are_no_json_are_compared_as_texts():
    assert await value_of("json_similarity", answer("sitting", expected_output="kitten")) == pytest.approx(1 - 3 / 7)


@pytest.mark.parametrize(
    ("actual", "expected", "value"),
    [
        ("42", "40", 0.95),  # numbers, not texts
        ('{"a": true}', '{"a": 1}', 0.0),
        ('{"id": 12345678901234567890123}', '{"id": 12345678901234567890123}', 1.0),
        ("about 42", "42", 0.25),
    ],
)
async def test_what_is_alike(actual, expected, value):
    turn = answer(actual, expected_output=expected)
    assert await value_of("json_similarity", turn) == pytest.approx(value)


async def test_what_is_nested_too_deeply_is_a_counted_failure():
    deep = "[" * 900 + "]" * 900
    turn = answer(deep, expected_output=deep)
    assert (await outcome_of("json_similarity", turn)).type == "too_expensive"
    called, expected = calls("a", arguments=deep), calls("a", arguments=deep)
    assert (await outcome_of("tool_calls", tools(called, expected), compare="arguments")).type == "too_expensive"


# tool_calls


def calls(*names, **fields):
    return tuple(ToolCall(name=name, **fields) for name in names)


def tools(called, expected=None):
    return a_turn(tools_called=called, expected_tools=expected)


@pytest.mark.parametrize(
    ("called", "expected", "strict", "value"),
    [
        ("abc", "abc", False, 1.0),
        ("axbyc", "abc", False, 1.0),
        ("axbyc", "abc", True, 0.0),
        ("abc", "abc", True, 1.0),
        ("cba", "abc", False, 1 / 3),
        ("ac", "abcd", False, 0.5),
        ("", "", False, 1.0),
        ("", "a", False, 0.0),
        ("a", "", False, 0.0),
    ],
)
async def test_tool_order(called, expected, strict, value):
    assert await value_of("tool_calls", tools(calls(*called), calls(*expected)), strict=strict) == pytest.approx(value)


@pytest.mark.parametrize(
    ("called", "counts", "value"),
    [
        ("aab", {"a": ">= 2", "b": "1"}, 1.0),
        ("aab", {"a": "= 1", "b": "< 2"}, 0.5),
        ("", {"a": "= 0"}, 1.0),
        ("", {"a": "!= 0"}, 0.0),
        ("aaa", {"a": "<= 2"}, 0.0),
        ("aaa", {"a": "> 2", "b": "== 0"}, 1.0),
    ],
)
async def test_tool_count(called, counts, value):
    assert await value_of("tool_calls", tools(calls(*called)), compare="count", counts=counts) == value


async def test_tool_count_by_expected_calls():
    assert await value_of("tool_calls", tools(calls(*"aab"), calls(*"aabb")), compare="count") == 0.5


async def test_tool_arguments():
    expected = (ToolCall(name="a", arguments={"x": 1}), ToolCall(name="a", arguments={"x": 2}))
    called = (
        ToolCall(name="a", arguments='{"x": 2}'),
        ToolCall(name="b", arguments={"x": 1}),
        ToolCall(name="a", arguments={"x": 1, "y": 3}),
    )
    assert await value_of("tool_calls", tools(called, expected), compare="arguments") == 0.5
    assert await value_of("tool_calls", tools(called, expected), compare="arguments", subset=True) == 1.0


async def test_a_call_is_not_taken_from_the_only_one_it_fits():
    expected = (ToolCall(name="a", arguments={}), ToolCall(name="a", arguments={"x": 1}))
    called = (ToolCall(name="a", arguments={"x": 1}), ToolCall(name="a", arguments={"y": 1}))
    assert await value_of("tool_calls", tools(called, expected), compare="arguments", subset=True) == 1.0


async def test_calls_without_arguments():
    assert await value_of("tool_calls", tools(calls("a"), calls("a", arguments={})), compare="arguments") == 1.0


async def test_tool_output():
    called = (ToolCall(name="a", result='{"n": 1}'), ToolCall(name="b", result="x"))
    expected = (ToolCall(name="a", result={"n": 1}), ToolCall(name="b", result="y"))
    assert await value_of("tool_calls", tools(called, expected), compare="output") == 0.5


async def test_without_expected_calls_there_is_nothing_to_compare():
    assert await outcome_of("tool_calls", tools(calls("a"))) == Skipped(reason="missing_field: expected_tools")


async def test_true_is_not_1_in_arguments():
    called, expected = calls("a", arguments={"x": True}), calls("a", arguments={"x": 1})
    assert await value_of("tool_calls", tools(called, expected), compare="arguments") == 0.0
    assert await value_of("tool_calls", tools(called, expected), compare="arguments", subset=True) == 0.0


@pytest.mark.parametrize("arguments", [None, {}, {"x": 1}, "free text", [1, 2]])
async def test_an_expected_call_without_arguments_takes_any_with_subset(arguments):
    called, expected = calls("a", arguments=arguments), calls("a")
    assert await value_of("tool_calls", tools(called, expected), compare="arguments", subset=True) == 1.0


@pytest.mark.parametrize("compare", ["order", "count", "arguments", "output"])
async def test_calls_beyond_the_expected_lower_the_score_where_they_are_forbidden(compare):
    turn = tools(calls(*"abc"), calls(*"ab"))
    assert await value_of("tool_calls", turn, compare=compare) == 1.0
    assert await value_of("tool_calls", turn, compare=compare, forbid_extra=True) == pytest.approx(2 / 3)
    assert await value_of("tool_calls", tools(calls("a"), calls(*"ab")), compare=compare, forbid_extra=True) == 0.5


def test_forbidden_calls_and_conditions_are_two_ways_to_say_it():
    with pytest.raises(ValidationError, match="forbid_extra and counts"):
        load_evaluators()["tool_calls"](name="t", compare="count", counts={"a": "1"}, forbid_extra=True)
