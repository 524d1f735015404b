"""What may be the id of a conversation, and what is too long to be one."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import Trace

from collector.errors import BadInput
from collector.readymade import LONGEST_ID, turns_in


def conversation_of(attributes: dict[str, Any]) -> str | None:
    held = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"} | attributes
    held["gen_ai.input.messages"] = '[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]'
    held["gen_ai.output.messages"] = '[{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]'
    return Trace().span(1, "chat m", held).turn().conversation_id


@pytest.mark.parametrize("key", ["gen_ai.conversation.id", "session.id", "metadata.thread_id"])
def test_an_id_that_is_as_long_as_a_book_is_none(key: str) -> None:
    assert conversation_of({key: "c" * LONGEST_ID}) == "c" * LONGEST_ID
    assert conversation_of({key: "c" * (LONGEST_ID + 1)}) is None


@pytest.mark.parametrize("name", ["conversation_id", "turn_id"])
def test_a_ready_made_one_is_refused(name: str) -> None:
    turn = {"input": "Hi", "actual_output": "Hello", name: "c" * LONGEST_ID}
    assert [getattr(each, name) for each in turns_in(turn)] == ["c" * LONGEST_ID]
    with pytest.raises(BadInput, match=f"{name}: is longer than 1000 characters"):
        list(turns_in(turn | {name: "c" * (LONGEST_ID + 1)}))
