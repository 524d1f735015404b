"""Real Phoenix and real MLflow: the scores stand in their API on the right spans, once, though the service is killed."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from chat_server import rating, refusal, serving
from hashed_env import hashed_python
from made_up import Trace, chat
from service import ServiceProcess, free_port
from tools import tool

from collector.commands.fetch.fetch import FetchOptions, fetch_traces
from collector.commands.normalize import normalize
from collector.config.settings import LogSettings
from collector.records.json import label_from_json
from collector.service.open_logs import open_logs
from evaluators.results import Label

TRACES = 12
EVALUATORS = {"five": {"kind": "contains", "search_text": "five"}, "short": {"kind": "length", "maximum": 3}}

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(scope="session")
def python() -> Path:
    installed = hashed_python(Path(__file__).with_name("platforms.txt"))
    if installed is None:
        pytest.skip("the platforms cannot be installed here")
    return installed


@asynccontextmanager
async def running(command: list[str], environment: dict[str, str], health: str, folder: Path) -> AsyncIterator[None]:
    with (folder / "platform.txt").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **environment}, start_new_session=True
        )
        try:
            async with asyncio.timeout(240), aiohttp.ClientSession() as session:
                while not await answers(session, health):
                    assert process.returncode is None, (folder / "platform.txt").read_text()[-3000:]
                    await asyncio.sleep(0.5)
            yield
        finally:
            os.killpg(process.pid, 9)
            await process.wait()


async def answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status < 500
    except aiohttp.ClientError:
        return False


def traces() -> list[Trace]:
    start = time.time_ns()
    talks = [Trace(f"{number:032x}", start=start) for number in range(1, TRACES + 1)]
    return [
        each.span(number, "chat", {**chat("How much?", "five"), "session.id": f"talk-{number % 3}"}, at=0)
        for number, each in enumerate(talks, 1)
    ]


async def judged(folder: Path, export: dict[str, Any], sent: list[Trace], done: Callable[[], Any]) -> None:
    """Judge traces with a service that is killed twice meanwhile, until `done`, and a while longer."""
    monitors = {"all": {"evaluators": list(EVALUATORS)}}
    config = {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": "300ms"},
        "evaluators": EVALUATORS,
        "monitors": monitors,
        "export": export,
    }
    process = ServiceProcess(folder, config)
    try:
        await process.start()
        for number, trace in enumerate(sent, 1):
            assert await process.post("traces", trace.spans.SerializeToString()) == 200
            if number in (TRACES // 3, 2 * TRACES // 3):
                await asyncio.sleep(0.9)
                await process.kill()
                await process.start()
        async with asyncio.timeout(120):
            while not await done():
                await asyncio.sleep(0.5)
        await asyncio.sleep(1.5)
        assert await process.stop() == 0
    finally:
        await process.end()


async def labels_after(folder: Path, export: dict[str, Any], within: float = 60.0) -> list[Label]:
    """The labels in the log once a service that exports so has joined its first feedback."""
    config = {"log": {"kind": "sqlite", "path": "evalstream.db"}, "evaluators": EVALUATORS, "export": export}
    process = ServiceProcess(folder, {**config, "monitors": {"all": {"evaluators": list(EVALUATORS)}}})
    joined = 'evalstream_feedback_total{outcome="joined"} 1.0'
    try:
        await process.start()
        async with asyncio.timeout(within):
            while joined not in await process.metrics():
                await asyncio.sleep(0.5)
        assert await process.stop() == 0
    finally:
        await process.end()
    async with open_logs(LogSettings(kind="sqlite", path=str(folder / "evalstream.db"))) as logs:
        partitions = range(logs.labels.partitions)
        records = [each for number in partitions async for batch in logs.labels.read(number, 0) for each in batch]
        return [label_from_json(each.value) for each in records if each.value and not each.headers]


async def post(url: str, body: bytes, headers: dict[str, str]) -> None:
    headers = {"Content-Type": "application/x-protobuf", **headers}
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        assert response.status == 200, await response.text()


async def fetch(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.json()


def span_ids(sent: list[Trace]) -> list[str]:
    return [each.spans.resource_spans[0].scope_spans[0].spans[0].span_id.hex() for each in sent]


async def spans_fetched(source: str, url: str, folder: Path) -> list[str]:
    """The spans whose turns `evalstream fetch` gives, with all that was sent."""
    path, now = folder / "fetched.jsonl", datetime.now(UTC)
    since, until = now - timedelta(hours=1), now + timedelta(minutes=1)
    options = FetchOptions(source=source, output=path, since=since, until=until, limit=1000, url=url)
    assert await fetch_traces(options, {}, print) == 0
    turns = list(normalize([path]))
    assert {(each.input, each.actual_output) for each in turns} == {("How much?", "five")}
    assert {each.conversation_id for each in turns} == {"talk-0", "talk-1", "talk-2"}
    return sorted(str(each.span_id) for each in turns)


@asynccontextmanager
async def phoenix(python: Path, folder: Path) -> AsyncIterator[str]:
    port, grpc = free_port(), free_port()
    environment = {
        "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc), "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(folder / "phoenix"), "PHOENIX_TELEMETRY_ENABLED": "false",
    }  # fmt: skip
    (folder / "phoenix").mkdir()
    url = f"http://127.0.0.1:{port}"
    async with running([str(python), "-m", "phoenix.server.main", "serve"], environment, f"{url}/healthz", folder):
        yield url


COLLECTOR = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{otlp_http: {{endpoint: "{url}", compression: none}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [otlp_http]}}}}
"""


