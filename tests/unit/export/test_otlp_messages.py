"""What goes out over OTLP, name by name."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from evaluation_samples import SPAN, START, TRACE, failed, of_conversation, scored, skipped
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.export.otlp_messages import events, spans
from collector.otlp.decode import attributes_of
from collector.otlp.evaluation_spans import span_id
from evaluators.results import Evaluation

STARTED = 1_777_896_000_123_456_000
ENDED = STARTED + 1_500_000_000

TURN_ATTRIBUTES = {
    "gen_ai.evaluation.name": "answers_question",
    "gen_ai.evaluation.score.value": 0.75,
    "gen_ai.evaluation.score.label": "good",
    "gen_ai.evaluation.explanation": "It names the price.",
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.conversation.id": "visit-7",
    "evalstream.evaluation.id": f"{1:032x}",
    "evalstream.evaluator.version": "0123456789ab",
    "evalstream.monitor": "helpdesk",
    "evalstream.scope": "turn",
    "evalstream.subject.turn_id": "f" * 32,
    "evalstream.subject.revision": 1,
    "evalstream.outcome": "scored",
    "evalstream.passed": True,
    "evalstream.method": "logprobs",
    "evalstream.range": [0.0, 10.0],
    "evalstream.raw_score": 8.0,
    "evalstream.kept_mass": 0.98,
    "evalstream.sampling.probability": 0.25,
    "evalstream.sampling.stratum": "all",
    "evalstream.sampling.unit": "conversation",
    "evalstream.cost_usd": 0.002,
    "evalstream.judge.model": "judge-1",
    "evalstream.judge.fingerprint": "fp",
    "evalstream.judge.prompt_hash": "ab" * 8,
    "evalstream.judge.calls": 2,
    "evalstream.judge.input_tokens": 400,
    "evalstream.judge.output_tokens": 60,
}


def attributes(message) -> dict:
    return attributes_of(each.SerializeToString() for each in message.attributes)


def event(evaluation: Evaluation, **options) -> LogRecord:
    (resource,) = events([evaluation], service="judge", **options).resource_logs
    (scope,) = resource.scope_logs
    assert scope.scope.name == "evalstream"
    assert scope.scope.version
    assert attributes(resource.resource) == {"service.name": "judge"}
    (record,) = scope.log_records
    return record


def span(evaluation: Evaluation, **options) -> Span:
    (resource,) = spans([evaluation], service="judge", **options).resource_spans
    (scope,) = resource.scope_spans
    assert scope.scope.name == "evalstream"
    assert attributes(resource.resource) == {"service.name": "judge"}
    (made,) = scope.spans
    return made


def test_the_event_of_a_turn_is_on_the_judged_span():
    record = event(scored())
    assert round(START.timestamp() * 1e6) * 1000 == STARTED
    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.trace_id.hex(), record.span_id.hex()) == (TRACE, SPAN)
    assert (record.time_unix_nano, record.observed_time_unix_nano) == (ENDED, ENDED)
    assert record.severity_number == SeverityNumber.SEVERITY_NUMBER_INFO
    assert attributes(record) == TURN_ATTRIBUTES


def test_the_span_of_a_turn_is_a_child_of_the_judged_span():
    made = span(scored())
    assert made.name == "evaluate answers_question"
    assert made.kind == Span.SPAN_KIND_INTERNAL
    assert (made.trace_id.hex(), made.parent_span_id.hex()) == (TRACE, SPAN)
    assert (made.start_time_unix_nano, made.end_time_unix_nano) == (STARTED, ENDED)
    assert made.flags == 0x301
    assert (made.status.code, list(made.links)) == (Status.STATUS_CODE_UNSET, [])
    assert attributes(made) == TURN_ATTRIBUTES


def test_exported_again_it_is_the_same_span():
    assert span(scored(1)).span_id == span(scored(1)).span_id == span_id(f"{1:032x}")
    assert len(span(scored(1)).span_id) == 8
    assert span(scored(1)).span_id != span(scored(2)).span_id


def test_a_failure_has_a_type_and_no_score():
    names = attributes(event(failed()))
    assert names["error.type"] == "judge_timeout"
    assert names["evalstream.outcome"] == "failed"
    assert not {name for name in names if ".score." in name or name == "evalstream.raw_score"}
    assert event(failed()).severity_number == SeverityNumber.SEVERITY_NUMBER_WARN
    status = span(failed()).status
    assert (status.code, status.message) == (Status.STATUS_CODE_ERROR, "no answer within 60 s")


def test_a_skip_has_a_reason_and_neither_score_nor_error():
    names = attributes(event(skipped()))
    assert names["evalstream.reason"] == "missing_field: expected_output"
    assert not {"gen_ai.evaluation.score.value", "error.type", "evalstream.judge.model"} & set(names)
    assert span(skipped()).status.code == Status.STATUS_CODE_UNSET


def test_a_conversation_is_linked_to_every_turn():
    made = span(of_conversation())
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in made.links] == [(TRACE, SPAN), ("ab" * 16, "cd" * 8)]
    assert (made.trace_id.hex(), made.parent_span_id.hex()) == ("ab" * 16, "cd" * 8)
    names = attributes(made)
    assert (names["evalstream.scope"], names["evalstream.subject.revision"]) == ("conversation", 2)
    assert "evalstream.subject.turn_id" not in names


def test_a_conversation_id_that_is_only_the_turn_itself_is_not_sent():
    for own in (TRACE, "f" * 32):
        subject = replace(scored().subject, conversation_id=own)
        assert "gen_ai.conversation.id" not in attributes(event(scored(subject=subject)))


def test_what_has_no_trace_has_an_event_and_no_span():
    for trace, parent in ((None, None), ("short", "x"), ("zz" * 16, SPAN)):
        subject = replace(scored().subject, trace_id=trace, span_id=parent)
        assert event(scored(subject=subject)).trace_id == b""
        assert not spans([scored(subject=subject)], service="judge").resource_spans


def test_the_explanation_can_stay_at_home():
    for made in (event(scored(), explanation=False), span(scored(), explanation=False)):
        assert "gen_ai.evaluation.explanation" not in attributes(made)


def test_whole_numbers_stay_floats_and_odd_text_goes_out():
    names = attributes(event(scored(score=1, raw_score=10, label="\ud800")))
    assert isinstance(names["gen_ai.evaluation.score.value"], float)
    assert isinstance(names["evalstream.raw_score"], float)
    assert names["gen_ai.evaluation.score.label"] == "?"


def test_a_backfill_has_the_time_of_its_subject() -> None:
    past = START - timedelta(days=7)
    of_the_past = scored(happened_at=past)
    record = event(of_the_past)
    at = STARTED - 7 * 86_400_000_000_000
    assert (record.time_unix_nano, record.observed_time_unix_nano) == (at, ENDED)
    assert attributes(record)["evalstream.evaluation.backfill"] is True
    (resource,) = spans([of_the_past], service="judge").resource_spans
    (span,) = resource.scope_spans[0].spans
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (at, at + 1_500_000_000)
