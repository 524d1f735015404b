"""Turns by voice: transcripts as question and answer, an interruption, and the wait after the user's speech."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up import ASSEMBLER, Trace, chat

from collector.commands.normalize import normalize

CAPTURE = Path(__file__).parents[2] / "golden" / "otlp" / "openinference-openai-agents-realtime"


def _spoken(turn: Any) -> tuple[Any, Any]:
    return turn.attributes.get("speech_interrupted"), turn.attributes.get("speech_latency_ms")


def test_a_realtime_session_of_openai_agents() -> None:
    spoken = [_spoken(turn) for turn in normalize([CAPTURE], ASSEMBLER)]
    assert spoken == [(None, 201.0), ("true", 0.0), (None, 1.0), (None, 0.0)]


def test_a_span_that_only_speaks_is_no_turn() -> None:
    held = {"openinference.span.kind": "AUDIO", "input.value": "Good morning.", "output.audio.url": "data:audio/wav;…"}
    assert Trace().span(1, "speech", held).turns() == []


def test_an_audio_model_alone_is_a_turn() -> None:
    held = {"openinference.span.kind": "AUDIO", "input.audio.transcript": "Windy?", "output.audio.transcript": "Yes."}
    turn = Trace().span(1, "gpt-audio", held).turn()
    assert (turn.input, turn.actual_output) == ("Windy?", "Yes.")


def test_realtime_inference_of_the_conventions() -> None:
    held = {**chat("Windy?", "Yes, nine"), "gen_ai.operation.name": "realtime_inference"}
    trace = Trace().span(1, "user_speech", {"gen_ai.operation.name": "user_speech", "gen_ai.request.model": "m"})
    turn = trace.span(2, "realtime_inference m", held).turn()
    assert (turn.input, turn.actual_output) == ("Windy?", "Yes, nine")


@pytest.mark.parametrize("pii", ["", "pii."])
def test_livekits_agent_turn_has_both_transcripts(pii: str) -> None:
    held = {"gen_ai.operation.name": "invoke_agent", "lk.generation_id": "g1", "lk.interrupted": True}
    words = {f"lk.{pii}user_input": "Windy?", f"lk.{pii}response.text": "Yes, nine", "lk.e2e_latency": 0.8125}
    trace = Trace().span(1, "agent_session", {"gen_ai.operation.name": "invoke_workflow"}, took=9)
    trace.span(2, "agent_turn", {**held, **words}, parent=1)
    about = {"gen_ai.operation.name": "realtime_inference", "gen_ai.request.model": "gpt-realtime"}
    turn = trace.span(3, "realtime_inference", {**about, "gen_ai.usage.output_tokens": 9}, parent=2).turn()
    assert (turn.input, turn.actual_output, *_spoken(turn)) == ("Windy?", "Yes, nine", "true", 812.5)


def test_pipecats_turn_is_around_the_model() -> None:
    around = {"turn.was_interrupted": True, "turn.user_bot_latency_seconds": 1.2}
    turn = Trace().span(1, "turn", around, took=9).span(2, "llm", chat("Windy?", "Yes."), parent=1).turn()
    assert _spoken(turn) == ("true", 1200.0)


@pytest.mark.parametrize("latency", ["1", True, -1, float("nan"), float("inf")])
def test_a_latency_that_is_none_is_left_out(latency: Any) -> None:
    held = {**chat("Windy?", "Yes."), "time_to_first_token_ms": latency, "end_reason": True}
    assert _spoken(Trace().span(1, "llm", held).turn()) == (None, None)


@pytest.mark.parametrize("heard", ["Yes, nine metres", "Yes"])
def test_an_answer_that_was_cut_off_ends_where_the_user_cut_in(heard: str) -> None:
    held = {"gen_ai.operation.name": "invoke_agent", "lk.generation_id": "g1", "lk.interrupted": True}
    words = {"lk.pii.user_input": "Windy?", "lk.pii.response.text": heard}
    trace = Trace().span(1, "agent_turn", {**held, **words}, took=9)
    turn = trace.span(2, "llm_request", chat("Windy?", "Yes, nine metres a second."), parent=1).turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == ("Windy?", heard, None)


def test_an_input_that_continues_another_calls_is_put_together() -> None:
    before, system = (
        chat("Windy?", "Yes."),
        {"gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]'},
    )
    new = '[{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And at Laeso?"}]'
    after = {**chat("And at Laeso?", "Calm."), "gen_ai.input.messages": new, "lk.input.dropped_from_base": 0}
    whole = Trace().span(1, "llm_request", {**before, **system})
    turn = whole.span(2, "llm_request", {**after, "lk.input.base_span_id": f"{1:016x}"}).turns()[-1]
    assert (turn.input, turn.system_prompt, len(turn.history)) == ("And at Laeso?", "Be brief.", 2)
    assert "truncated_fields" not in turn.attributes
    turn = Trace().span(2, "llm_request", {**after, "lk.input.base_span_id": f"{1:016x}"}).turn()
    assert (turn.input, turn.attributes["truncated_fields"]) == ("And at Laeso?", "history,system_prompt")


def test_an_answer_to_the_beginning_of_a_question_that_was_discarded_is_no_turn() -> None:
    discarded = [("preemptive_generation_discarded", {"lk.speech_id": "s1"})]
    around = {"gen_ai.operation.name": "invoke_agent", "lk.generation_id": "g1", "lk.pii.user_input": "Is it windy?"}
    trace = Trace().span(1, "agent_turn", around, took=9, events=discarded, error="it failed")
    trace.span(2, "llm_request", chat("Is it", "Please go on."), parent=1, at=0)
    trace.span(
        3, "llm_request", {**chat("Is it windy?", ""), "gen_ai.output.messages": None}, parent=1, error="it failed"
    )
    [turn] = trace.turns()
    assert (turn.input, turn.actual_output) == ("Is it windy?", None)
    assert turn.error


def test_an_answer_that_was_cut_off_before_anything_was_heard_is_not_judged() -> None:
    held = {"gen_ai.operation.name": "invoke_agent", "lk.generation_id": "g1", "lk.interrupted": True}
    trace = Trace().span(1, "agent_turn", {**held, "lk.pii.user_input": "Windy?"}, took=9)
    turn = trace.span(2, "llm_request", chat("Windy?", "Yes, nine metres."), parent=1).turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == ("Windy?", None, "no_content")