@asynccontextmanager
async def collector_to(url: str, folder: Path) -> AsyncIterator[str]:
    """A Collector that sends traces on."""
    port, folder = free_port(), folder / "collector"
    folder.mkdir()
    (folder / "config.yaml").write_text(COLLECTOR.format(port=port, url=url))
    command = [str(tool("otelcol")), f"--config={folder / 'config.yaml'}"]
    async with running(command, {}, f"http://127.0.0.1:{port}/", folder):
        yield f"http://127.0.0.1:{port}"


async def test_judge_requests_in_phoenix_behind_a_collector(python: Path, tmp_path: Path) -> None:
    trace = Trace(f"{7:032x}", start=time.time_ns()).span(1, "chat", chat("How much?", "five"), at=0)
    [turn] = span_ids([trace])
    evaluator = {
        "kind": "g_eval", "judge": "main", "evaluation_steps": ["Is it right?"], "evaluation_params": ["actual_output"],
    }  # fmt: skip

    def respond(_body: dict[str, Any], number: int) -> Any:
        return rating() if number else refusal(429, retry_after="0")

    async with phoenix(python, tmp_path) as url, collector_to(url, tmp_path) as collector, serving(respond) as judge:
        config = {
            "log": {"kind": "sqlite", "path": "evalstream.db"},
            "assemble": {"idle_timeout": "300ms"},
            "judges": {"main": {"model": "m", "base_url": judge.base_url}},
            "evaluators": {"helpful": evaluator},
            "monitors": {"all": {"evaluators": ["helpful"]}},
            "export": {"otlp": {"endpoint": collector, "judge_spans": True, "judge_texts": True}},
        }
        process = ServiceProcess(tmp_path, config)
        try:
            await process.start()
            await post(f"{collector}/v1/traces", trace.spans.SerializeToString(), {})
            assert await process.post("traces", trace.spans.SerializeToString()) == 200
            async with asyncio.timeout(120):
                while len(spans := (await fetch(f"{url}/v1/projects/default/spans?limit=100")).get("data", [])) < 4:
                    await asyncio.sleep(0.5)
            assert await process.stop() == 0
        finally:
            await process.end()
    by_name = {span["name"]: span for span in spans}
    refused, answered = sorted(
        (span for span in spans if span["name"] == "chat m"), key=lambda span: span["start_time"]
    )
    assert {span["context"]["trace_id"] for span in spans} == {f"{7:032x}"}
    assert by_name["evaluate helpful"]["parent_id"] == turn
    for span in (refused, answered):
        assert span["parent_id"] == by_name["evaluate helpful"]["context"]["span_id"]
        assert span["span_kind"] == "LLM"
        assert "five" in span["attributes"]["llm.input_messages.1.message.content"]
    assert (refused["status_code"], answered["status_code"]) == ("ERROR", "UNSET")
    assert refused["status_message"] == "HTTP 429"
    shown = answered["attributes"]
    assert (shown["llm.model_name"], shown["llm.token_count.prompt"], shown["evalstream.judge.attempt"]) == (
        "m",
        1000,
        2,
    )
    assert "score" in shown["llm.output_messages.0.message.content"]


