"""What every evaluator keeps to that an entry point names, ours and other people's."""

import asyncio
import dataclasses
import re
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from pydantic import ValidationError

from evaluators.asking.prompt_isolation import sanitize_json
from evaluators.cases import Conversation, Message, ToolCall, ToolDefinition, Turn
from evaluators.catalogue import load_evaluators, make_example
from evaluators.contract import find_breaches
from evaluators.errors import JudgeRejected, JudgeReplyInvalid, JudgeUnavailable
from evaluators.evaluation import evaluate
from evaluators.evaluator import Evaluator
from evaluators.packs.evaluate_pack import evaluate_pack
from evaluators.prompts import load
from evaluators.results import Failure, Score, Skipped
from evaluators.testing import ScriptedJudge, a_moment, answer_any_form

SECRET = "Zanzibar-4711"
"""Stands in every text of the judged cases, and nowhere else."""

PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

FULL_TURN = Turn(
    turn_id="turn-1",
    input=f"What about {SECRET}?",
    actual_output=f'{{"order_id": 1, "note": "About {SECRET}: done [1], and I am glad to help."}}',
    expected_output=f'{{"order_id": 2, "note": "{SECRET} should be done"}}',
    context=(f"{SECRET} is known.",),
    retrieval_context=(f"{SECRET} was found.", "Something else was found."),
    tools_called=(ToolCall(id="1", name="search", arguments={"q": SECRET}, result=SECRET),),
    expected_tools=(ToolCall(name="search", arguments={"q": SECRET}, result=SECRET),),
    tools_offered=(
        ToolDefinition(name="search", description=f"Finds {SECRET}.", parameters=PARAMETERS),
        ToolDefinition(name="order"),
    ),
    model_calls=2,
    system_prompt=f"You know {SECRET}.",
    history=(Message(role="user", content=f"Hello {SECRET}"), Message(role="assistant", content="Hello")),
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    ended_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=4),
    attributes={"shadow.output": f"Nothing about {SECRET}, sorry to say.", "outcome.ticket_reopened": False},
)

FULL_CONVERSATION = Conversation(
    conversation_id="conversation-1",
    turns=(FULL_TURN, dataclasses.replace(FULL_TURN, turn_id="turn-2")),
    chatbot_role=f"A friend of {SECRET}.",
    scenario=f"{SECRET} is asked for.",
    expected_outcome=f"{SECRET} is found.",
    attributes={"outcome.ticket_reopened": False},
)

EVERY = list(load_evaluators().values())
JUDGED = [cls for cls in EVERY if cls.needs_judge]


def named(cls):
    return cls.kind


HANDED_OVER = dataclasses.replace(
    FULL_TURN, tools_called=(*FULL_TURN.tools_called, ToolCall(name="transfer_to_sales", arguments={"about": SECRET}))
)


def case_for(cls):
    if cls.kind == "agent_handover":
        return HANDED_OVER
    return FULL_TURN if cls.scope == "turn" else FULL_CONVERSATION


async def outcome_of(cls, judge, case=None):
    return (await evaluate(make_example(cls), case or case_for(cls), judge, now=a_moment)).outcome


every = pytest.mark.parametrize("cls", EVERY, ids=named)
judged = pytest.mark.parametrize("cls", JUDGED, ids=named)


@every
def test_is_declared(cls):
    assert issubclass(cls, Evaluator)
    assert load_evaluators()[cls.kind] is cls, "the entry point's name is the kind"
    assert cls.__doc__
    assert cls.scope in ("turn", "conversation")
    assert cls.direction in ("higher_is_better", "lower_is_better")
    for field in cls.model_fields.values():
        assert field.description or field.annotation, field


@every
async def test_keeps_what_every_evaluator_promises(cls):
    assert await find_breaches(make_example(cls), case_for(cls)) == []


@every
def test_is_an_immutable_value(cls):
    evaluator = make_example(cls)
    assert evaluator == make_example(cls)
    with pytest.raises(ValidationError):
        evaluator.name = "other"
    assert len(evaluator.version) == 12
    assert evaluator.version == make_example(cls).version == cls(name="other", threshold=0.5, **cls.example).version


@every
def test_definition_survives_being_written_down(cls):
    evaluator = make_example(cls)
    assert cls.model_validate(orjson.loads(evaluator.model_dump_json())) == evaluator
    assert cls.model_json_schema()["additionalProperties"] is False


@every
def test_needs_fields_that_exist(cls):
    for name in make_example(cls).requires:
        if name.startswith("turns."):
            assert cls.scope == "conversation"
            assert hasattr(FULL_TURN, name.removeprefix("turns."))
        else:
            assert name.startswith("attributes.") or hasattr(case_for(cls), name)


@every
async def test_scores_a_case_that_has_everything(cls):
    outcome = await outcome_of(cls, ScriptedJudge(answer_any_form()))
    assert isinstance(outcome, Score)
    lowest, highest = sorted(make_example(cls).score_range)
    assert outcome.range == make_example(cls).score_range
    if outcome.raw_score is not None:
        assert lowest <= outcome.raw_score <= highest
    assert outcome.explanation


