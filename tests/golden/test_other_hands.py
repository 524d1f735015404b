"""Captures of newer releases and a harder scenario: what was said, once, in its conversation."""

from __future__ import annotations

import json

import pytest
from truth import UNMET, even

from collector.commands.normalize import normalize

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
