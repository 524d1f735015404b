"""Messages of one text each are read in one step; anything else is left to the reader of all shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.dialects.call import ChatMessage
from collector.dialects.messages import parse_messages
from collector.dialects.plain_messages import convert_plain_messages, read_plain_messages


def parts(*contents: str) -> list[dict[str, str]]:
    return [{"type": "text", "content": each} for each in contents]


def test_texts_as_content_or_as_the_only_part() -> None:
    text = json.dumps(
        [
            {"role": "user", "content": "Open?"},
            {"role": "assistant", "parts": parts("Yes."), "finish_reason": "end_turn"},
            {"role": "system", "parts": None, "content": ""},
        ]
    )
    assert read_plain_messages(text) == (
        ChatMessage("user", "Open?"),
        ChatMessage("assistant", "Yes.", finish_reason="stop"),
        ChatMessage("system", ""),
    )


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "content": "9"},
        {"role": "User", "content": "Open?"},
        {"role": "user"},
        {"role": "user", "content": 9},
        {"role": "user", "content": "Open?", "parts": parts("Open?")},
        {"role": "user", "content": "Open?", "name": "Ann"},
        {"role": "user", "parts": []},
        {"role": "user", "parts": parts("Open", "?")},
        {"role": "user", "parts": [{"type": "image", "content": "…"}]},
        {"role": "assistant", "content": None, "tool_calls": []},
        "Open?",
    ],
)
def test_other_messages_are_left_to_the_reader_of_all_shapes(message: Any) -> None:
    assert read_plain_messages(json.dumps([{"role": "user", "content": "Hi."}, message])) is None


@pytest.mark.parametrize(
    "text", ['[{"role": "user", "content": "Op', '{"role": "user"}', '["\\ud83d"]', "[\ud83d]", ""]
)
def test_text_that_is_no_list_of_messages(text: str) -> None:
    assert read_plain_messages(text) is None


def test_half_a_character_is_read_by_the_reader_of_all_shapes() -> None:
    text = '[{"role": "user", "content": "Hi \\ud83d"}]'
    assert read_plain_messages(text) is None
    assert parse_messages(text).messages == (ChatMessage("user", "Hi \ufffd"),)


def test_decoded_messages() -> None:
    assert convert_plain_messages([{"role": "user", "content": "Open?"}]) == (ChatMessage("user", "Open?"),)
    for other in ({"role": "user"}, {"role": [], "content": ""}, {"role": "user", "content": "", "name": ""}):
        assert convert_plain_messages([other]) is None
