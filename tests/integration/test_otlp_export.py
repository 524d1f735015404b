"""The OTLP exporter against an endpoint that is there, slow, full, gone or odd."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from aiohttp import web
from evaluation_samples import SPAN, TRACE, failed, of_conversation, scored, skipped
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from otlp_destination import Destination

from collector.backoff import Backoff
from collector.export.exporter import ExportContext
from collector.export.otlp import OtlpExporter, OtlpExportSettings
from collector.export.stage import ExportStage
from collector.logs.log import Confirm
from collector.records.feedback import FeedbackEntry, FeedbackSubject, JoinedFeedback
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS, EXPORT_EVALUATIONS, EXPORT_FAILURES
from evaluators.judges.error_mapping import seconds_to_wait


class Sent:
    """An exporter with a destination; waits are noted instead of waited."""

    def __init__(self) -> None:
        self.destination = Destination()
        self.telemetry = Telemetry()
        self.waits: list[float] = []
        self.now, self.tick = 0.0, 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += self.tick
        await asyncio.sleep(0)

    @asynccontextmanager
    async def exporter(self, **settings) -> AsyncIterator[OtlpExporter]:
        fields = {"endpoint": self.destination.endpoint, **settings}
        backoff = Backoff(sleep=self.sleep, chance=lambda: 0.0, clock=lambda: self.now)
        context = ExportContext(telemetry=self.telemetry)
        async with OtlpExporter.open(OtlpExportSettings(**fields), context, backoff=backoff) as exporter:
            yield exporter

    def dropped(self, reason: str) -> float:
        return self.telemetry.counter(DROPS, "export_otlp", reason)._value.get()

    def failures(self, reason: str) -> float:
        return self.telemetry.counter(EXPORT_FAILURES, "otlp", reason)._value.get()


@pytest.fixture
async def sent() -> AsyncIterator[Sent]:
    sent = Sent()
    async with sent.destination.serve():
        yield sent


async def test_events_and_spans_arrive(sent: Sent):
    async with sent.exporter(headers={"Authorization": "Bearer secret"}) as exporter:
        await exporter.export([scored(), failed(), of_conversation(), skipped()])
    assert [path for path, _ in sent.destination.requests] == ["/v1/logs", "/v1/traces"]
    for _, headers in sent.destination.requests:
        assert headers["Content-Type"] == "application/x-protobuf"
        assert headers["Content-Encoding"] == "gzip"
        assert headers["Authorization"] == "Bearer secret"
    assert [record.event_name for record in sent.destination.events] == ["gen_ai.evaluation.result"] * 3
    assert [span.name for span in sent.destination.spans] == ["evaluate answers_question"] * 3
    assert (sent.destination.events[0].trace_id.hex(), sent.destination.events[0].span_id.hex()) == (TRACE, SPAN)
    assert sent.destination.spans[0].parent_span_id.hex() == SPAN


async def test_before_each_attempt_the_group_that_reads_the_batch_is_confirmed(sent: Sent):
    confirmed: list[str] = []

    def confirming(what: str) -> Confirm:
        async def confirm() -> None:
            confirmed.append(what)

        return confirm

    context = ExportContext(telemetry=sent.telemetry, confirm=confirming("e"), confirm_feedback=confirming("f"))
    settings = OtlpExportSettings(endpoint=sent.destination.endpoint, spans=False)
    subject = FeedbackSubject(monitor="helpdesk", conversation_id="c", turn_id="t")
    entry = FeedbackEntry(feedback_id="f", name="thumbs", value=True, turn_id="t")
    feedback = JoinedFeedback(entry=entry, outcome="joined", received_at=datetime.now(UTC), subjects=(subject,))
    async with OtlpExporter.open(settings, context) as exporter:
        await exporter.export_feedback([feedback])
        await exporter.export([scored()])
    assert confirmed == ["f", "e"]
    assert len(sent.destination.events) == 2


async def test_long_texts_go_out_in_several_requests(sent: Sent):
    long = replace(scored(), explanation="x" * 300_000)
    async with sent.exporter(spans=False, gzip=False) as exporter:
        assert await exporter.export([*[long] * 7, scored(), replace(long, explanation="y" * 900_000)]) == 0
    assert [path for path, _ in sent.destination.requests] == ["/v1/logs"] * 4
    assert len(sent.destination.events) == 9


@pytest.mark.parametrize(
    ("settings", "paths"),
    [
        ({"events": False}, ["/v1/traces"]),
        ({"spans": False, "gzip": False}, ["/v1/logs"]),
        ({"events": False, "spans": False}, []),
    ],
)
async def test_what_is_switched_off_is_not_sent(sent: Sent, settings, paths):
    async with sent.exporter(**settings) as exporter:
        await exporter.export([scored()])
    assert [path for path, _ in sent.destination.requests] == paths
    assert all(
        ("Content-Encoding" in headers) == settings.get("gzip", True) for _, headers in sent.destination.requests
    )


async def test_skipped_evaluations_stay_at_home_unless_wanted(sent: Sent):
    async with sent.exporter() as exporter:
        await exporter.export([skipped()])
    assert sent.destination.requests == []
    async with sent.exporter(skipped=True) as exporter:
        await exporter.export([skipped()])
    assert len(sent.destination.events) == len(sent.destination.spans) == 1


async def test_large_batches_are_sent_in_parts(sent: Sent):
    async with sent.exporter(batch_size=10) as exporter:
        await exporter.export([scored(number) for number in range(25)])
    assert len(sent.destination.requests) == 6
    assert len({span.span_id for span in sent.destination.spans}) == 25


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_busy_answers_are_tried_again_after_the_wait_they_ask_for(sent: Sent, status: int):
    sent.destination.answers = [web.Response(status=status, headers={"Retry-After": "7"}), web.Response(status=status)]
    async with sent.exporter() as exporter:
        await exporter.export([scored()])
    assert sent.waits == [7.0, 0.0]
    assert sent.failures(f"http_{status}") == 2
    assert len(sent.destination.events) == len(sent.destination.spans) == 1


async def test_events_that_were_taken_are_not_sent_again_with_the_spans(sent: Sent):
    taken = web.Response(content_type="application/x-protobuf")
    sent.destination.answers = [taken, web.Response(status=503), web.Response(status=503)]
    async with sent.exporter() as exporter:
        await exporter.export([scored()])
    assert [path for path, _ in sent.destination.requests] == ["/v1/logs"] + ["/v1/traces"] * 3
    assert len(sent.destination.events) == 1


@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_other_answers_are_final_and_counted(sent: Sent, status: int, caplog: pytest.LogCaptureFixture):
    elsewhere = {"Location": f"{sent.destination.endpoint}/v1/logs"}
    sent.destination.answers = [web.Response(status=status, headers=elsewhere, text="judged text") for _ in range(2)]
    async with sent.exporter() as exporter:
        assert await exporter.export([scored(), scored(2)]) == 2
    assert sent.dropped(f"http_{status}") == 4  # two events, two spans
    assert len(sent.destination.requests) == 2
    assert "judged text" not in caplog.text


async def test_a_refusal_is_seen_by_the_health_check_while_it_is_tried_again(sent: Sent) -> None:
    """The exporter tries again by itself: the stage around it hears of nothing until the end."""
    sent.destination.answers = [web.Response(status=401) for _ in range(3)]
    seen: list[str | None] = []
    async with sent.exporter(spans=False) as exporter:
        stage = ExportStage("otlp", exporter, sent.telemetry)
        sleep = sent.sleep

        async def note(seconds: float) -> None:
            seen.append(stage.problem)
            await sleep(seconds)

        exporter.client.backoff = replace(exporter.client.backoff, sleep=note)
        await stage.deliver([scored()])
        assert stage.problem is None
    assert seen == ["otlp: status 401: it refuses the credentials; correct the exporter's headers"] * 3


@pytest.mark.parametrize("status", [401, 403, 404, 405, 407, 500, 501, 307])
async def test_what_an_operator_mends_is_held_and_nothing_is_lost(sent: Sent, status: int, caplog):
    sent.destination.answers = [web.Response(status=status, text="judged text") for _ in range(30)]
    async with sent.exporter() as exporter:
        assert await exporter.export([scored(), scored(2)]) == 0
    asked = status in (404, 405, 501)  # whether at least traces have a place there
    assert sent.failures(f"http_{status}") == (29 if asked else 30)
    assert sent.dropped(f"http_{status}") == 0
    assert len(sent.destination.events) == len(sent.destination.spans) == 2
    [line] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert f"status {status}" in line
    assert "judged text" not in caplog.text


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_an_endpoint_without_logs_gets_spans_alone_and_it_is_said_once(sent: Sent, status: int, caplog):
    sent.destination.answers = [web.Response(status=status)]
    ready_made = replace(scored(3), subject=replace(scored().subject, trace_id=None, span_id=None))
    async with sent.exporter() as exporter:
        assert await exporter.export([scored()]) == 0
        assert await exporter.export([scored(2), ready_made]) == 0
        assert exporter.problem is None
    assert [path for path, _ in sent.destination.requests] == ["/v1/logs", "/v1/traces", "/v1/traces", "/v1/traces"]
    assert (len(sent.destination.events), len(sent.destination.spans)) == (0, 2)
    assert sent.dropped("no_logs_endpoint") == 1, "what is in no trace has no span"
    [line] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "/v1/logs" in line
    assert "events: false" in line


async def test_openinference_spans_are_evaluators_of_a_span_or_a_session(sent: Sent):
    async with sent.exporter(openinference=True, events=False) as exporter:
        await exporter.export([scored(), of_conversation(4), failed(3)])
    turn, conversation, failure = (
        {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
        for span in sent.destination.spans
    )
    assert {each["openinference.span.kind"] for each in (turn, conversation, failure)} == {"EVALUATOR"}
    assert turn["evaluations.0.evaluation.name"] == "answers_question"
    assert turn["evaluations.0.evaluation.score"] == 0.75
    assert turn["evaluations.0.evaluation.annotator_kind"] == "LLM"
    assert turn["evaluations.0.evaluation.identifier"] == scored().evaluation_id
    [link] = sent.destination.spans[0].links
    assert (link.trace_id.hex(), link.span_id.hex()) == (TRACE, SPAN)
    assert conversation["session.id"] == "visit-7"
    assert conversation["session.evaluations.0.evaluation.score"] == 0.75
    assert not [name for name in conversation if name.startswith("evaluations.")]
    assert not [name for name in failure if "evaluations." in name], "a failure is no result"


async def test_after_the_limit_it_is_dropped_and_counted_and_the_next_is_sent(sent: Sent):
    sent.destination.answers = [web.Response(status=401) for _ in range(8)]
    async with sent.exporter(spans=False, give_up_after=60.0) as exporter:
        sent.tick = 10.0
        assert await exporter.export([scored(), scored(2)]) == 2
        assert (sent.failures("http_401"), sent.dropped("http_401")) == (6, 2)
        assert await exporter.export([scored(3)]) == 0
    assert len(sent.destination.events) == 1


async def test_a_broken_connection_is_tried_again(sent: Sent):
    sent.destination.answers = [ConnectionError("gone")]
    async with sent.exporter() as exporter:
        await exporter.export([scored()])
    assert sent.failures("no_connection") == 1
    assert len(sent.destination.events) == 1


async def test_an_endpoint_that_comes_late_gets_everything():
    sent = Sent()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        sent.destination.port = probe.getsockname()[1]
    async with sent.exporter() as exporter:
        running = asyncio.create_task(exporter.export([scored()]))
        while len(sent.waits) < 3:
            await asyncio.sleep(0.01)
        async with sent.destination.serve(sent.destination.port):
            await running
    assert len(sent.destination.events) == len(sent.destination.spans) == 1


async def test_a_slow_endpoint_is_given_up_and_tried_again(sent: Sent):
    async with sent.exporter(timeout=0.5) as exporter:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            client, there = exporter.client, exporter.client.destination
            client.destination = replace(there, endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
            running = asyncio.create_task(exporter.export([scored()]))
            while not sent.waits:
                await asyncio.sleep(0.01)
            client.destination = there
            await running
    assert len(sent.destination.events) == 1


async def test_what_is_refused_in_part_is_counted(sent: Sent):
    partial = ExportLogsServiceResponse()
    partial.partial_success.rejected_log_records = 2
    body = partial.SerializeToString()
    sent.destination.answers = [web.Response(body=body, content_type="application/x-protobuf")]
    async with sent.exporter() as exporter:
        await exporter.export([scored(), scored(2), scored(3)])
    assert sent.dropped("partial_success") == 2


@pytest.mark.parametrize(("claimed", "counted"), [(4, 3), (2**62, 3), (-1, 0), (-(2**62), 0)])
async def test_a_destination_cannot_refuse_more_than_was_sent(sent: Sent, claimed: int, counted: int):
    """Its number ended the process at every start, as a counter was to fall."""
    partial = ExportLogsServiceResponse()
    partial.partial_success.rejected_log_records = claimed
    body = partial.SerializeToString()
    sent.destination.answers = [web.Response(body=body, content_type="application/x-protobuf")]
    async with sent.exporter(spans=False) as exporter:
        stage = ExportStage("otlp", exporter, sent.telemetry)
        await stage.deliver([scored(), scored(2), scored(3)])
    assert sent.dropped("partial_success") == counted
    assert sent.telemetry.counter(EXPORT_EVALUATIONS, "otlp", "exported")._value.get() == 3 - counted
    assert sent.telemetry.counter(EXPORT_EVALUATIONS, "otlp", "rejected")._value.get() == counted


async def test_a_page_with_status_200_takes_nothing(sent: Sent):
    page = {"text": "<!doctype html><title>Log in</title>", "content_type": "text/html"}
    sent.destination.answers = [web.Response(**page), web.Response(**page)]
    async with sent.exporter(spans=False) as exporter:
        await exporter.export([scored()])
    assert len(sent.waits) == 2
    assert sent.failures("not_accepted") == 2
    assert len(sent.destination.requests) == 3


async def test_records_refused_in_json_are_counted(sent: Sent):
    sent.destination.answers = [web.json_response({"partialSuccess": {"rejectedLogRecords": "1"}})]
    async with sent.exporter(spans=False) as exporter:
        assert await exporter.export([scored()]) == 1


async def test_an_odd_answer_with_status_200_counts_as_taken(sent: Sent):
    sent.destination.answers = [web.Response(body=b"\xff" * 100_000, content_type="application/x-protobuf")]
    async with sent.exporter() as exporter:
        await exporter.export([scored()])
    assert len(sent.destination.spans) == 1


def test_the_secret_in_a_header_is_not_shown():
    assert "secret" not in repr(OtlpExportSettings(headers={"Authorization": "Bearer secret"}))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("12", 12.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Mon, 04 May 2026 12:00:30 GMT", 30.0),
        ("Mon, 04 May 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("Mon, 04 May 99999999999999999999 12:00:30 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None):
    assert seconds_to_wait(header, datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp()) == seconds
