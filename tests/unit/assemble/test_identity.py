"""What may be the id of a conversation, and what is too long to be one."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import ASSEMBLER, Trace

from collector.assemble.explain import explain, format_lines
from collector.assemble.trace import Assembler
from collector.config.settings import AssembleSettings
from collector.errors import BadInput
from collector.records.ready_made import LONGEST_ID, turns_in
from collector.service.assembly_builder import build_assembler


def conversation_of(attributes: dict[str, Any], assembler: Assembler = ASSEMBLER) -> str | None:
    held = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"} | attributes
    held["gen_ai.input.messages"] = '[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]'
    held["gen_ai.output.messages"] = '[{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]'
    [turn] = Trace().span(1, "chat m", held).turns(assembler)
    return turn.conversation_id


@pytest.mark.parametrize(
    ("said", "attributes", "found"),
    [
        ({}, {"app.chat": "c"}, None),
        ({"conversation": ["app.chat"]}, {"app.chat": "c", "gen_ai.conversation.id": "usual"}, "c"),
        ({"conversation": ["app.chat"]}, {"gen_ai.conversation.id": "usual"}, "usual"),
        ({"conversation": ["app.*"]}, {"app.chat_id": "c", "app.order_id": "o"}, "c"),
        ({"conversation": ["app.context{}"]}, {"app.context": '{"thread_id": "c"}'}, "c"),
        ({"conversation": ["session_id"]}, {"session_id": "c", "gen_ai.conversation.id": "usual"}, "c"),
        ({"ignore": ["session.id"]}, {"session.id": "a browser's", "thread_id": "c"}, "c"),
        ({"ignore": ["session.id"]}, {"session.id": "a browser's"}, None),
        ({"made_up": ["gen_ai.conversation.id"]}, {"gen_ai.conversation.id": "run", "thread_id": "c"}, "c"),
        ({"made_up": ["gen_ai.conversation.id"]}, {"gen_ai.conversation.id": "run"}, "run"),
        ({"ignore": ["metadata.session_id"]}, {"metadata.session_id": "x", "metadata.chat_id": "c"}, "c"),
    ],
)
def test_where_ids_stand_can_be_said(said: dict[str, list[str]], attributes: dict[str, Any], found: str | None) -> None:
    settings = AssembleSettings.model_validate({"identity": said})
    assert conversation_of(attributes, build_assembler(settings)) == found


def traced(
    root: dict[str, Any], model: dict[str, Any], scope: str = "", said: dict[str, Any] | None = None
) -> str | None:
    """The conversation of a model call below an application's span."""
    held = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"} | model
    held["gen_ai.input.messages"] = '[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]'
    held["gen_ai.output.messages"] = '[{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]'
    trace = Trace().span(0, "POST /chat", root, took=5).span(1, "chat m", held, parent=0, scope=scope)
    [turn] = trace.turns(build_assembler(AssembleSettings.model_validate({"identity": said or {}})))
    return turn.conversation_id


def test_an_id_that_is_set_aside_gives_way_wherever_the_other_is() -> None:
    ids = {"gen_ai.conversation.id": "run-1"}
    said = {"made_up": ["gen_ai.conversation.id"]}
    assert traced({"session.id": "s"}, ids) == "run-1"
    assert traced({"session.id": "s"}, ids, said=said) == "s"
    assert traced({}, ids, said=said) == "run-1"


def test_an_id_is_in_one_list() -> None:
    with pytest.raises(ValueError, match=r"session\.id is in made_up and in another list"):
        AssembleSettings.model_validate({"identity": {"made_up": ["session.id"], "ignore": ["session.id"]}})


MADE_UP = "019aa6a1-97ae-7d60-9a0d-3a1f5a4fd2a7"


def test_a_configured_name_wins_wherever_it_is_in_the_trace() -> None:
    root, model = {"session.id": "session"}, {"gen_ai.conversation.id": "model's own"}
    assert traced(root, model) == "model's own"
    assert traced(root, model, said={"conversation": ["session.id"]}) == "session"
    assert traced({}, model, said={"conversation": ["session.id"]}) == "model's own"


def test_an_id_that_a_library_makes_up_for_a_run_is_the_last_choice() -> None:
    root, model = {"session.id": "session"}, {"gen_ai.conversation.id": MADE_UP}
    assert traced(root, model, "pydantic-ai") == "session"
    assert traced({}, model, "pydantic-ai") == MADE_UP, "better than none"
    assert traced(root, {"gen_ai.conversation.id": "given"}, "pydantic-ai") == "given", "an application's own id"
    assert traced(root, model, "another-library") == MADE_UP


@pytest.mark.parametrize("key", ["gen_ai.conversation.id", "session.id", "metadata.thread_id"])
def test_an_id_that_is_as_long_as_a_book_is_none(key: str) -> None:
    assert conversation_of({key: "c" * LONGEST_ID}) == "c" * LONGEST_ID
    assert conversation_of({key: "c" * (LONGEST_ID + 1)}) is None


@pytest.mark.parametrize("name", ["conversation_id", "turn_id"])
def test_a_ready_made_one_is_refused(name: str) -> None:
    turn = {"input": "Hi", "actual_output": "Hello", name: "c" * LONGEST_ID}
    assert [getattr(each, name) for each in turns_in(turn)] == ["c" * LONGEST_ID]
    with pytest.raises(BadInput, match=f"{name} has more than 1000 characters"):
        list(turns_in(turn | {name: "c" * (LONGEST_ID + 1)}))


def test_competing_ids_are_explained_with_the_setting_that_chooses() -> None:
    trace = Trace()
    held = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.conversation.id": "run-1"}
    held["gen_ai.input.messages"] = '[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]'
    held["gen_ai.output.messages"] = '[{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]'
    trace.span(0, "POST /chat", {"session.id": "session"}, took=5).span(1, "chat m", held, parent=0)
    lines = list(format_lines(explain("5f" * 16, trace.pieces(), ASSEMBLER)))
    assert "    session.id says conversation session; to use it: assemble.identity.conversation: [session.id]" in lines


def test_a_turn_without_conversation_names_the_setting() -> None:
    """It said `conversation unknown: complete`, which reads as a complete conversation."""
    held = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "chat.thread": "visit-1"}
    held["gen_ai.input.messages"] = '[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]'
    held["gen_ai.output.messages"] = '[{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]'
    lines = list(format_lines(explain("5f" * 16, Trace().span(1, "chat m", held).pieces(), ASSEMBLER)))
    (line,) = (line for line in lines if line.startswith("  turn "))
    assert line.endswith(", conversation its trace (or name its attribute: assemble.identity.conversation): complete")
