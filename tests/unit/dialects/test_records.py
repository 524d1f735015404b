"""Log records: content beside spans, without spans, and who is talking in them."""

from __future__ import annotations

import json
from typing import Any

from made_up import Trace, chat, facts

USER = [{"role": "user", "parts": [{"type": "text", "content": "Is it windy?"}]}]
ASSISTANT = [{"role": "assistant", "parts": [{"type": "text", "content": "Yes."}], "finish_reason": "stop"}]
DETAILS = "gen_ai.client.inference.operation.details"


def details(**more: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": "r-1",
        "gen_ai.input.messages": USER,
        "gen_ai.output.messages": ASSISTANT,
        "gen_ai.system_instructions": [{"type": "text", "content": "Be short."}],
        **more,
    }


def test_records_alone_make_turns() -> None:
    """An application that exports logs and no traces."""
    trace = Trace()
    for number in (1, 2):
        who = {"gen_ai.conversation.id": "c-1", "user.id": "u-1"}
        trace.record(number, DETAILS, None, details(**who, **{"gen_ai.response.id": f"r-{number}"}), at=number)
    turns = trace.turns()
    assert [facts(turn) for turn in turns] == [
        {
            "input": "Is it windy?", "answer": "Yes.", "system": "Be short.", "model": "m-1", "response": f"r-{number}",
            "conversation": "c-1", "user": "u-1",
        }
        for number in (1, 2)
    ]  # fmt: skip


def test_message_records_alone_make_a_turn() -> None:
    trace = Trace()
    trace.record(
        7, "gen_ai.user.message", {"content": "Is it windy?"}, {"gen_ai.system": "openai", "session.id": "s"}, at=1
    )
    trace.record(
        7,
        "gen_ai.choice",
        {"index": 0, "finish_reason": "stop", "message": {"content": "Yes."}},
        {"gen_ai.system": "openai"},
        at=2,
    )
    assert facts(trace.turn()) == {"input": "Is it windy?", "answer": "Yes.", "conversation": "s"}


def test_both_span_and_record_are_one_call() -> None:
    trace = Trace().span(1, "chat", chat("Is it windy?", "Yes.", **{"gen_ai.response.id": "r-1"}))
    turn = trace.record(1, DETAILS, None, details(), at=1.5).turn()
    assert (turn.input, turn.actual_output, turn.system_prompt) == ("Is it windy?", "Yes.", "Be short.")


def test_a_record_names_the_conversation_that_the_span_does_not() -> None:
    trace = Trace().span(1, "chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"})
    assert trace.record(1, DETAILS, None, details(**{"session.id": "s"})).turn().conversation_id == "s"


def test_bodies_that_are_json_and_names_that_are_attributes() -> None:
    """Semantic Kernel logs its messages through Python's logging."""
    trace = Trace().span(1, "chat m-1", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"})
    said = (
        ("system", {"role": "system", "content": "Be short."}),
        ("user", {"role": "user", "content": "Is it windy?"}),
    )
    for name, body in said:
        trace.record(1, "", json.dumps(body), {"event.name": f"gen_ai.{name}.message"})
    trace.record(
        1,
        "",
        json.dumps({"message": ASSISTANT[0] | {"content": "Yes."}, "finish_reason": "stop"}),
        {"event.name": "gen_ai.choice"},
    )
    assert trace.turn().actual_output == "Yes."


def test_semantic_kernels_spans_without_content() -> None:
    held = {"gen_ai.operation.name": "chat.completions", "gen_ai.system": "openai", "gen_ai.request.model": "m-1",
            "gen_ai.response.prompt_tokens": 9, "gen_ai.response.completion_tokens": 4,
            "gen_ai.response.finish_reason": "FinishReason.STOP"}  # fmt: skip
    assert facts(Trace().span(1, "chat.completions m-1", held).turn()) == {
        "model": "m-1", "tokens": (9, 4), "incomplete": "no_content",
    }  # fmt: skip


def test_semantic_kernels_earlier_events() -> None:
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Is it windy?"}]
    events = [
        ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(messages)}),
        ("gen_ai.content.completion", {"gen_ai.completion": json.dumps([{"role": "assistant", "content": "Yes."}])}),
    ]
    held = {"gen_ai.operation.name": "chat.completions", "gen_ai.system": "openai", "gen_ai.request.model": "m-1"}
    turn = Trace().span(1, "chat.completions m-1", held, events=events).turn()
    assert (turn.system_prompt, turn.input, turn.actual_output) == ("Be short.", "Is it windy?", "Yes.")


SPRING = "org.springframework.ai.chat.observation.ChatModel{}ContentObservationHandler"


def test_quotes_and_missing_roles_in_what_spring_ai_logs() -> None:
    """A model's prompt is a list of texts in quotes that are not escaped, without roles; "null" is a requested tool."""
    trace = Trace()
    trace.span(1, "chat m-1", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"})
    texts = '["Be short.", "Hello", "Hi!", "Is "windy" a word?", "null", ""]'
    trace.record(1, "", f"Chat Model Prompt Content:\n{texts}", scope=SPRING.format("Prompt"))
    scope = "org.springframework.ai.chat.observation.ChatModelCompletionObservationHandler"
    trace.record(1, "", 'Chat Model Completion:\n["Yes, "windy" is."]', scope=scope)
    [turn] = trace.turns()
    held = facts(turn)
    assert (held["input"], held["answer"], held["system"]) == ('Is "windy" a word?', 'Yes, "windy" is.', "Be short.")
    assert held["history"] == [("user", "Hello"), ("assistant", "Hi!")]
    assert turn.attributes["input_uncertain"] is True


def claude(trace: Trace, name: str, at: float, **attributes: Any) -> None:
    trace.record(7, "", f"claude_code.{name}", {"event.name": name, "session.id": "s-1", **attributes}, at=at,
                 scope="com.anthropic.claude_code.events")  # fmt: skip


def test_answers_of_claude_code_without_spans_and_bodies() -> None:
    trace = Trace()
    claude(trace, "user_prompt", 1, prompt="Is it windy?")
    claude(trace, "api_request", 2, model="claude-1", input_tokens=4, output_tokens=2)
    claude(trace, "assistant_response", 3, response="Yes.")
    [turn] = trace.turns()
    held = facts(turn)
    assert (held["input"], held["answer"], held["conversation"], held["tokens"]) == (
        "Is it windy?",
        "Yes.",
        "s-1",
        (4, 2),
    )


def test_without_opting_in_claude_codes_turns_have_no_content() -> None:
    trace = Trace()
    claude(trace, "user_prompt", 1, prompt="<REDACTED>", prompt_length=12)
    claude(trace, "api_request", 2, model="claude-1", input_tokens=4, output_tokens=2)
    claude(trace, "assistant_response", 3, response_length=4)
    [turn] = trace.turns()
    assert turn.incomplete in {"redacted", "no_content"}
    assert turn.actual_output is None


def test_a_body_that_was_cut_off_leaves_the_answer() -> None:
    trace = Trace()
    trace.span(7, "claude_code.interaction", {"user_prompt": "Is it windy?"}, scope="com.anthropic.claude_code.tracing")
    claude(trace, "api_request_body", 2, body='{"messages": [{"role": "user", "content": "Is it wi')
    claude(trace, "api_response_body", 3, body='{"role": "assistant", "content": [{"type": "te')
    claude(trace, "assistant_response", 3.1, response="Yes.")
    [turn] = trace.turns()
    assert (turn.input, turn.actual_output, turn.incomplete) == ("Is it windy?", "Yes.", None)
