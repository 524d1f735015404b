"""The attachments of a turn: each once, with its place, within limits."""

from __future__ import annotations

import json
from typing import Any

from made_up import Trace, chat

from collector.records.attachments import MOST_ATTACHMENTS, within_limits
from collector.records.ready_made import turns_in
from evaluators.cases import Attachment


def uri(name: str) -> dict[str, str]:
    return {"type": "uri", "modality": "image", "uri": f"https://cdn.example.com/{name}.png"}


def message(role: str, *parts: Any) -> dict[str, Any]:
    return {
        "role": role,
        "parts": [{"type": "text", "content": each} if isinstance(each, str) else each for each in parts],
    }


def call(question: str, answer: str | None, messages: list[Any], **more: Any) -> dict[str, Any]:
    return chat(question, answer, **{"gen_ai.input.messages": json.dumps(messages)}, **more)


def places(attachments: tuple[Attachment, ...]) -> list[tuple[str, str]]:
    return [
        (each.place, (each.url or "").removeprefix("https://cdn.example.com/").removesuffix(".png"))
        for each in attachments
    ]


def test_where_they_belong() -> None:
    asked = [
        message("user", "First", uri("old")), message("assistant", "One."),
        message("user", uri("sent-before")), message("user", "Second", uri("new")),
    ]  # fmt: skip
    wanted = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "map", "arguments": {}}]}]
    result = {"type": "tool_call_response", "id": "c", "response": [uri("map")]}
    trace = Trace().span(1, "chat", call("Second", None, asked, **{"gen_ai.output.messages": json.dumps(wanted)}))
    answer = [message("assistant", "Two.", uri("drawn"))]
    step = [*asked, *wanted, {"role": "tool", "parts": [result]}]
    trace.span(2, "chat", call("Second", None, step, **{"gen_ai.output.messages": json.dumps(answer)}))
    turn = trace.turn()
    assert places(turn.attachments) == [
        ("input", "sent-before"), ("input", "new"), ("tools_called", "map"), ("actual_output", "drawn"), ("history", "old"),
    ]  # fmt: skip


def test_no_more_than_the_limit_and_the_rest_is_counted() -> None:
    many = message("user", "Which?", *(uri(str(number)) for number in range(40)))
    turn = Trace().span(1, "chat", call("Which?", "None.", [many])).turn()
    assert len(turn.attachments) == MOST_ATTACHMENTS
    assert turn.attributes["attachments_left_out"] == 8


def test_turns_without_attachments_are_as_before() -> None:
    turn = Trace().span(1, "chat", chat("Hello", "Hi")).turn()
    assert turn.attachments == ()
    assert "attachments_left_out" not in turn.attributes


def test_content_is_bounded_for_each_and_for_all() -> None:
    data = "QUJD" * 250  # 750 bytes
    three = [Attachment(kind="image", data=data, sha256="wrong", size=1) for _ in range(3)]
    assert [each.data is not None for each in within_limits(three, 749)] == [False] * 3
    stored = within_limits(three, 760)
    assert [each.data is not None for each in stored] == [True, True, False]
    assert {each.size for each in stored} == {750}  # what a producer says of it is not believed
    [bad] = within_limits([Attachment(kind="image", data="not base64 at all, is it?")], 1000)
    assert bad.data is None


def test_chats_have_the_pictures_of_their_messages() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://cdn.example.com/a.png"}}
    chat_document = {
        "id": "c",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]},
            {"role": "assistant", "content": "A kayak."},
            {"role": "user", "content": "And how long?"},
            {"role": "assistant", "content": "5 m."},
        ],
    }
    first, second = turns_in(chat_document)
    assert places(first.attachments) == [("input", "a")]
    assert places(second.attachments) == [("history", "a")]