@every
async def test_is_skipped_for_each_field_it_needs(cls):
    for name in make_example(cls).requires:
        case = case_for(cls)
        if name.startswith("turns."):
            turns = tuple(dataclasses.replace(turn, **{name.removeprefix("turns."): None}) for turn in case.turns)
            case = dataclasses.replace(case, turns=turns)
        elif name.startswith("attributes."):
            case = dataclasses.replace(case, attributes={})
        else:
            case = dataclasses.replace(case, **{name: () if name in {"retrieval_context", "tools_offered"} else None})
        judge = ScriptedJudge(answer_any_form())
        assert await outcome_of(cls, judge, case) == Skipped(reason=f"missing_field: {name}")
        assert judge.questions == []


@judged
@pytest.mark.parametrize(
    "error",
    [
        JudgeUnavailable("down"),
        JudgeUnavailable("late", type="judge_timeout"),
        JudgeRejected("no"),
        JudgeReplyInvalid("?"),
    ],
    ids=lambda error: error.type,
)
async def test_a_judge_that_fails_makes_no_score(cls, error):
    assert await outcome_of(cls, ScriptedJudge(error)) == Failure(type=error.type, message=str(error))


@judged
async def test_a_judge_that_answers_one_verdict_too_few_makes_no_score(cls):
    def short(prompt, reply):
        filled = answer_any_form()(prompt, reply)
        return {
            name: value[:-1] if counted(reply) and isinstance(value, list) else value for name, value in filled.items()
        }

    def counted(reply):
        return "minItems" in str(reply.model_json_schema())

    judge = ScriptedJudge(short)
    outcome = await outcome_of(cls, judge)
    if any(counted(asked.reply) for asked in judge.questions):
        assert outcome.type == "judge_reply_invalid"


@judged
async def test_judged_texts_reach_the_judge_only_inside_the_fence(cls):
    judge = ScriptedJudge(answer_any_form())
    await outcome_of(cls, judge)
    assert judge.questions
    for asked in judge.questions:
        assert SECRET not in asked.prompt.instructions
        if asked.prompt.constant:
            continue
        match = re.search(r"<<<material (\w{32})>>>\n(.*)\n<<<end of material \1>>>", asked.message)
        assert orjson.loads(match.group(2)) == sanitize_json(asked.prompt.material)
        assert SECRET not in asked.message.replace(match.group(2), "")
    assert any(SECRET in asked.message for asked in judge.questions)


@judged
async def test_the_fixed_part_is_the_same_for_every_case(cls):
    judge = ScriptedJudge(answer_any_form())
    case = case_for(cls)
    other = dataclasses.replace(case, **({"input": "Else?"} if cls.scope == "turn" else {"turns": case.turns[:1]}))
    await outcome_of(cls, judge, case)
    fixed = {asked.prompt.instructions for asked in judge.questions}
    await outcome_of(cls, judge, other)
    assert {asked.prompt.instructions for asked in judge.questions} == fixed


@judged
async def test_instructions_say_the_form_of_the_answer(cls):
    judge = ScriptedJudge(answer_any_form())
    await outcome_of(cls, judge)
    for asked in judge.questions:
        assert "JSON" in asked.prompt.instructions
        for name in asked.reply.model_json_schema()["properties"]:
            assert f'"{name}"' in asked.prompt.instructions
        assert "{{" not in asked.prompt.instructions


@judged
async def test_reasons_come_before_what_they_are_reasons_for(cls):
    judge = ScriptedJudge(answer_any_form())
    await outcome_of(cls, judge)
    for asked in judge.questions:
        schema = asked.reply.model_json_schema()
        for node in [schema, *schema.get("$defs", {}).values()]:
            names = list(node.get("properties", {}))
            for verdict in {"score", "verdict", "label", "on_topic"} & set(names):
                assert names.index("reason") < names.index(verdict)


@judged
def test_prompts_are_files(cls):
    assert make_example(cls).templates
    assert all(load(name).strip() for name in make_example(cls).templates)


@every
async def test_many_tasks_share_one(cls):
    evaluator = make_example(cls)
    judge = ScriptedJudge(answer_any_form())
    results = await asyncio.gather(*(evaluate(evaluator, case_for(cls), judge, now=a_moment) for _ in range(20)))
    assert len({result.outcome.value for result in results}) == 1


@every
async def test_who_needs_no_judge_asks_none(cls):
    if not cls.needs_judge:
        judge = ScriptedJudge(AssertionError("asked"))
        outcome = await outcome_of(cls, judge)
        assert (outcome.method, judge.questions) == ("deterministic", [])


@judged
async def test_takes_as_many_rounds_as_it_says(cls):
    judge = ScriptedJudge(answer_any_form())
    await outcome_of(cls, judge)
    assert len([each for each in judge.questions if not each.prompt.constant]) == make_example(cls).rounds


@judged
async def test_in_a_pack_it_scores_as_it_does_alone(cls):
    """Beside another one of its scope, with answers that carry each question's own key."""
    example = make_example(cls)
    neighbour = make_example(load_evaluators()["g_eval" if cls.scope == "turn" else "conversational_g_eval"])
    alone = await evaluate(example, case_for(cls), ScriptedJudge(answer_any_form(best=False)), now=a_moment)
    judge = ScriptedJudge(answer_any_form(best=False), secret=b"a secret")
    packed, _ = await evaluate_pack([example, neighbour], case_for(cls), judge, now=a_moment)
    assert packed.outcome == alone.outcome
    assert packed.judge == alone.judge
