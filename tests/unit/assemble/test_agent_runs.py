"""Runs of agents inside a turn: which there are, what is in them, and ids that do not depend on the order of arrival."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from made_up import ASSEMBLER, Trace, chat
from made_up_agents import agent, calling, supervised

from collector.assemble.collect_trace import TracePiece
from collector.assemble.explain import explain, format_lines
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.link.turn_router import has_no_conversation
from collector.records.json import turn_from_json, turn_to_json
from collector.records.turns import turn_outcome, turn_record

RUNS = Assembler(Dialects.installed(), agent_runs=True)


def test_without_the_setting_a_turn_is_all_there_is() -> None:
    assert [each.input for each in supervised().turns()] == ["Plan my trip to Skagen."]


def test_agents_as_tools_are_runs_beside_the_turn() -> None:
    turn, trains, wind = supervised().turns(RUNS)
    assert turn == supervised().turn()  # nothing about the turn changes
    assert (trains.input, trains.actual_output) == ("Which train goes to Skagen?", "The 9:10.")
    assert [(each.name, each.result) for each in trains.tools_called] == [("timetable", "9:10")]
    assert (wind.input, wind.actual_output, wind.tools_called) == ("Is it windy?", "Yes, 11 m/s.", ())
    for run, name, span in ((trains, "trains", 4), (wind, "wind", 11)):
        assert run.agent_run_of == turn.turn_id
        assert (run.conversation_id, run.trace_id) == (turn.conversation_id, turn.trace_id) == ("talk-7", turn.trace_id)
        assert (run.span_id, run.attributes["agent"]) == (span.to_bytes(8, "big").hex(), name)
    assert (trains.model_calls, wind.model_calls) == (2, 1)
    assert len({turn.turn_id, trains.turn_id, wind.turn_id}) == 3


def test_ids_are_the_same_in_any_order_of_arrival_and_again() -> None:
    expected = supervised().turns(RUNS)
    request = supervised().spans
    for seed in range(20):
        pieces = []
        for each in request.resource_spans:
            one = type(request)()
            one.resource_spans.append(each)
            pieces.append(TracePiece("traces", one.SerializeToString()))
        random.Random(seed).shuffle(pieces)
        twice = [*pieces, *pieces[:5]]
        assert [each.turn for each in RUNS.assemble(twice).turns] == expected


def test_a_run_that_answers_like_the_turn_has_an_id_of_its_own() -> None:
    question, answer = "Where is my order?", "It comes today."
    trace = Trace().span(1, "front", agent("front", question, answer), took=20)
    trace.span(2, "chat", calling(question, "transfer_to_orders", {}), parent=1)
    trace.span(3, "orders", agent("orders", question, answer), parent=1, took=5)
    trace.span(4, "chat", chat(question, answer), parent=3)
    turn, run = trace.turns(RUNS)
    assert (turn.input, turn.actual_output) == (run.input, run.actual_output)
    assert (run.attributes["agent"], run.agent_run_of) == ("orders", turn.turn_id)
    assert turn.turn_id != run.turn_id


@pytest.mark.parametrize("around", [{}, {"input.value": "Where is my order?", "output.value": "It comes today."}])
def test_agents_that_hand_over_are_a_run_each(around: dict[str, Any]) -> None:
    question = "Where is my order?"
    trace = Trace().span(1, "workflow", {"openinference.span.kind": "CHAIN", **around}, took=20)
    trace.span(2, "triage", agent("triage", question, None), parent=1, took=3)
    trace.span(3, "chat", calling(question, "transfer_to_orders", {}), parent=2)
    trace.span(5, "orders", agent("orders", question, "It comes today."), parent=1, took=5)
    trace.span(6, "chat", chat(question, "It comes today."), parent=5)
    turn, triage, orders = trace.turns(RUNS)
    assert (turn.actual_output, turn.model_calls, turn.agent_run_of) == ("It comes today.", 2, None)
    assert {triage.agent_run_of, orders.agent_run_of} == {turn.turn_id}
    assert (triage.attributes["agent"], triage.actual_output, triage.incomplete) == ("triage", None, None)
    assert [each.name for each in triage.tools_called] == ["transfer_to_orders"]
    assert (orders.attributes["agent"], orders.actual_output, orders.tools_called) == ("orders", "It comes today.", ())


@pytest.mark.parametrize("inner", ["agent", "AgentExecutor"])
def test_one_agent_seen_twice_is_no_run(inner: str) -> None:
    question, answer = "Where is my order?", "It comes today."
    trace = Trace().span(1, "agent", agent("agent", question, answer), took=20)
    trace.span(2, inner, agent(inner, question, answer), parent=1, took=10)
    trace.span(3, "chat", chat(question, answer), parent=2)
    assert [each.agent_run_of for each in trace.turns(RUNS)] == [None]


def test_agents_in_agents_are_runs_of_the_same_turn() -> None:
    question, answer = "How is it?", "All is well, I think."
    trace = Trace()
    for depth in range(20):
        parent = 10 * depth - 9 if depth else None
        trace.span(
            10 * depth + 1, "agent", agent(f"a{depth}", f"{question} {depth}", answer), parent=parent, took=500 - depth
        )
        trace.span(10 * depth + 2, "chat", chat(f"{question} {depth}", answer), parent=10 * depth + 1)
    turns = trace.turns(RUNS)
    assert len({each.turn_id for each in turns}) == len(turns)
    runs = [each for each in turns if each.agent_run_of]
    assert [each.attributes["agent"] for each in runs] == [f"a{depth}" for depth in range(1, 8)]
    [outer] = [each for each in turns if not each.agent_run_of]
    assert {each.agent_run_of for each in runs} == {outer.turn_id}


def test_a_run_is_a_record_like_a_turn_and_is_not_linked_by_its_history() -> None:
    _, run, _ = supervised().turns(RUNS)
    assert turn_from_json(turn_to_json(run)) == run
    assert turn_record(run).key == b"talk-7"
    assert turn_outcome(run) == ("agent_run", "")
    unnamed = replace(run, conversation_id=None)
    assert not has_no_conversation(unnamed, frozenset({"*"}))
    assert has_no_conversation(replace(unnamed, agent_run_of=None), frozenset({"*"}))


def test_explained_spans_say_whose_run_they_are() -> None:
    turn, trains, _ = supervised().turns(RUNS)
    lines = list(format_lines(explain(turn.trace_id or "", supervised().pieces(), RUNS)))
    assert f"    becomes turn {trains.turn_id}, the run of an agent in turn {turn.turn_id}" in lines


def test_captured_turns_have_no_runs_where_one_agent_works() -> None:
    assert ASSEMBLER.agent_runs is False
    trace = Trace().span(1, "agent", agent("only", "Why?", "Because it is so."), took=9)
    trace.span(2, "chat", chat("Why?", "Because it is so."), parent=1)
    assert len(trace.turns(RUNS)) == 1
