"""Dialects of the configuration: a library that nobody knows, read by a few lines."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from made_up import Trace

from collector.assemble.trace import Assembler
from collector.commands.normalize import main
from collector.config.loading import check, load
from collector.errors import ConfigError
from collector.service.assembly_builder import build_assembler
from evaluators.cases import Turn

FIVE_LINES = """
dialects:
  acme:
    match: {scope: acme.sdk}
    input: acme.request{messages}
    output: acme.response{choices[0].text}
    conversation: acme.chat
"""


def assembler(dialects: dict[str, object]) -> Assembler:
    settings = check({"dialects": dialects}, "evalstream.yaml", complete=False).settings
    return build_assembler(settings.assemble, settings.dialects)


def one_turn(trace: Trace, **acme: object) -> Turn:
    [turn] = trace.turns(assembler({"acme": {"match": {"scope": "acme"}, **acme}}))
    return turn


def test_five_lines_read_a_library_that_nobody_knows(tmp_path: Path) -> None:
    trace = Trace()
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Is it open?"}]
    attributes = {
        "acme.request": json.dumps({"messages": messages}),
        "acme.response": json.dumps({"choices": [{"text": '{"open": true, "text": "yes"}'}]}),
        "acme.chat": "chat-7",
    }
    trace.span(1, "complete", attributes, scope="acme.sdk.v1")
    (tmp_path / "traces.pb").write_bytes(trace.spans.SerializeToString())
    (tmp_path / "evalstream.yaml").write_text(FIVE_LINES)
    out, err = io.StringIO(), io.StringIO()
    settings = load(tmp_path / "evalstream.yaml", complete=False).settings
    assert main([tmp_path / "traces.pb"], out, err, dialects=settings.dialects) == 0
    [turn] = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (turn["input"], turn["actual_output"]) == ("Is it open?", '{"open": true, "text": "yes"}'), (
        "an answer in JSON is a text"
    )
    assert (turn["conversation_id"], turn["system_prompt"], turn["dialect"]) == ("chat-7", "Be short.", "acme")
    assert main([tmp_path / "traces.pb"], io.StringIO(), err) == 0
    assert "no t" in err.getvalue(), "without the lines there is nothing"


@pytest.mark.parametrize(
    ("place", "attributes"),
    [
        ("a.q", {"a.q": "Is it open?"}),
        ("a.q{user}", {"a.q": '{"user": "Is it open?"}'}),
        ("a.q{list[-1].text}", {"a.q": '{"list": [{"text": "no"}, {"text": "Is it open?"}]}'}),
        ("a.q{list[0]}", {"a.q": {"list": ["Is it open?"]}}),
        ("a.q.[-1].text", {"a.q.0.text": "no", "a.q.11.text": "Is it open?"}),
        ("a.q.[0]", {"a.q.0": "Is it open?"}),
        ("a.q =~ said: (.*);", {"a.q": "she said: Is it open?; then"}),
        (r"a.q =~ (?P<x>said): (?P<value>.*\?)", {"a.q": "she said: Is it open? then"}),
        (["a.none", "a.q"], {"a.q": "Is it open?"}),
    ],
    ids=str,
)  # fmt: skip
def test_places(place: object, attributes: dict[str, object]) -> None:
    trace = Trace()
    trace.span(1, "x", {**attributes, "a.answer": "Yes."}, scope="acme")
    turn = one_turn(trace, input=place, output="a.answer")
    assert (turn.input, turn.actual_output, turn.incomplete) == ("Is it open?", "Yes.", None)


def test_events_and_log_records_are_places() -> None:
    trace = Trace()
    trace.span(1, "x", {"a.b": 1}, scope="acme", events=[("asked", {"text": "no"}), ("asked", {"text": "Is it open?"})])
    trace.record(1, "acme.Answer", {"said": {"text": "Yes."}})
    turn = one_turn(trace, input="event:asked:text", output="log:acme.Answer:body{said.text}")
    assert (turn.input, turn.actual_output) == ("Is it open?", "Yes.")


def test_tools_with_their_results() -> None:
    tools = [{"id": "c1", "name": "get_hours", "arguments": {"day": "today"}, "result": {"until": 18}}]
    trace = Trace()
    trace.span(1, "x", {"q": "Is it open?", "a": "Yes.", "tools": json.dumps(tools)}, scope="acme")
    turn = one_turn(trace, input="q", output="a", tools="tools")
    [call] = turn.tools_called
    assert (call.name, call.arguments, call.result) == ("get_hours", {"day": "today"}, {"until": 18})
    assert turn.actual_output == "Yes."


def test_spans_of_tools_and_retrievals() -> None:
    dialects = {
        "acme": {"match": {"attributes": {"kind": "llm"}}, "input": "q", "output": "a"},
        "acme_tool": {
            "match": {"attributes": {"kind": "tool"}},
            "kind": "tool",
            "input": "args",
            "output": "out",
            "tools": "name",
        },
        "acme_search": {
            "match": {"attributes": {"kind": "search"}},
            "kind": "retrieval",
            "input": "q",
            "output": "docs",
        },
    }
    trace = Trace()
    trace.span(0, "root", took=9)
    trace.span(1, "s", {"kind": "search", "q": "open", "docs": json.dumps([{"text": "Open until 18."}])}, parent=0)
    trace.span(2, "t", {"kind": "tool", "args": '{"day": 1}', "out": "18", "name": "get_hours"}, parent=0)
    trace.span(3, "m", {"kind": "llm", "q": "Is it open?", "a": "Yes."}, parent=0, took=3)
    [turn] = trace.turns(assembler(dialects))
    assert turn.retrieval_context == ("Open until 18.",)
    assert [(each.name, each.arguments) for each in turn.tools_called] in ([("get_hours", {"day": 1})], [])


def test_what_cannot_be_read_safely_is_incomplete() -> None:
    trace = Trace()
    trace.span(1, "x", {"q": "Is it open?", "a": '{"choices": [{"text": "Yes, un'}, scope="acme")
    turn = one_turn(trace, input="q", output="a{choices[0].text}")
    assert (turn.actual_output, turn.incomplete) == (None, "truncated")
    trace = Trace()
    trace.span(1, "x", {"q": "Is it open?", "a": "__REDACTED__", "b": 1}, scope="acme")
    assert one_turn(trace, input="q", output="a").incomplete == "redacted"
    trace = Trace()
    trace.span(1, "x", {"q": "Is it open?", "a": {"some": {"thing": 1}}}, scope="acme")
    assert one_turn(trace, input="q", output="a").actual_output is None


def test_only_matching_spans_are_read() -> None:
    trace = Trace()
    trace.span(1, "chat gpt", {"q": "Is it open?", "a": "Yes.", "kind": "llm"}, scope="acme.sdk")
    trace.span(2, "other", {"q": "no", "a": "no", "kind": "llm"}, scope="acme.sdk")
    trace.span(3, "chat gpt", {"q": "no", "a": "no", "kind": "x"}, scope="acme.sdk")
    trace.span(4, "chat gpt", {"q": "no", "a": "no", "kind": "llm"}, scope="other")
    match = {"scope": "acme", "span": "chat *", "attributes": {"kind": "llm", "q": "*"}}
    [turn] = trace.turns(assembler({"acme": {"match": match, "input": "q", "output": "a"}}))
    assert turn.input == "Is it open?"


@pytest.mark.parametrize(
    ("acme", "sentence"),
    [
        ({"match": {}, "input": "q"}, "matches every span; write a scope, a span or attributes"),
        ({"match": {"scope": "a"}}, "reads nothing; write input, output or both"),
        ({"match": {"scope": "a"}, "input": "q{x"}, "has a path without its closing brace"),
        ({"match": {"scope": "a"}, "input": "q{x[y]}"}, "has a bracket without a number"),
        ({"match": {"scope": "a"}, "input": "q{x..y}"}, "has an empty step"),
        ({"match": {"scope": "a"}, "input": "{x}"}, "names no attribute"),
        ({"match": {"scope": "a"}, "input": "event:x"}, "names no attribute; write event:NAME:ATTRIBUTE"),
        ({"match": {"scope": "a"}, "input": "q.[x].y"}, "has no index in its brackets"),
        ({"match": {"scope": "a"}, "input": "q =~ (a"}, "is no regular expression that RE2 can search"),
        ({"match": {"scope": "a"}, "inputs": "q", "input": "q"}, "inputs"),
    ],
    ids=lambda each: str(each)[:60],
)
def test_mistakes_have_a_sentence_each(acme: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"dialects\.acme") as error:
        check({"dialects": {"acme": acme}}, "evalstream.yaml", complete=False)
    assert sentence in str(error.value)


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"dialects\.openlit: is the name of an installed dialect"):
        check({"dialects": {"openlit": {"match": {"scope": "a"}, "input": "q"}}}, "evalstream.yaml", complete=False)
