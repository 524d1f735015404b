"""Results that a library marks as errors: the call failed, whatever its text begins with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace
from truth import PAYLOADS

from collector.commands.normalize import normalize
from evaluators.agents.tool_outcomes import failure_of
from evaluators.testing import assert_score_async
from evaluators.turn.tool_errors import ToolErrors

TEXT = "String to replace not found in file."
REQUEST = {
    "type": "tool_use",
    "id": "t1",
    "name": "Edit",
    "input": {"file_path": "a.py", "old_string": "x", "new_string": "y"},
}
RESULTS: dict[str, dict[str, Any]] = {
    "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": TEXT, "is_error": True}]},
    "langchain": {"type": "tool", "data": {"content": TEXT, "tool_call_id": "t1", "status": "error"}},
    "bedrock": {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": TEXT}], "status": "error"}}]},
    "ai sdk": {
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": "t1", "output": {"type": "error-text", "value": TEXT}}],
    },
}  # fmt: skip


def turn_with(result: dict[str, Any]) -> Trace:
    messages = [{"role": "user", "content": "Rename x."}, {"role": "assistant", "content": [REQUEST]}, result]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    texts = {
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "I could not."}]),
    }
    return Trace().span(1, "chat m", {**attributes, **texts})


@pytest.mark.parametrize("library", sorted(RESULTS))
async def test_a_result_that_is_marked_is_a_failed_call(library: str) -> None:
    turn = turn_with(RESULTS[library]).turn()
    [call] = turn.tools_called
    assert (call.name, call.result, call.error) == ("Edit", TEXT, TEXT)
    await assert_score_async(turn, ToolErrors(name="t"), at_most=0)


def test_a_result_that_is_not_marked_is_none() -> None:
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": TEXT, "is_error": False}],
    }
    [call] = turn_with(result).turn().tools_called
    assert (call.error, failure_of(call)) == (None, None)


async def test_a_coding_agents_session_is_a_conversation_with_the_outcomes_of_its_tools() -> None:
    turns = list(normalize([PAYLOADS / "claude-agent-sdk"]))
    assert len({turn.conversation_id for turn in turns}) == 1
    assert [len(turn.history) for turn in turns] == [0, 2, 4]
    [turn] = [each for each in turns if each.tools_called]
    [call] = turn.tools_called
    assert (call.name, call.arguments) == ("get_wind", {"place": "Skagen", "day": "tomorrow"})
    assert "No such tool available" in (call.error or "")
    await assert_score_async(turn, ToolErrors(name="t"), at_most=0)
