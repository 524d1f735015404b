"""Captured payloads of real libraries, each with the truth of what was said."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import ASSEMBLER
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from truth import PAYLOADS, complaints, even, folders, truth_of

from collector.assemble.collect_trace import TracePiece
from collector.commands.normalize import main, normalize, pieces_in
from collector.config.settings import AssembleSettings
from collector.records.json import turn_from_json
from collector.service.assembly_builder import link_turns
from evaluators.cases import Turn


@pytest.mark.parametrize("folder", folders())
def test_payload_comes_to_its_truth(folder: str) -> None:
    turns = list(normalize([PAYLOADS / folder]))
    assert complaints(truth_of(folder), turns) == []


def test_a_payload_without_its_truth_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"mine has no expected.json; CONTRIBUTING.md"):
        truth_of("mine", tmp_path)
    (tmp_path / "mine").mkdir()
    truth = tmp_path / "mine" / "expected.json"
    truth.write_text('{"turns": []}')
    with pytest.raises(AssertionError, match=r"expected.json lists no exchanges; CONTRIBUTING.md"):
        truth_of("mine", tmp_path)
    exchange = {"exchange": "first", "conversation_id": "c", "trace_ids": ["1" * 32], "user": "Q?"}
    truth.write_text(json.dumps({"exchanges": [exchange]}))
    with pytest.raises(AssertionError, match=r"exchanges\[0\] has no assistant; CONTRIBUTING.md"):
        truth_of("mine", tmp_path)


def test_a_truth_written_by_hand_is_enough(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    turn = Turn(turn_id="t", conversation_id="c", trace_id="1" * 32, input="Q?", actual_output="A.")
    exchange = {"exchange": "first", "conversation_id": "c", "trace_ids": ["1" * 32], "user": "Q?", "assistant": "A."}
    (tmp_path / "mine" / "expected.json").write_text(json.dumps({"exchanges": [exchange]}))
    truth = truth_of("mine", tmp_path)
    assert complaints(truth, [turn]) == []
    assert complaints(truth, [replace(turn, conversation_id="d")]) == ["first: conversation 'd'"]
    assert complaints(truth, []) == ["first: 0 turns with the answer, 0 with the question as well"]


@pytest.mark.parametrize("folder", folders())
def test_printed_turns_read_back_the_same(folder: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main([PAYLOADS / folder], out, err) == 0
    assert [turn_from_json(line) for line in out.getvalue().splitlines()] == list(normalize([PAYLOADS / folder]))
    assert err.getvalue() == ""


def test_feedback_is_kept_with_the_turn_it_is_about() -> None:
    for folder in ("openlit", "logfire-openai"):
        with_feedback = [turn for turn in normalize([PAYLOADS / folder]) if turn.feedback]
        assert [(each.name, bool(each.value)) for turn in with_feedback for each in turn.feedback] == [
            ("user_feedback", True)
        ]
        assert with_feedback[0].input == "Hello, I am Maren. Do you rent sea kayaks in March?"


def encoded_again(piece: TracePiece, most: int | None) -> TracePiece:
    """A request whose documents were encoded once too often, and maybe cut."""
    request = ExportTraceServiceRequest.FromString(piece.value)
    spans = [span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans]
    for holder in [*spans, *(event for span in spans for event in span.events)]:
        for pair in holder.attributes:
            if pair.value.string_value[:1] in {"[", "{"}:
                pair.value.string_value = json.dumps(pair.value.string_value)[:most]
    return piece._replace(value=request.SerializeToString())


@pytest.mark.parametrize("most", [None, 300])
@pytest.mark.parametrize("folder", folders())
def test_documents_encoded_once_too_often_are_not_judged_with_their_quotes(folder: str, most: int | None) -> None:
    for pieces in pieces_in([PAYLOADS / folder]).values():
        again = [encoded_again(piece, most) if piece.signal == "traces" else piece for piece in pieces]
        read, wanted = (
            {
                (even(turn.turn.input), even(turn.turn.actual_output))
                for turn in ASSEMBLER.assemble(each).turns
                if turn.turn.error is None and turn.turn.incomplete is None
            }
            for each in (again, pieces)
        )
        if "truncated" not in folder:  # cut and then encoded: the cut cannot be seen
            assert read == wanted if most is None else read <= wanted


def test_a_voice_that_was_cut_off_is_told_from_a_session_that_ended() -> None:
    turns = [turn for turn in normalize([PAYLOADS / "pipecat-voice"]) if turn.error is None]
    assert [turn.attributes.get("speech_interrupted") for turn in turns] == [None, "true", None, None]
    assert all(0 < float(str(turn.attributes["speech_latency_ms"])) < 10_000 for turn in turns)


def test_no_path_of_a_machine_is_in_the_payloads() -> None:
    for path in PAYLOADS.rglob("*.pb"):
        payload = path.read_bytes()
        assert not any(each in payload for each in (b"/work/", b"/tmp/", b"/root/")), path
    assert Path(PAYLOADS).is_dir()


@pytest.mark.parametrize("folder", ["litellm-v1", "mlflow-openai", "ms-agent-framework"])
def test_a_conversation_that_the_library_does_not_name_is_known_by_its_history(folder: str) -> None:
    turns = [
        *link_turns(normalize([PAYLOADS / folder]), AssembleSettings.model_validate({"link": {"services": ["*"]}}))
    ]
    assert {turn.conversation_id for turn in normalize([PAYLOADS / folder])} == {None}
    by_conversation = Counter(turn.conversation_id for turn in turns)
    assert sorted(by_conversation.values()) == [1, 1, 3], "the talk of three turns, a question by itself, a failure"
    [talk] = [each for each, count in by_conversation.items() if count == 3]
    assert [len(turn.history) for turn in turns if turn.conversation_id == talk] == [0, 2, 4]


def test_inputs_that_livekit_records_in_parts_are_whole() -> None:
    turns = [turn for turn in normalize([PAYLOADS / "livekit-voice"]) if turn.error is None]
    system = "You are Borealis, the support assistant of the Larkspur kayak rental. Answer in one short sentence."
    assert [turn.system_prompt for turn in turns[:5]] == [system] * 5
    assert [len([each for each in turn.history if each.role == "user"]) for turn in turns] == [0, 1, 2, 3, 4, 0]
    assert [turn.attributes.get("speech_interrupted") for turn in turns] == [None, "true", None, None, None, None]
