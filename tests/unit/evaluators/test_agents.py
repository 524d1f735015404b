"""Evaluators of agents: values by hand, with what came of each call, and what a judge is asked."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from evaluators.agents.tool_outcomes import failure_of
from evaluators.cases import TokenCount, ToolCall, ToolDefinition, Turn
from evaluators.catalogue import load_evaluators
from evaluators.evaluation import evaluate
from evaluators.records import from_json, to_json
from evaluators.results import Skipped
from evaluators.testing import ScriptedJudge, a_conversation, a_moment, a_turn
from evaluators.turn.plan_adherence import find_plan

START = datetime(2026, 1, 1, tzinfo=UTC)


def call(name="search", arguments=None, result="found", **fields):
    return ToolCall(name=name, arguments=arguments, result=result, **fields)


def calling(*calls, **fields):
    return a_turn("Find it.", "Here it is.", tools_called=calls, **fields)


async def outcome_of(kind, case, judge=None, **fields):
    evaluator = load_evaluators()[kind](name=kind, **fields)
    return (await evaluate(evaluator, case, judge, now=a_moment)).outcome


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ({"error": "no such order"}, True),
        ({"error": None, "rows": []}, False),
        ({"errors": []}, False),
        ({"isError": True, "content": []}, True),
        ({"isError": False, "content": []}, False),
        ({"success": False}, True),
        ({"ok": True}, False),
        ({"status": "error", "detail": "x"}, True),
        ({"status": "shipped"}, False),
        ({"status_code": 404}, True),
        ({"status": 200}, False),
        ({"status": True}, False),
        ('{"error": "timeout"}', True),
        ("Error: file not found", True),
        ("Error executing tool get_wind: 'place'", True),
        ("Traceback (most recent call last):\n  File", True),
        ("openai.RateLimitError: slow down", True),
        ("ValueError: bad date", True),
        ("HTTP 503 Service Unavailable", True),
        ("Tool call failed", True),
        ("The error rate fell to 2 %.", False),
        ("Error rate: 2 %", False),
        ("Error bars are standard errors.", False),
        ("No errors found in 12 files.", False),
        ("Errors are listed below", False),
        ("4 Bft from the west", False),
        ("", False),
        (None, False),
        ([{"error": "in one of many"}], False),
        (42, False),
    ],
)
def test_what_a_result_says_of_itself(result, failed):
    assert (failure_of(call(result=result)) is not None) == failed


def test_what_the_trace_says_of_a_call():
    assert failure_of(call(error="timeout")) == "timeout"


FAILED = {"result": "Error: busy"}


@pytest.mark.parametrize(
    ("calls", "fields", "value", "counts"),
    [
        ((), {}, 1.0, (0, 0)),
        ((call(), call("open")), {}, 1.0, (0, 0)),
        ((call(**FAILED), call()), {}, 1.0, (1, 1)),  # tried again
        ((call(**FAILED), call()), {"count_recovered": False}, 0.5, (1, 1)),
        ((call(), call(**FAILED)), {}, 0.5, (1, 0)),  # never worked again
        ((call(**FAILED), call("open")), {}, 0.5, (1, 0)),  # another tool is no recovery
        ((call(**FAILED), call(**FAILED), call(), call("open", error="x")), {}, 0.75, (3, 2)),
    ],
)
async def test_errors_of_tools_and_recovery(calls, fields, value, counts):
    outcome = await outcome_of("tool_errors", calling(*calls), **fields)
    assert outcome.value == value
    assert (outcome.details["failed"], outcome.details["recovered"]) == counts


@pytest.mark.parametrize(
    ("calls", "fields", "value"),
    [
        ((), {}, 1.0),
        ((call(arguments={"q": 1}), call(arguments={"q": 2})), {}, 1.0),
        ((call(arguments={"q": 1}),) * 4, {}, 0.25),
        ((call(arguments={"q": 1}), call(arguments='{"q": 1}')), {}, 0.5),  # written as text
        ((call(arguments={"q": 1}), call("open", {"q": 1})), {}, 1.0),
        ((call(**FAILED), call(**FAILED), call()), {}, 1.0),  # attempts
        ((call(), call()), {"allowed": 1}, 1.0),
        ((call(), call(), call(), call()), {"allowed": 1}, 0.5),
        ((call("wait"), call("wait"), call()), {"ignore": ["wait"]}, 1.0),
        ((call(arguments=None), call(arguments={})), {}, 0.5),
    ],
)
async def test_repeated_calls(calls, fields, value):
    assert (await outcome_of("repeated_calls", calling(*calls), **fields)).value == value


async def test_thousands_of_calls_are_compared_at_once():
    calls = [call(arguments={"q": n % 2000, "text": "x" * 100}) for n in range(4000)]
    assert (await outcome_of("repeated_calls", calling(*calls))).value == 0.5


@pytest.mark.parametrize(
    ("names", "fields", "value", "says"),
    [
        (["search"], {"allowed": ["search", "open"]}, 1.0, "1 calls, all of them allowed"),
        (["search", "drop"], {"allowed": ["search"]}, 0.0, "drop is not allowed"),
        (["search", "drop"], {"forbidden": ["drop"]}, 0.0, "drop is not allowed"),
        (["search"] * 3, {"most": {"search": 2}}, 0.0, "search was called 3 times, 2 are allowed"),
        (["search"] * 2, {"most": {"search": 2}}, 1.0, "all of them allowed"),
        ([], {"allowed": []}, 1.0, "0 calls"),
        (["search"], {"allowed": []}, 0.0, "search is not allowed"),
    ],
)
async def test_tools_that_may_be_called(names, fields, value, says):
    outcome = await outcome_of("tool_policy", calling(*map(call, names)), **fields)
    assert outcome.value == value
    assert says in outcome.explanation


@pytest.mark.parametrize(
    ("kind", "fields", "what"),
    [
        ("tool_policy", {}, "everything is allowed"),
        ("tool_policy", {"allowed": ["a"], "forbidden": ["a"]}, "is in both"),
        ("tool_policy", {"most": {"a": 0}}, "write it into forbidden"),
        ("run_limits", {}, "at least one of max_tool_calls"),
        ("run_limits", {"max_usd": 1}, "needs usd_per_million"),
        ("answer_language", {"language": "english"}, "pattern"),
    ],
)
def test_configurations_that_make_no_sense(kind, fields, what):
    with pytest.raises(ValidationError, match=what):
        load_evaluators()[kind](name="e", **fields)


RUN = calling(
    call(), call("open"),
    model_calls=3,
    usage=TokenCount(input_tokens=40_000, output_tokens=2_000),
    started_at=START,
    ended_at=START + timedelta(seconds=30),
)  # fmt: skip
PRICES = {"usd_per_million_input_tokens": 2.0, "usd_per_million_output_tokens": 10.0}


@pytest.mark.parametrize(
    ("fields", "value", "says"),
    [
        ({"max_tool_calls": 2}, 1.0, "2 tool_calls of 2"),
        ({"max_model_calls": 2}, 0.5, "3 model_calls of 2"),
        ({"max_steps": 4}, 0.75, "5 steps of 4"),
        ({"max_steps": 2}, 0.0, "5 steps of 2"),
        ({"max_input_tokens": 50_000}, 1.0, "40000 input_tokens"),
        ({"max_output_tokens": 1_600}, 0.75, "2000 output_tokens of 1600"),
        ({"max_usd": 0.08, **PRICES}, 0.75, "0.1 usd of 0.08"),  # 0.08 for reading, 0.02 for writing
        ({"max_seconds": 20}, 0.5, "30 seconds of 20"),
        ({"max_tool_calls": 1, "max_seconds": 60}, 0.0, "2 tool_calls of 1"),  # the worst counts
    ],
)
async def test_limits_of_a_run(fields, value, says):
    outcome = await outcome_of("run_limits", RUN, **fields)
    assert outcome.value == pytest.approx(value)
    assert says in outcome.explanation


@pytest.mark.parametrize(
    ("field", "lacking"), [("max_steps", "model_calls"), ("max_input_tokens", "usage"), ("max_seconds", "ended_at")]
)
async def test_what_a_turn_does_not_tell_is_not_judged(field, lacking):
    assert await outcome_of("run_limits", calling(call()), **{field: 5}) == Skipped(reason=f"missing_field: {lacking}")


async def test_the_cost_of_a_task_is_that_of_its_turns_if_it_was_completed():
    talk = a_conversation(("a", "b"), ("c", "d"))
    done = replace(talk, turns=(RUN, RUN))
    outcome = await outcome_of("task_cost", done, max_usd=0.16, **PRICES)
    assert outcome.value == pytest.approx(0.75)  # 0.20 of 0.16
    assert outcome.details["steps"] == 10
    failed = replace(done, turns=(RUN, replace(RUN, actual_output=None, error="timeout")))
    assert await outcome_of("task_cost", failed, max_usd=0.16, **PRICES) == Skipped(reason="not_completed")


@pytest.mark.parametrize(
    ("question", "answer", "fields", "expected"),
    [
        ("Where is my order and when does it arrive?", "It is on its way and will be with you on Monday.", {}, 1.0),
        ("Wo ist meine Bestellung und wann kommt sie an?", "It is on its way and will be with you on Monday.", {}, 0.0),
        ("Where is it?", "Die Bestellung ist unterwegs und kommt am Montag bei Ihnen an.", {"language": "de"}, 1.0),
        ("注文した商品はいつ届きますか？", "明日の午後にお届けします。", {}, 1.0),
        ("注文した商品はいつ届きますか？", "您的包裹明天下午送到。", {}, 0.0),
        ("ok", "It is on its way and will be with you on Monday.", {}, "input"),
        ("Where is my order and when does it arrive?", "42", {}, "actual_output"),
    ],
)
async def test_the_language_of_the_answer(question, answer, fields, expected):
    outcome = await outcome_of("answer_language", a_turn(question, answer), **fields)
    if isinstance(expected, str):
        assert outcome == Skipped(reason=f"unclear_language: {expected}")
    else:
        assert outcome.value == expected


# By a judge


OFFERED = (ToolDefinition(name="search", description="Finds pages."), ToolDefinition(name="open"))


def verdicts(*words):
    return {"verdicts": [{"number": n, "reason": f"r{n}", "verdict": word} for n, word in enumerate(words, start=1)]}


async def test_tools_are_judged_among_those_that_were_offered():
    judge = ScriptedJudge(verdicts("yes", "no", "unclear"))
    case = calling(call(arguments={"q": "x"}), call("open"), tools_offered=OFFERED)
    outcome = await outcome_of("tool_selection", case, judge)
    assert outcome.value == pytest.approx(2 / 3)
    [asked] = judge.questions
    assert asked.prompt.material["tools_offered"] == [
        {"name": "search", "description": "Finds pages."},
        {"name": "open"},
    ]
    assert [each["item"] for each in asked.prompt.material["items"]] == [
        {"call": 1, "tool": "search", "arguments": {"q": "x"}},
        {"call": 2, "tool": "open", "arguments": None},
        {"item": "no tool that was offered and needed was left out"},
    ]
    nothing = await outcome_of("tool_selection", calling(tools_offered=OFFERED), ScriptedJudge(verdicts("no")))
    assert nothing.value == 0.0  # a tool was needed and never called
    skipped = await outcome_of("tool_selection", calling(call()), ScriptedJudge(AssertionError("asked")))
    assert skipped == Skipped(reason="missing_field: tools_offered")


@pytest.mark.parametrize(("kind", "value"), [("argument_grounding", 2 / 3), ("result_use", 2 / 3)])
async def test_calls_get_a_verdict_each(kind, value):
    judge = ScriptedJudge(verdicts("yes", "no", "unclear"))
    outcome = await outcome_of(kind, calling(call(), call("open"), call("open", {"a": 1})), judge)
    assert outcome.value == pytest.approx(value)
    assert "Item 2: r2" in outcome.explanation


@pytest.mark.parametrize("kind", ["argument_grounding", "result_use"])
async def test_without_calls_nobody_is_asked(kind):
    judge = ScriptedJudge(AssertionError("asked"))
    assert (await outcome_of(kind, calling(), judge)).value == 1.0


async def test_only_calls_that_something_came_of_have_a_result_to_use():
    judge = ScriptedJudge(verdicts("yes", "no"))
    case = calling(call(result=None), call("open", result="text"), call("write", result=None, error="denied"))
    outcome = await outcome_of("result_use", case, judge)
    assert outcome.value == 0.5
    assert [each["item"]["call"] for each in judge.questions[0].prompt.material["items"]] == [2, 3]


async def test_steps_of_a_plan_get_a_verdict_each():
    judge = ScriptedJudge(verdicts("yes", "unclear"))
    outcome = await outcome_of("plan_adherence", calling(call()), judge, plan=["Look it up.", "Answer."])
    assert outcome.value == 0.5
    assert "1 of 2 steps were followed" in outcome.explanation


def test_what_agents_were_offered_and_did_reads_back_the_same():
    turn = calling(call(error="x"), tools_offered=OFFERED, model_calls=2)
    assert from_json(to_json(turn), Turn) == turn
    assert b"tools_offered" not in to_json(calling(call()))
    assert b"model_calls" not in to_json(calling(call()))


WIND = ToolDefinition(
    name="wind",
    parameters={
        "type": "object",
        "properties": {
            "place": {"type": "string"},
            "hours": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "unit": {"type": "string", "enum": ["knots", "m/s"]},
            "at": {
                "type": "array",
                "items": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            },
            "more": {"type": "object", "additionalProperties": True, "properties": {}},
        },
        "required": ["place"],
    },
)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"place": "Skagen"}, None),
        ('{"place": "Skagen", "hours": 3}', None),
        ({"place": "Skagen", "hours": None, "unit": None}, None),
        ({"place": "Skagen", "hours": 3.0, "at": [{"x": 1}, {"x": 1.5}], "more": {"any": 1}}, None),
        ({"args": [], "kwargs": {"place": "Skagen"}}, None),
        ({}, "place is missing"),
        (None, "place is missing"),
        ({"place": 7}, "place should be string, not integer"),
        ({"place": None}, "place should be string, not null"),
        ({"place": "Skagen", "hours": "3"}, "hours is none of what is allowed"),
        ({"place": "Skagen", "hours": True}, "hours is none of what is allowed"),
        ({"place": "Skagen", "unit": "miles"}, "unit is none of the values that are allowed"),
        ({"place": "Skagen", "at": [{"x": 1}, {}]}, "at[1].x is missing"),
        ({"place": "Skagen", "at": {"x": 1}}, "at should be array, not object"),
        ({"place": "Skagen", "town": "x"}, "town is not a parameter"),
    ],
)
async def test_arguments_and_the_definition_of_their_tool(arguments, problem):
    outcome = await outcome_of("argument_schema", calling(call("wind", arguments), tools_offered=(WIND,)))
    assert outcome.value == float(problem is None)
    assert [each["problems"] for each in outcome.details["wrong"]] == ([[problem]] if problem else [])


async def test_what_cannot_be_compared_is_not_counted():
    calls = (call("wind", {"place": 7}), call("wind", {"place": "x"}), call("else", {}), call("wind", "[redacted"))
    outcome = await outcome_of("argument_schema", calling(*calls, tools_offered=(WIND,)))
    assert (outcome.value, outcome.details["compared"], outcome.details["not_offered"]) == (0.5, 2, 1)
    strict = await outcome_of("argument_schema", calling(*calls, tools_offered=(WIND,)), only_offered=True)
    assert strict.value == pytest.approx(1 / 3)
    assert "else: was not offered" in strict.explanation
    skipped = await outcome_of("argument_schema", calling(call("else", {}), tools_offered=(WIND,)))
    assert skipped == Skipped(reason="missing_field: tools_offered")
    assert (await outcome_of("argument_schema", calling())).value == 1.0


async def test_parameters_are_shown_to_a_judge_only_if_that_is_wanted():
    for wanted in (False, True):
        judge = ScriptedJudge(verdicts("yes", "yes"))
        await outcome_of("tool_selection", calling(call("wind"), tools_offered=(WIND,)), judge, parameters=wanted)
        material = judge.questions[0].prompt.material
        assert material["tools_offered"] == [{"name": "wind"}]
        assert material.get("parameters") == ({"wind": WIND.parameters} if wanted else None)


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        ({"todos": [{"content": "One.", "status": "done"}, {"content": "Two."}]}, ["One.", "Two."]),
        ({"plan": [{"step": "One.", "status": "pending"}], "explanation": "x"}, ["One."]),
        ('{"steps": ["One.", "Two.", "One."]}', ["One.", "Two."]),
        ({"plan": "Plan:\n1. One.\n2) Two.\n- [ ] Three.\nSo."}, ["One.", "Two.", "Three."]),
        ({"todos": []}, []),
        ({"query": "x"}, []),
        (None, []),
    ],
)
def test_plans_as_agents_write_them_down(arguments, steps):
    assert find_plan([call("search", {"steps": ["no"]}), call("TodoWrite", arguments)]) == steps


def test_a_plan_is_all_that_was_ever_on_it():
    first = call("update_plan", {"plan": [{"step": "One."}, {"step": "Two."}]})
    later = call("update_plan", {"plan": [{"step": "Two."}, {"step": "Three."}]})
    assert find_plan([first, later]) == ["One.", "Two.", "Three."]


HANDING_OVER = [
    "transfer_to_billing",
    "handoff_to_agent",
    "hand_off_to_sales",
    "transfer_to_agent",
    "delegate_to_coder",
    "handoff",
    "delegate_work_to_coworker",
    "ask_question_to_coworker",
    "transferToBilling",
    "bank",
]


@pytest.mark.parametrize("name", [*HANDING_OVER, "Delegate work to coworker"])
async def test_calls_that_hand_over(name):
    judge = ScriptedJudge(verdicts("no"))
    outcome = await outcome_of("agent_handover", calling(call("search"), call(name)), judge, tools=["bank"])
    assert (outcome.value, outcome.explanation) == (0.0, "0 of 1 hand-overs are right. Item 1: r1")
    assert [each["item"]["call"] for each in judge.questions[0].prompt.material["items"]] == [2]


@pytest.mark.parametrize("name", ["transfer_money", "search", "route_plan", "get_handoff_report"])
async def test_calls_that_do_not_hand_over(name):
    judge = ScriptedJudge(AssertionError("asked"))
    assert (await outcome_of("agent_handover", calling(call(name)), judge)).value == 1.0
