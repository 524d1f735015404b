"""Libraries whose reader was taken out: unread text is found, and the proposed mapping reads what was said."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path

import pytest
import yaml
from made_up import ASSEMBLER, Trace, chat
from truth import PAYLOADS, even, folders, truth_of

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.assemble.unread.capture_settings import setting_for
from collector.assemble.unread.examination import ConversationIdStatistics, Examination, examine, read_trace
from collector.commands.normalize import main, pieces_in
from collector.config.dialects import build_dialects
from collector.config.loading import check
from collector.dialects.registry import Dialects

INSTALLED = Dialects.installed()
NOT_READ = frozenset(
    {
        "claude-agent-sdk",  # answers are in records of their own beside the spans
        "livekit-voice",  # what was heard of an answer is another text than the model's
        "openinference-openai-redacted",  # its texts are masked
        "spring-ai-1.1-logs",  # prompts as lists of Java objects
        "spring-ai-2",  # the same
        "traceloop-sdk-0.40",  # the last message has an index of its own in every call
    }
)


def pieces_of(folder: str) -> dict[str, list[TracePiece]]:
    return pieces_in([PAYLOADS / folder])


def without_readers(folder: str) -> Assembler:
    """An assembler without the dialects that read anything of a payload."""
    traces = [read_trace(each) for each in pieces_of(folder).values()]
    readers = {
        call.dialect
        for trace in traces
        for span in trace.spans
        for call in INSTALLED.read_each(span, [each for each in trace.records if each.span_id == span.span_id])
    }
    return Assembler(Dialects(each for each in INSTALLED.all if each.name not in readers))


@cache
def examination_of(folder: str) -> tuple[Examination, Assembler]:
    assembler = without_readers(folder)
    return examine(pieces_of(folder).values(), assembler), assembler


def read_right(folder: str) -> tuple[int, int, list[str]]:
    """How many exchanges the proposed mapping reads word by word, how many there are, and the answers read wrongly."""
    examination, assembler = examination_of(folder)
    exchanges = [each for each in truth_of(folder)["exchanges"] if not each["failed"]]
    if examination.proposal is None:
        return 0, len(exchanges), []
    values = yaml.safe_load("\n".join(examination.proposal.lines()))
    own = build_dialects(check(values, "pasted.yaml", complete=False).settings.dialects)
    trial = Assembler(Dialects([*own, *assembler.dialects.all]))
    turns = [each.turn for pieces in pieces_of(folder).values() for each in trial.assemble(pieces).turns]
    read = {(even(turn.input), even(turn.actual_output)) for turn in turns}
    wanted = [{(even(each["user"]), even(answer)) for answer in forms_of(each["assistant"])} for each in exchanges]
    wrong = [answer for question, answer in read if answer and not any((question, answer) in each for each in wanted)]
    return sum(not each.isdisjoint(read) for each in wanted), len(exchanges), wrong


def forms_of(answer: str) -> list[str]:
    """An answer, and the words in it where it is a form."""
    fields = json.loads(answer) if answer.startswith("{") else {}
    return [answer, *(value for value in fields.values() if isinstance(value, str))]


@pytest.mark.parametrize("folder", [each for each in folders() if each not in NOT_READ])
def test_the_proposed_mapping_reads_a_payload_whose_reader_was_taken_out(folder: str) -> None:
    right, total, wrong = read_right(folder)
    assert right >= 3, f"{right} of {total} exchanges are read; are their texts whole sentences?"
    assert wrong == [] or folder == "traceloop-sagemaker"  # chunks of a stream, as bytes
    examination, _ = examination_of(folder)
    places = {each.place.partition("{")[0] for each in examination.unread}
    assert examination.proposal is not None
    mapping = examination.proposal.mapping
    assert {each.text.partition("{")[0] for each in (*mapping.input, *mapping.output)} <= places


def test_most_payloads_are_read_by_what_is_proposed() -> None:
    assert len(folders()) - len(NOT_READ) >= 30


def test_masked_text_gets_a_setting_and_no_mapping() -> None:
    examination = examine(pieces_of("openinference-openai-redacted").values(), Assembler(INSTALLED))
    assert examination.proposal is None


def test_calls_without_content_get_the_setting_that_writes_it() -> None:
    trace = Trace()
    scope = "opentelemetry.instrumentation.openai_v2"
    trace.span(1, "chat m", {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 9}, scope=scope)
    examination = examine([trace.pieces()], Assembler(INSTALLED))
    assert examination.settings[scope].startswith("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true")
    assert "to have both in traces" in "\n".join(examination.lines())


@pytest.mark.parametrize("folder", folders())
def test_payloads_that_are_read_have_nothing_unread(folder: str) -> None:
    if folder != "openinference-openai-redacted":
        examination = examine(pieces_of(folder).values(), Assembler(INSTALLED))
        assert (list(examination.unread), examination.proposal) == ([], None)


def test_ids_that_never_repeat_are_named_with_the_setting() -> None:
    traces = []
    for number in range(8):
        trace = Trace(f"{number + 1:032x}")
        attributes = {**chat("Is it open?", f"Yes, {number}."), "gen_ai.conversation.id": f"run-{number}"}
        trace.span(1, "chat m", {**attributes, "session.id": f"session-{number % 2}"})
        traces.append(trace.pieces())
    [sentence] = examine(traces, Assembler(INSTALLED)).lines()
    assert sentence.startswith(
        "gen_ai.conversation.id of shop names another conversation in each of 8 traces, while session.id"
    )
    assert "assemble.identity.conversation: [session.id]; or" in sentence
    assert sentence.endswith("assemble.identity.made_up: [gen_ai.conversation.id]")


def test_ids_of_single_turns_are_not_blamed() -> None:
    statistics = ConversationIdStatistics()
    for number in range(20):
        statistics.add("shop", {"session.id": f"s-{number}", "metadata.thread_id": f"t-{number}"})
        statistics.add("other", {"session.id": "one"})
    assert statistics.find() == []


def test_explain_prints_it(tmp_path: Path) -> None:
    trace = Trace()
    attributes = {"acme.ask": "Is it open tomorrow?", "acme.answer": "Yes, it opens at nine.", "acme.model": "m"}
    trace.span(1, "complete", attributes, scope="acme")
    (tmp_path / "traces.pb").write_bytes(trace.spans.SerializeToString())
    out = io.StringIO()
    assert main([tmp_path / "traces.pb"], out, io.StringIO(), explained=True) == 0
    lines = out.getvalue()
    assert "acme.answer on 1 span 'complete' of acme: looks like answers" in lines
    assert "opens at nine" not in lines, "texts are not printed"
    out = io.StringIO()
    assert main([tmp_path / "traces.pb"], out, io.StringIO(), explained=True, as_json=True) == 0
    assert json.loads(out.getvalue().splitlines()[-1])["unread"][0]["place"] == "acme.answer"


@pytest.mark.parametrize(
    ("scope", "setting"),
    [
        ("ai", "recordInputs"),
        ("airflow", None),
        ("openlit.otel", "openlit"),
        ("", None),
        ("opentelemetry.instrumentation.genai.openai", "CONTENT=SPAN_ONLY"),
        ("opentelemetry.instrumentation.openai_v2", "CONTENT=true"),
    ],
)
def test_settings_by_scope(scope: str, setting: str | None) -> None:
    found = setting_for(scope)
    assert (setting in found) if setting and found else found is setting


def test_a_proposed_mapping_is_tried_on_all_traces() -> None:
    traces = [
        Trace(f"{number:032x}").span(
            1, "complete", {"acme.question": f"Is pier {number} open?", "acme.answer": f"Yes, {number} is open."}
        )
        for number in range(1, 41)
    ]
    proposal = examine([trace.pieces() for trace in traces], ASSEMBLER).proposal
    assert proposal is not None
    assert (proposal.turns, proposal.traces) == (40, 40)


def a_talk(keys: tuple[str, str]) -> list[Trace]:
    """Traces of three requests, each with all that was said before; `keys` are those of the history and the answer."""
    history, traces = [], []
    for number in range(1, 4):
        history.append({"by": "person", "words": f"Is the pier number {number} open today?"})
        attributes = {keys[1]: f"Yes, the pier number {number} is open."}
        if keys[0].endswith("."):
            attributes |= {f"{keys[0]}{index}.words": each["words"] for index, each in enumerate(history)}
        else:
            attributes[keys[0]] = json.dumps({"turns": history})
        traces.append(Trace(f"{number:032x}").span(1, "complete", attributes, scope="acme"))
        history.append({"by": "machine", "words": f"Yes, the pier number {number} is open."})
    return traces


@pytest.mark.parametrize("key", ["acme.history", "acme.history."])
def test_a_proposed_mapping_names_no_fixed_place_in_a_list_that_grows(key: str) -> None:
    proposal = examine([trace.pieces() for trace in a_talk((key, "acme.answer"))], ASSEMBLER).proposal
    assert proposal is not None
    [place] = proposal.mapping.input
    assert "[-1]" in place.text
    assert proposal.turns == 3