async def test_phoenix(python: Path, tmp_path: Path) -> None:
    sent = traces()
    query = "&".join(f"span_ids={each}" for each in span_ids(sent))

    async def annotations() -> list[dict[str, Any]]:
        answer = await fetch(f"{url}/v1/projects/default/span_annotations?{query}&limit=1000")
        return answer.get("data", [])

    async with phoenix(python, tmp_path) as url:
        for each in sent[:-1]:
            await post(f"{url}/v1/traces", each.spans.SerializeToString(), {})

        async def done() -> bool:
            if len(await annotations()) == 2 * (TRACES - 1):  # the last trace comes to Phoenix later than to us
                await post(f"{url}/v1/traces", sent[-1].spans.SerializeToString(), {})
            return len(await annotations()) >= 2 * TRACES

        await judged(tmp_path, {"phoenix": {"endpoint": url}}, sent, done)
        written = await annotations()
        assert await spans_fetched("phoenix", url, tmp_path) == sorted(span_ids(sent))
        said = {"span_id": span_ids(sent)[0], "name": "five", "annotator_kind": "HUMAN", "result": {"score": 0.0}}
        async with aiohttp.ClientSession() as session:
            answer = await session.post(f"{url}/v1/span_annotations?sync=true", json={"data": [said]})
            assert answer.status == 200, await answer.text()
        [label] = await labels_after(tmp_path, {"phoenix": {"endpoint": url, "corrections": "1s"}})
    assert (label.evaluator, label.score, label.judge_score) == ("five", 0.0, 1.0)
    assert label.subject.span_id == said["span_id"]
    counted = Counter((each["span_id"], each["name"]) for each in written)
    assert counted == {(span, name): 1 for span in span_ids(sent) for name in EVALUATORS}
    assert {each["annotator_kind"] for each in written} == {"CODE"}
    assert {each["result"]["score"] for each in written if each["name"] == "five"} == {1.0}
    assert {each["metadata"]["evalstream.monitor"] for each in written} == {"all"}


async def test_mlflow(python: Path, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        str(python), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db", "--artifacts-destination", str(tmp_path / "files"),
    ]  # fmt: skip
    sent = traces()
    ids = [f"tr-{each.trace_id.hex()}" for each in sent]

    async def assessments() -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = []
        for each in ids:
            answer = await fetch(f"{url}/api/3.0/mlflow/traces/{each}")
            info = answer.get("trace", {}).get("trace_info", {})
            found += [(each, assessment) for assessment in info.get("assessments", [])]
        return found

    async with running(command, {"DO_NOT_TRACK": "true"}, f"{url}/health", tmp_path):
        for each in sent:
            await post(f"{url}/v1/traces", each.spans.SerializeToString(), {"x-mlflow-experiment-id": "0"})

        async def done() -> bool:
            return len(await assessments()) >= 2 * TRACES

        await judged(tmp_path, {"mlflow": {"endpoint": url}}, sent, done)
        written = await assessments()
        assert await spans_fetched("mlflow", url, tmp_path) == sorted(span_ids(sent))
    counted = Counter((trace, each["assessment_name"]) for trace, each in written)
    assert counted == {(trace, name): 1 for trace in ids for name in EVALUATORS}
    spans = dict(zip(ids, span_ids(sent), strict=True))
    assert all(each["span_id"] == spans[trace] for trace, each in written)
    assert {each["feedback"]["value"] for _, each in written if each["assessment_name"] == "five"} == {1.0}
    assert {each["source"]["source_type"] for _, each in written} == {"CODE"}
