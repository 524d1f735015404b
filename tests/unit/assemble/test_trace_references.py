"""References on spans: from the names of DeepEval, Langfuse and Pydantic Evals, or the configuration's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_up import Trace, chat

from collector.assemble.trace import Assembler
from collector.assemble.trace_references import TraceReferences
from collector.dialects.registry import Dialects
from evaluators.cases import ToolCall, Turn

CALL = ToolCall(name="find", arguments={"a": 1})
DEEPEVAL_CALL = json.dumps({"name": "find", "input_parameters": {"a": 1}})


def assembled(configured: dict[str, list[str]] | None = None, **attributes: dict[str, Any]) -> Turn:
    """The turn of a model call below the span of a case that no dialect reads."""
    trace = Trace(resource=attributes.get("resource"))
    trace.span(1, "case: 7", attributes.get("case"), took=9)
    trace.span(2, "chat", chat("Open?", "Yes.", **attributes.get("model", {})), parent=1)
    (turn,) = trace.turns(Assembler(Dialects.installed(), references=TraceReferences(configured)))
    return turn


@pytest.mark.parametrize("place", ["model", "case", "resource"])
@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        ({"confident.span.expected_output": "Yes"}, "expected_output", "Yes"),
        ({"confident.trace.expected_output": "Yes"}, "expected_output", "Yes"),
        ({"langfuse.experiment.item.expected_output": '"Yes"'}, "expected_output", "Yes"),
        ({"langfuse.experiment.item.expected_output": '{"a": 1}'}, "expected_output", '{"a": 1}'),
        ({"braintrust.expected": '"Yes"'}, "expected_output", "Yes"),
        ({"braintrust.expected_json": "4"}, "expected_output", "4"),
        ({"ai.observability.record_root.ground_truth_output": "Yes"}, "expected_output", "Yes"),
        ({"expected_output": "Yes"}, "expected_output", "Yes"),
        ({"confident.span.context": ["A", "B"]}, "context", ("A", "B")),
        ({"confident.span.context": '["A", "B"]'}, "context", ("A", "B")),
        ({"confident.span.expected_tools": [DEEPEVAL_CALL]}, "expected_tools", (CALL,)),
        ({"confident.trace.expected_tools": f"[{DEEPEVAL_CALL}]"}, "expected_tools", (CALL,)),
        ({"app.ideal": "Yes"}, "expected_output", "Yes"),
    ],
)
def test_it_is_found_in_every_place(place: str, written: dict[str, Any], field: str, value: Any) -> None:
    turn = assembled({"expected_output": ["app.ideal"]}, **{place: written})
    assert getattr(turn, field) == value
    assert getattr(assembled(), field) is None


def test_the_nearest_place_and_the_configured_name_win() -> None:
    model, case = {"expected_output": "model"}, {"app.ideal": "case", "expected_output": "usual"}
    assert assembled({"expected_output": ["app.ideal"]}, model=model, case=case).expected_output == "model"
    assert assembled({"expected_output": ["app.ideal"]}, case=case).expected_output == "case"
    assert assembled(case=case).expected_output == "usual"


@pytest.mark.parametrize(
    "written",
    [
        {"expected_output": "[REDACTED]"},
        {"expected_output": ""},
        {"expected_output": "x" * 100_001},
        {"expected_output": "y" * 60, "other": '{"a": "' + "z" * 53},
        {"confident.span.expected_tools": '[{"name": "find", "argz": 1}]'},
        {"confident.span.expected_tools": '[{"name": "fi'},
    ],
    ids=["masked", "empty", "too long", "cut", "unknown key", "cut list"],
)
def test_what_is_not_whole_is_no_reference(written: dict[str, Any]) -> None:
    turn = assembled(case=written)
    assert (turn.expected_output, turn.expected_tools) == (None, None)
