"""Scores in the API of other platforms: what each gets, and what becomes of it when the platform is slow or says no."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from evaluation_samples import SPAN, START, TRACE, failed, of_conversation, scored, skipped
from platform_stub import OPIK_SPAN, PlatformStub, opik_or_empty

from collector import plugins
from collector.backoff import Backoff
from collector.errors import ConfigError
from collector.export.exporter import ExportContext
from collector.export.platforms.datadog import label_of
from collector.export.platforms.langsmith import run_id
from collector.export.platforms.opik import id_end
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS

SETTINGS: dict[str, dict[str, Any]] = {
    "langfuse": {"public_key": "pk", "secret_key": "sk"},
    "phoenix": {"api_key": "key"},
    "mlflow": {},
    "langsmith": {"api_key": "key"},
    "datadog": {"api_key": "key", "ml_app": "desk"},
    "weave": {"api_key": "key", "project": "shop/desk"},
    "opik": {"api_key": "key", "project": "desk", "workspace": "shop"},
    "braintrust": {"api_key": "key", "project_id": "p-1"},
    "webhook": {"secret": "whsec_" + base64.b64encode(b"k" * 24).decode()},
}


class Platforms:
    def __init__(self) -> None:
        self.stub = PlatformStub()
        self.telemetry = Telemetry()
        self.waits: list[float] = []
        self.page: str | None = None

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)

    @asynccontextmanager
    async def exporter(self, name: str, **changes: Any) -> AsyncIterator[Any]:
        plugin = plugins.load(plugins.EXPORTERS, name)
        address = "url" if name == "webhook" else "endpoint"
        settings = plugin.Settings(**{address: self.stub.endpoint, **SETTINGS[name], **changes})
        backoff = Backoff(sleep=self._sleep, chance=lambda: 0.0)
        context = ExportContext(telemetry=self.telemetry, page=self.page)
        async with plugin.open(settings, context, backoff=backoff) as exporter:
            yield exporter

    def dropped(self, name: str, reason: str) -> float:
        return self.telemetry.counter(DROPS, f"export_{name}", reason)._value.get()


@pytest.fixture
async def platforms() -> AsyncIterator[Platforms]:
    made = Platforms()
    made.stub.respond = opik_or_empty
    async with made.stub.serve():
        yield made


async def exported(platforms: Platforms, name: str, *evaluations: Any, **changes: Any) -> Any:
    async with platforms.exporter(name, **changes) as exporter:
        await exporter.export(evaluations or [scored(), failed(3), skipped(2), of_conversation(4)])
    return [each.body for each in platforms.stub.posts]


async def test_langfuse_scores_of_an_observation_and_of_a_session(platforms: Platforms) -> None:
    [body] = await exported(platforms, "langfuse")
    by_id = {each["id"]: each for each in body}
    turn, conversation = by_id[f"{1:032x}"], by_id[f"{4:032x}"]
    assert (turn["traceId"], turn["observationId"]) == (TRACE, SPAN)
    assert (turn["name"], turn["value"], turn["dataType"]) == ("answers_question", 0.75, "NUMERIC")
    assert turn["comment"] == "It names the price."
    assert turn["timestamp"] == scored().ended_at.isoformat(), "an update needs the same id and time"
    assert conversation["sessionId"] == "visit-7"
    assert "traceId" not in conversation
    assert by_id[f"{1:032x}-label"]["dataType"] == "CATEGORICAL"
    assert len(by_id) == 4, "what has no score is not there"
    call = platforms.stub.calls[0]
    assert (call.path, call.headers["Authorization"]) == (
        "/api/public/scores",
        "Basic " + base64.b64encode(b"pk:sk").decode(),
    )


async def test_langfuse_servers_that_know_no_lists_get_single_scores(platforms: Platforms) -> None:
    platforms.stub.respond = lambda call: web.Response(status=400 if isinstance(call.body, list) else 200)
    async with platforms.exporter("langfuse", labels=False) as exporter:
        assert await exporter.export([scored(1), scored(2)]) == 0
    assert [each.body["id"] for each in platforms.stub.posts[1:]] == [f"{1:032x}", f"{2:032x}"]


@pytest.mark.parametrize(("claimed", "counted"), [(1, 1), (10**15, 2), (-3, 0), ("many", 0), (1.5, 0)])
async def test_langfuse_counts_what_a_207_refuses(platforms: Platforms, claimed: Any, counted: int) -> None:
    answer = {"accepted": 1, "rejected": claimed, "errors": [{"message": "no"}]}
    platforms.stub.answers = [web.json_response(answer, status=207)]
    async with platforms.exporter("langfuse", labels=False) as exporter:
        assert await exporter.export([scored(1), scored(2)]) == counted
    assert platforms.dropped("langfuse", "refused") == counted


async def test_phoenix_annotates_spans_and_sessions_with_the_evaluations_id(platforms: Platforms) -> None:
    bodies = await exported(platforms, "phoenix")
    assert [each.path for each in platforms.stub.posts] == [
        "/v1/span_annotations?sync=true",
        "/v1/session_annotations?sync=true",
    ]
    [turn], [conversation] = (each["data"] for each in bodies)
    assert turn["span_id"] == SPAN
    assert turn["identifier"] == f"{1:032x}"
    assert turn["annotator_kind"] == "LLM"
    assert turn["result"] == {"score": 0.75, "label": "good", "explanation": "It names the price."}
    assert conversation["session_id"] == "visit-7"


async def test_mlflow_asks_before_it_assesses(platforms: Platforms) -> None:
    known: list[str] = []

    def respond(call: Any) -> web.Response:
        if call.method == "POST":
            known.append(call.raw.decode())
        return web.json_response({"trace": {"assessments": known}})

    platforms.stub.respond = respond
    for _ in range(2):
        bodies = await exported(platforms, "mlflow")
    assert len(bodies) == 3, "once each, though exported twice"
    assert platforms.stub.posts[0].path == f"/api/3.0/mlflow/traces/tr-{TRACE}/assessments"
    turn, failure, conversation = (each["assessment"] for each in bodies)
    assert (turn["span_id"], turn["feedback"]) == (SPAN, {"value": 0.75})
    assert turn["source"] == {"source_type": "LLM_JUDGE", "source_id": "judge-1"}
    assert failure["feedback"]["error"]["error_code"] == "judge_timeout"
    assert conversation["metadata"]["mlflow.trace.session"] == "visit-7"
    assert "span_id" not in conversation


async def test_langsmith_feedback_on_the_run_that_it_made_of_the_span(platforms: Platforms) -> None:
    first, last = await exported(platforms, "langsmith")
    assert first["id"] == str(uuid.UUID(int=1))
    assert first["run_id"] == f"00000000-0000-0000-{SPAN[:4]}-{SPAN[4:]}" == str(run_id(SPAN))
    assert (first["key"], first["score"], first["value"]) == ("answers_question", 0.75, "good")
    assert first["feedback_source"]["type"] == "model"
    assert last["feedback_source"]["metadata"]["evalstream.conversation.id"] == "visit-7"


async def test_langsmith_gets_four_decimals_and_the_project_that_has_the_run(platforms: Platforms) -> None:
    """Its API refuses more decimals, and its newer deployments find no run without its project."""
    project = "3f8e1c7a-5a41-4b6e-9d27-0c2b6a1f9e55"
    [body] = await exported(platforms, "langsmith", scored(score=2 / 3), project_id=project)
    assert (body["score"], body["session_id"]) == (0.6667, project)
    platforms.stub.calls.clear()
    [body] = await exported(platforms, "langsmith", scored())
    assert "session_id" not in body


async def test_datadog_gets_decimal_ids_and_the_tag_of_opentelemetry(platforms: Platforms) -> None:
    [body] = await exported(platforms, "datadog")
    metric = body["data"]["attributes"]["metrics"][0]
    assert metric["join_on"] == {"span": {"span_id": str(int(SPAN, 16)), "trace_id": str(int(TRACE, 16))}}
    assert "source:otel" in metric["tags"]
    assert (metric["label"], metric["score_value"], metric["assessment"]) == ("answers_question", 0.75, "pass")
    assert metric["timestamp_ms"] == round(scored().ended_at.timestamp() * 1000)
    assert [label_of(each) for each in ("5-stars ok", "größe", "x" * 300)] == ["e_5_stars_ok", "gr__e", "x" * 200]


async def test_weave_feedback_on_the_call_that_it_made_of_the_span(platforms: Platforms) -> None:
    first, _ = await exported(platforms, "weave")
    assert platforms.stub.posts[0].path == "/feedback/create"
    assert first["id"] == str(uuid.UUID(int=1))
    assert first["weave_ref"] == f"weave:///shop/desk/call/{SPAN}"
    assert (first["feedback_type"], first["payload"]["score"]) == ("evalstream.answers_question", 0.75)


async def test_weaves_view_of_agents_has_spans_and_conversations(platforms: Platforms) -> None:
    odd = of_conversation(5)
    odd = replace(odd, subject=replace(odd.subject, conversation_id="visit/7 ü"))
    bodies = await exported(platforms, "weave", scored(), of_conversation(4), odd, view="agents")
    assert [each["weave_ref"] for each in bodies] == [
        f"weave:///shop/desk/agent_span/{SPAN}",
        "weave:///shop/desk/agent_conversation/visit-7",
        "weave:///shop/desk/agent_conversation/visit%2F7%20%C3%BC",
    ]


async def test_opik_finds_the_span_by_the_end_of_its_id(platforms: Platforms) -> None:
    await exported(platforms, "opik")
    thread, look_up, turn = platforms.stub.calls
    assert (thread.method, thread.path) == ("PUT", "/v1/private/traces/threads/feedback-scores")
    assert thread.body["scores"][0]["thread_id"] == "visit-7"
    assert look_up.method == "GET"
    assert (turn.method, turn.path) == ("PUT", "/v1/private/spans/feedback-scores")
    [score] = turn.body["scores"]
    assert (score["id"], score["project_name"]) == (OPIK_SPAN, "desk")
    assert (score["name"], score["value"], score["category_name"]) == ("answers_question", 0.75, "good")
    assert (turn.headers["Authorization"], turn.headers["Comet-Workspace"]) == ("key", "shop")


@pytest.mark.parametrize("span", [SPAN, "0000000000000001", "ffffffffffffffff"])
def test_the_end_of_an_id_of_opiks(span: str) -> None:
    """As its server makes a UUID: the time in front, version and variant over the hash."""
    digest = hashlib.sha256(bytes.fromhex(span)).digest()
    number = int.from_bytes((1_777_896_000_123).to_bytes(6, "big") + digest[:10], "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    made = str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))
    assert made.endswith(id_end(span))
    assert span != SPAN or made == OPIK_SPAN


async def test_opik_is_asked_again_for_a_span_that_it_does_not_have_yet(platforms: Platforms) -> None:
    now = datetime.now(UTC)
    platforms.stub.answers = [web.json_response({"content": []}), web.json_response({"content": [{"id": "other"}]})]
    async with platforms.exporter("opik") as exporter:
        assert await exporter.export([replace(scored(1), started_at=now, ended_at=now)]) == 0
        assert platforms.waits == [2.0, 2.0]
        platforms.stub.respond = lambda _call: web.json_response({"content": []})
        assert await exporter.export([scored(2)]) == 1
    assert platforms.dropped("opik", "no_trace") == 1


async def test_braintrust_gets_score_spans_below_the_judged_one(platforms: Platforms) -> None:
    [body] = await exported(platforms, "braintrust")
    turn, conversation = body["events"]
    assert platforms.stub.posts[0].path == "/v1/project_logs/p-1/insert"
    assert turn["id"] == turn["span_id"] == f"{1:032x}"
    assert (turn["root_span_id"], turn["span_parents"]) == (TRACE, [SPAN])
    assert turn["scores"] == {"answers_question": 0.75}
    assert turn["span_attributes"]["type"] == "score"
    assert conversation["metadata"]["evalstream.conversation.id"] == "visit-7"


@pytest.mark.parametrize("name", sorted(SETTINGS))
async def test_every_score_links_to_the_page_where_that_has_an_address(name: str, platforms: Platforms) -> None:
    await exported(platforms, name)
    assert not any(b"?evaluation=" in each.raw for each in platforms.stub.calls)
    platforms.stub.calls.clear()
    platforms.page = "https://evalstream.example.com/"
    await exported(platforms, name)
    link = f"https://evalstream.example.com/?evaluation={1:032x}".encode()
    assert any(link in each.raw for each in platforms.stub.calls)


async def test_the_webhook_gets_signed_cloud_events(platforms: Platforms) -> None:
    [body] = await exported(platforms, "webhook")
    assert [each["type"].rsplit(".", 1)[1] for each in body] == ["scored", "failed", "scored"]
    assert {each["specversion"] for each in body} == {"1.0"}
    assert body[0]["id"] == body[0]["data"]["evaluation_id"] == f"{1:032x}"
    call = platforms.stub.posts[0]
    headers = {name.lower(): value for name, value in call.headers.items()}
    assert headers["content-type"] == "application/cloudevents-batch+json"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + call.raw
    digest = base64.b64encode(hmac.digest(b"k" * 24, signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"


async def test_a_secret_that_only_seems_to_be_one_is_refused_with_a_sentence() -> None:
    plugin = plugins.load(plugins.EXPORTERS, "webhook")
    settings = plugin.Settings(url="http://127.0.0.1:9", secret="whsec_%%%")
    with pytest.raises(ConfigError, match="not base64"):
        async with plugin.open(settings, ExportContext(telemetry=Telemetry())):
            pass


@pytest.mark.parametrize("name", sorted(SETTINGS))
async def test_no_explanation_goes_out_that_is_not_wanted(name: str, platforms: Platforms) -> None:
    await exported(platforms, name, explanation=False)
    assert platforms.stub.posts
    assert not any(b"names the price" in each.raw for each in platforms.stub.calls)


@pytest.mark.parametrize("name", sorted(SETTINGS))
async def test_every_platform_waits_for_one_that_is_busy_and_counts_what_it_refuses(
    name: str, platforms: Platforms
) -> None:
    platforms.stub.answers = [web.Response(status=429, headers={"Retry-After": "7"}), web.Response(status=503)]
    async with platforms.exporter(name) as exporter:
        assert await exporter.export([scored()]) == 0
        assert platforms.waits[0] == 7.0
        platforms.stub.respond = lambda call: web.Response(status=422) if call.method != "GET" else opik_or_empty(call)
        scores = 2 if name == "langfuse" else 1  # the number and the label
        assert await exporter.export([scored(5)]) == scores
        assert exporter.problem is None
    assert platforms.dropped(name, "http_422") == scores


async def test_one_bad_score_does_not_take_the_others_with_it(platforms: Platforms) -> None:
    bad = f"{7:032x}".encode()
    platforms.stub.respond = lambda call: web.Response(status=400 if bad in call.raw else 200)
    async with platforms.exporter("phoenix") as exporter:
        assert await exporter.export([scored(6), scored(7), scored(8)]) == 1
    assert platforms.dropped("phoenix", "http_400") == 1
    assert len(platforms.stub.posts) == 4


async def test_a_trace_that_is_not_there_yet_is_waited_for_and_then_counted(platforms: Platforms) -> None:
    missing = web.json_response({"detail": f"Spans with IDs {SPAN} do not exist."}, status=404)
    now = datetime.now(UTC)
    fresh = replace(scored(1), started_at=now, ended_at=now)
    platforms.stub.answers = [missing]
    async with platforms.exporter("phoenix") as exporter:
        assert await exporter.export([fresh]) == 0
        assert platforms.waits == [2.0]
        platforms.stub.respond = lambda _call: web.Response(status=404, text="Spans with IDs x do not exist.")
        assert START.timestamp() < time.time() - 60
        assert await exporter.export([scored(2)]) == 1
    assert platforms.dropped("phoenix", "no_trace") == 1


async def test_a_wrong_address_is_not_taken_for_a_missing_trace(platforms: Platforms) -> None:
    platforms.stub.answers = [web.Response(status=404, text="nginx") for _ in range(3)]
    async with platforms.exporter("phoenix") as exporter:
        assert await exporter.export([scored()]) == 0
    assert len(platforms.waits) == 3
    assert platforms.dropped("phoenix", "no_trace") == 0


async def test_the_rate_of_an_api_is_kept(platforms: Platforms) -> None:
    async with platforms.exporter("langsmith", requests_per_minute=60) as exporter:
        await exporter.export([scored(1), scored(2), scored(3)])
    assert len(platforms.waits) == 2
    assert all(0.5 < each <= 2.0 for each in platforms.waits)


LOGIN = {"text": "<!DOCTYPE html><title>Log in</title>", "content_type": "text/html"}


@pytest.mark.parametrize(
    "answer", [LOGIN, {"text": '{"error": "no such project"}', "content_type": "application/json"}]
)
@pytest.mark.parametrize("name", sorted(SETTINGS))
async def test_an_answer_that_only_looks_like_a_yes_is_waited_out(name: str, answer: Any, platforms: Platforms) -> None:
    platforms.stub.answers = [web.Response(**answer), web.Response(**answer)]
    async with platforms.exporter(name) as exporter:
        assert await exporter.export([scored()]) == 0
    assert len(platforms.waits) >= 2
    assert len(platforms.stub.calls) >= 3
