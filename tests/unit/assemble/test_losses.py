"""What a sender cut or dropped is never filled with what is not whole itself."""

from __future__ import annotations

import json

from made_up import Trace, chat

OLD, QUESTION, ANSWER = "May I take a cargo bike?", "So which crossing is calmer?", "The crossing to Endelave."
HISTORY = [
    {"role": "user", "parts": [{"type": "text", "content": OLD}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "Yes, for 65 kroner."}]},
]
ANSWERED = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]


def cut_call(length: int = 160) -> dict[str, object]:
    asked = [*HISTORY, {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.input.messages": json.dumps(asked)[:length],
        "gen_ai.output.messages": json.dumps(ANSWERED),
    }


def test_the_question_of_a_cut_span_fills_no_gap() -> None:
    agent = {**cut_call(), "gen_ai.operation.name": "invoke_agent"}
    turn = Trace().span(1, "agent", agent, took=9).span(2, "chat", cut_call(), parent=1).turn()
    assert (turn.input, turn.incomplete) == (None, "truncated")


def test_the_question_of_a_whole_span_does_and_what_was_cut_is_named() -> None:
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]),
        "gen_ai.output.messages": json.dumps(ANSWERED),
    }
    turn = Trace().span(1, "agent", agent, took=9).span(2, "chat", cut_call(), parent=1).turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == (QUESTION, ANSWER, None)
    assert turn.attributes["truncated_fields"] == "history,system_prompt,retrieval_context,tools_called"


def test_why_an_answer_is_missing_is_told_by_the_agent_if_its_last_call_only_asks_for_a_tool() -> None:
    agent = {**chat(QUESTION, ANSWER), "gen_ai.operation.name": "invoke_agent"}
    agent["gen_ai.output.messages"] = agent["gen_ai.output.messages"][:-20]
    wanted = {"type": "tool_call", "id": "t", "name": "find_crossing", "arguments": {}}
    call = {**chat(QUESTION, ""), "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [wanted]}])}
    turn = Trace().span(1, "agent", agent, took=9).span(2, "chat", call, parent=1).turn()
    assert (turn.input, turn.actual_output, turn.incomplete) == (QUESTION, None, "truncated")


def test_messages_that_a_limit_dropped_were_the_last() -> None:
    held = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": OLD,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    assert Trace().span(1, "chat", held, dropped=3).turn().incomplete == "evicted_attributes"
    assert Trace().span(1, "chat", held).turn().incomplete is None


def test_an_operation_with_a_name_of_its_own_is_a_call_if_it_encloses_nothing() -> None:
    operation = {**chat(QUESTION, ANSWER), "gen_ai.operation.name": "llm_call"}
    turn = Trace().span(1, "llm_call", operation).turn()
    assert (turn.input, turn.actual_output) == (QUESTION, ANSWER)
    around = Trace().span(1, "plan", operation, took=9).span(2, "chat", chat(QUESTION, ANSWER), parent=1)
    assert [(turn.input, turn.span_id) for turn in around.turns()] == [(QUESTION, f"{2:016x}")]


def test_a_call_of_an_unknown_operation_may_fail() -> None:
    operation = {**chat(QUESTION, ""), "gen_ai.operation.name": "llm_call"}
    del operation["gen_ai.output.messages"]
    assert Trace().span(1, "llm_call", operation, error="503").turn().error == "503"


def test_chunks_in_googles_form_are_one_answer() -> None:
    chunks = [
        {"role": "model", "parts": [{"text": text, **more}]}
        for text, more in (("hm", {"thought": True}), ("The crossing", {}), (" to Endelave.", {}))
    ]
    operation = {
        **chat(QUESTION, ""),
        "gen_ai.operation.name": "llm_call",
        "gen_ai.output.messages": json.dumps(chunks, separators=(",", ":")),
    }
    assert Trace().span(1, "llm_call", operation).turn().actual_output == ANSWER
