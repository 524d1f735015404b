"""Traces of agents that call agents, made up for a test."""

from __future__ import annotations

import json
from typing import Any

from made_up import START, TRACE, Trace, chat, parts


def agent(name: str, question: str, answer: str | None, **more: Any) -> dict[str, Any]:
    fields = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": name,
        "gen_ai.input.messages": parts(("user", question)),
        **more,
    }
    return fields if answer is None else {**fields, "gen_ai.output.messages": parts(("assistant", answer))}


def calling(question: str, tool: str, arguments: Any) -> dict[str, Any]:
    """A model call that requests a tool."""
    call = {"type": "tool_call", "id": f"c-{tool}", "name": tool, "arguments": arguments}
    asked = chat(question, None)
    asked["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": [call]}])
    return asked


def supervised(trace_id: str = TRACE, *, start: int = START) -> Trace:
    """A supervisor that has two agents as tools; one of them uses a tool."""
    trace = Trace(trace_id, start=start)
    question, answer = "Plan my trip to Skagen.", "Take the 9:10 train; it is windy."
    trace.span(1, "trip", agent("supervisor", question, answer, **{"gen_ai.conversation.id": "talk-7"}), took=30)
    trace.span(2, "chat", calling(question, "ask_trains", {"q": "trains"}), parent=1)
    trace.span(
        3, "ask_trains", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask_trains"}, parent=1, took=5
    )
    trace.span(4, "trains", agent("trains", "Which train goes to Skagen?", "The 9:10."), parent=3, took=4)
    trace.span(5, "chat", calling("Which train goes to Skagen?", "timetable", {"to": "Skagen"}), parent=4)
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "timetable",
        "gen_ai.tool.call.id": "c-timetable",
    }
    trace.span(6, "timetable", {**tool, "gen_ai.tool.call.result": "9:10"}, parent=4)
    trace.span(7, "chat", chat("Which train goes to Skagen?", "The 9:10."), parent=4)
    trace.span(
        10, "ask_wind", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask_wind"}, parent=1, took=3
    )
    trace.span(11, "wind", agent("wind", "Is it windy?", "Yes, 11 m/s."), parent=10, took=2)
    trace.span(12, "chat", chat("Is it windy?", "Yes, 11 m/s."), parent=11)
    return trace.span(20, "chat", chat(question, answer), parent=1)
