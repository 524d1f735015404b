"""Agents as real libraries report them: the tools they were offered, and faults planted into what they did.

The payloads are of one scenario, in which a user asks for the wind and the agent calls `get_wind`. Each evaluator of
agents that asks nobody is right about the turn as it was captured, and finds the fault that is planted into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from truth import PAYLOADS, folders

from collector.commands.normalize import normalize
from evaluators.cases import ToolCall, Turn
from evaluators.catalogue import load_evaluators
from evaluators.judge import NoJudge

WITHOUT_DEFINITIONS = frozenset(
    {
        "claude-agent-sdk",
        "langsmith-openai",
        "mastra-otel",
        "openinference-dspy",
        "openinference-openai-redacted",
        "openlit",
        "otel-genai-openai-event",
        "otel-openai-v2-events",
        "otel-openai-v2-latest-span",
        "spring-ai-1.1-logs",
        "traceloop-openai-events",
    }
)
"""Payloads whose spans do not define the tools."""


@cache
def agent_turn(folder: str) -> Turn:
    """The turn in which the tool was called."""
    [turn] = [each for each in normalize([PAYLOADS / folder]) if each.tools_called]
    return turn


AGENTS = [each for each in folders() if any(turn.tools_called for turn in normalize([PAYLOADS / each]))]
DEFINING = [each for each in AGENTS if each not in WITHOUT_DEFINITIONS]


def test_there_are_many_libraries() -> None:
    assert len(DEFINING) >= 15


@pytest.mark.parametrize("folder", AGENTS)
def test_tools_that_were_offered_are_read(folder: str) -> None:
    offered = agent_turn(folder).tools_offered
    assert [each.name for each in offered] == ([] if folder in WITHOUT_DEFINITIONS else ["get_wind"])
    assert all("Wind forecast for a place." in (each.description or "") for each in offered)


def with_error(turn: Turn) -> Turn:
    first, *rest = turn.tools_called
    return replace(turn, tools_called=(replace(first, result={"error": "no such place"}), *rest))


def with_repetition(turn: Turn) -> Turn:
    return replace(turn, tools_called=(*turn.tools_called, *turn.tools_called))


def with_another_tool(turn: Turn) -> Turn:
    return replace(
        turn, tools_called=(*turn.tools_called, ToolCall(name="delete_booking", arguments={"id": 7}, result="ok"))
    )


def with_many_calls(turn: Turn) -> Turn:
    calls = tuple(ToolCall(name="get_wind", arguments={"day": day}, result="4 Bft") for day in range(20))
    return replace(turn, tools_called=calls)


def in_another_language(turn: Turn) -> Turn:
    return replace(
        turn, actual_output="Der Wind kommt morgen aus Westen und ist nicht sehr stark, das ist gut für Sie."
    )


FAULTS: Mapping[str, tuple[Mapping[str, Any], Callable[[Turn], Turn]]] = {
    "tool_errors": ({}, with_error),
    "repeated_calls": ({}, with_repetition),
    "tool_policy": ({"allowed": ["get_wind"]}, with_another_tool),
    "run_limits": ({"max_tool_calls": 8}, with_many_calls),
    "answer_language": ({"language": "en"}, in_another_language),
}


@pytest.mark.parametrize("folder", AGENTS)
@pytest.mark.parametrize("kind", FAULTS)
async def test_a_planted_fault_is_found_and_the_clean_twin_is_none(kind: str, folder: str) -> None:
    fields, plant = FAULTS[kind]
    evaluator = load_evaluators()[kind](name=kind, **fields)
    turn = replace(agent_turn(folder), actual_output="The wind is from the west tomorrow, and it is not very strong.")
    assert (await evaluator.evaluate(turn, NoJudge())).value == 1.0
    assert (await evaluator.evaluate(plant(turn), NoJudge())).value < 1.0
