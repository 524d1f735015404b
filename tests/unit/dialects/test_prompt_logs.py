"""Programs on the command line that write log records without a trace: a turn for each prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace

from collector.receive.parsed_request import give_traces


def _record(trace: Trace, name: str, at: float, **held: Any) -> None:
    place = "event session_telemetry.rs:123" if name.startswith("codex.") else name
    trace.record(None, place, attributes={"event.name": name, **held}, at=at)


def _chunks(*texts: str, **more: Any) -> str:
    return json.dumps([{"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]} for text in texts])


def _asked(program: str = "gemini_cli", prompt: str = "Is it windy?") -> Trace:
    trace = Trace(trace_id="00" * 16)
    _record(trace, f"{program}.user_prompt", 1, **{"session.id": "s1", "prompt_id": "s1########0", "prompt": prompt})
    return trace


ABOUT = {"session.id": "s1", "prompt_id": "s1########0", "model": "gemini-3-pro"}
CALL = json.dumps([{"candidates": [{"content": {"role": "model", "parts": [{"thought": True, "text": "Hm."},
    {"functionCall": {"id": "t1", "name": "wind", "args": {"place": "Endelave"}}}]}}]}])  # fmt: skip


@pytest.mark.parametrize("program", ["gemini_cli", "qwen-code"])
def test_a_prompt_is_a_turn_with_its_tools_and_its_answer(program: str) -> None:
    trace = _asked(program)
    request = [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Hello."}]}]
    asked = json.dumps([*request, {"role": "user", "parts": [{"text": "Is it windy?"}]}])
    _record(trace, f"{program}.api_response", 1.5, **ABOUT, role="utility_router", response_text=_chunks("flash"))
    _record(trace, f"{program}.api_request", 2, **ABOUT, role="main", request_text=asked)
    _record(trace, f"{program}.api_response", 3, **ABOUT, role="main", response_text=CALL)
    _record(trace, f"{program}.api_response", 4, **ABOUT, role="main", response_text=_chunks("Yes, ", "nine metres."))
    assert give_traces(trace.logs)
    turn = trace.turn()
    assert (turn.conversation_id, turn.input, turn.actual_output) == ("s1", "Is it windy?", "Yes, nine metres.")
    assert (turn.incomplete, turn.error, turn.model) == (None, None, "gemini-3-pro")
    assert [(call.name, call.arguments) for call in turn.tools_called] == [("wind", {"place": "Endelave"})]
    assert [message.content for message in turn.history] == ["Hi", "Hello."]


def test_an_answer_to_the_program_is_none_of_the_turn() -> None:
    trace = _asked()
    _record(trace, "gemini_cli.api_response", 2, **ABOUT, response_text=_chunks("Yes."))
    _record(trace, "gemini_cli.api_response", 3, **ABOUT, response_text=_chunks('{"next_speaker": "user"}'))
    give_traces(trace.logs)
    assert trace.turn().actual_output == "Yes."


def test_a_call_that_failed_at_last_is_a_failed_turn() -> None:
    trace = _asked()
    _record(trace, "gemini_cli.api_error", 2, **ABOUT, role="main", **{"error.message": "quota"})
    give_traces(trace.logs)
    assert (trace.turn().error, trace.turn().actual_output) == ("quota", None)
    _record(trace, "gemini_cli.api_response", 3, **ABOUT, role="main", response_text=_chunks("Yes."))
    give_traces(trace.logs)
    assert (trace.turn().error, trace.turn().actual_output) == (None, "Yes.")


def test_a_prompt_whose_calls_are_spans_is_no_second_turn() -> None:
    trace = _asked()
    assert give_traces(trace.logs)
    assert trace.turns() == []


@pytest.mark.parametrize(("prompt", "question"), [("Fix it.", "Fix it."), ("[REDACTED]", None)])
def test_codex_writes_no_answers(prompt: str, question: str | None) -> None:
    traces = [Trace(trace_id="00" * 16) for _ in range(2)]
    for at, trace in enumerate(traces):
        _record(trace, "codex.user_prompt", at, **{"conversation.id": "c1", "prompt": prompt, "model": "gpt-5"})
        assert give_traces(trace.logs)
    first, second = (trace.turn() for trace in traces)
    assert first.trace_id != second.trace_id
    assert (first.conversation_id, first.input, first.incomplete) == ("c1", question, "no_content")
