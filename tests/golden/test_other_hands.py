"""Captures of newer releases and a harder scenario: what was said, once, in its conversation."""

from __future__ import annotations

import io
import json

import pytest
from truth import UNMET, even

from collector.commands.normalize import main, normalize
from collector.config.settings import AssembleSettings
from collector.service.assembly_builder import build_assembler, link_turns

FOLDERS = sorted(path.parent for path in UNMET.glob("*/expected.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_capture_is_right(folder) -> None:  # type: ignore[no-untyped-def]
    truth = json.loads((folder / "expected.json").read_text())
    expected = {(even(each["user"]), even(each["assistant"])) for each in truth["exchanges"] if not each["failed"]}
    turns = [turn for turn in normalize([folder]) if turn.incomplete is None and turn.error is None]
    found = [(even(turn.input), even(turn.actual_output)) for turn in turns]
    assert set(found) <= expected
    assert len(found) == len(set(found))
    if "limit" not in folder.name:
        assert set(found) == expected
        assert "chat-skerry-5518" in {turn.conversation_id for turn in turns}
        assert not any((turn.conversation_id or "").startswith("resp_") for turn in turns)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "claude-logs-without-trace",
            [("c1", "May I take a cargo bike to Anholt?"), ("c1", "So which crossing is calmer?")],
        ),
        (
            "conversation-is-previous-response",
            [
                ("c1", "May I take a cargo bike to Anholt?"),
                ("c1", "So which crossing is calmer?"),
                ("c1", "And when does the last boat leave?"),
            ],
        ),
        ("cut-langfuse-chain", []),
        ("cut-otel-agent", []),
        ("gemini-cli-llm-call", [("c1", "So which crossing is calmer?")]),
        ("haystack-subagent-sibling", [("c1", "Plan my trip to Laeso for Saturday.")]),
    ],
)
def test_smallest_trace_is_right(name: str, expected: list[tuple[str, str]]) -> None:
    turns = normalize([UNMET / "smallest" / f"{name}.json"])
    assert [(turn.conversation_id, turn.input) for turn in turns if turn.incomplete is None] == expected


def test_the_responses_of_a_conversation_that_nobody_named_are_followed() -> None:
    settings = AssembleSettings.model_validate({"identity": {"ignore": ["session.id"]}, "link": {"services": ["*"]}})
    folder = UNMET / "ms-agent-framework-1.23-responses"
    named = {turn.turn_id: turn.conversation_id for turn in normalize([folder])}
    turns = list(link_turns(normalize([folder], assembler=build_assembler(settings)), settings))
    talk = [turn for turn in turns if named[turn.turn_id] == "chat-skerry-5518"]
    assert len(talk) == 5
    assert len({turn.conversation_id for turn in talk}) == 1
    assert len({turn.conversation_id for turn in turns}) == len(set(named.values()))
    out = io.StringIO()
    assert main([folder], out, io.StringIO(), settings=settings, explained=True) == 0
    assert out.getvalue().count('which assemble.link: {services: ["*"]} follows') == 4
