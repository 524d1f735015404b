"""`evalstream fetch`: what a platform has is in the file, whole and once; what it does not give is said in a sentence.

The stubs answer as the platforms' published interfaces say: Tempo's HTTP API, Jaeger's api_v3 with its gateway,
Phoenix's OpenAPI schema, the types of Langfuse's SDK, MLflow's protobuf service.
"""

from __future__ import annotations

import base64
import gzip
import re
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest
from aiohttp import web
from google.protobuf.json_format import MessageToDict
from made_up import Trace, chat
from platform_stub import Call, PlatformStub
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.fetch import jaeger, langfuse, phoenix, tempo
from collector.commands.fetch.api_reader import FetchFailed
from collector.commands.fetch.fetch import FetchOptions, fetch_traces
from collector.commands.normalize import normalize
from collector.errors import DONE, FAILED, ConfigError

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TOKEN = "a-very-secret-token"
COUNT = 12


def made(number: int) -> Trace:
    """Trace `number` of 12, five minutes after the one before it."""
    start = int((NOON + number * timedelta(minutes=5)).timestamp()) * 10**9
    trace = Trace(f"{number + 1:032x}", start=start)
    trace.span(1, "turn", {"session.id": f"talk-{number}"}, at=0)
    return trace.span(2, "chat", {**chat(f"How much is {number}?", "five"), "tier": "gold"}, parent=1, at=1)


TRACES = {made(number).trace_id.hex(): made(number) for number in range(COUNT)}
QUESTIONS = sorted(f"How much is {number}?" for number in range(COUNT))


def asked(call: Call) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(call.path).query))


def base64_spans(trace: Trace) -> list[dict[str, Any]]:
    """Spans as protobuf's own JSON has them."""
    resources = MessageToDict(trace.spans)["resourceSpans"]
    return [span for each in resources for scope in each["scopeSpans"] for span in scope["spans"]]


def hex_request(traces: list[Trace]) -> dict[str, Any]:
    """Spans as OTLP JSON has them."""
    resources = [each for trace in traces for each in MessageToDict(trace.spans)["resourceSpans"]]
    for span in (span for each in resources for scope in each["scopeSpans"] for span in scope["spans"]):
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = base64.b64decode(span[name]).hex()
    return {"resourceSpans": resources}


def within(since: float, until: float) -> list[Trace]:
    return [each for each in TRACES.values() if since * 1e9 <= each.start < until * 1e9]


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def as_tempo(call: Call) -> web.Response:
    path = urlsplit(call.path).path
    if path == "/api/search":
        query = asked(call)
        found = within(int(query["start"]), int(query["end"]))[: int(query["limit"])]
        names = [{"traceID": each.trace_id.hex().lstrip("0"), "startTimeUnixNano": str(each.start)} for each in found]
        return web.json_response({"traces": names, "metrics": {"totalBlocks": 1}})
    trace = TRACES.get(path.removeprefix("/api/traces/").zfill(32))
    if trace is None:
        return web.Response(status=404)
    assert call.headers["Accept"] == "application/protobuf"
    return web.Response(body=trace.spans.SerializeToString(), content_type="application/protobuf")


def as_jaeger(call: Call) -> web.Response:
    if urlsplit(call.path).path == "/api/v3/services":
        return web.json_response({"services": ["shop", "jaeger"]})
    query = asked(call)
    assert query["query.service_name"] == "shop"
    found = within(moment(query["query.start_time_min"]), moment(query["query.start_time_max"]))
    if not found:
        return web.json_response({"error": {"httpCode": 404, "message": "No traces found"}}, status=404)
    return web.json_response({"result": hex_request(found[: int(query["query.search_depth"])])})


def phoenix_span(span: dict[str, Any]) -> dict[str, Any]:
    names = {"traceId": "trace_id", "spanId": "span_id", "parentSpanId": "parent_span_id"}
    ids = {new: base64.b64decode(span[old]).hex() if old in span else None for old, new in names.items()}
    values = {"stringValue": "string_value", "intValue": "int_value"}
    attributes = [
        {"key": each["key"], "value": {new: each["value"].get(old) for old, new in values.items()}}
        for each in span["attributes"]
    ]
    times = {f"{name}_time_unix_nano": int(span[f"{name}TimeUnixNano"]) for name in ("start", "end")}
    return {**ids, **times, "name": span["name"], "kind": None, "events": None, "attributes": attributes}


def as_phoenix(call: Call) -> web.Response:
    parts = urlsplit(call.path)
    if parts.path != "/v1/projects/default/spans/otlpv1":
        return web.Response(status=404)
    pairs = parse_qsl(parts.query)
    query, names = dict(pairs), [value for name, value in pairs if name == "trace_id"]
    chosen = [TRACES[each] for each in names] or within(moment(query["start_time"]), moment(query["end_time"]))
    spans = [phoenix_span(span) for each in chosen for span in base64_spans(each)]
    if "attribute" in query:
        key, _, value = query["attribute"].partition(":")
        spans = [
            each
            for each in spans
            if {"key": key, "value": {"string_value": value, "int_value": None}} in each["attributes"]
        ]
    begin, size = int(query.get("cursor", 0)), min(int(query["limit"]), 5)
    following = str(begin + size) if len(spans) > begin + size else None
    return web.json_response({"data": spans[begin : begin + size], "next_cursor": following})


def observations(trace: Trace, number: int) -> list[dict[str, Any]]:
    trace_id, at = trace.trace_id.hex(), datetime.fromtimestamp(trace.start / 1e9, UTC).isoformat()
    turn = {"id": "1" * 16, "type": "SPAN", "name": "turn", "startTime": at, "endTime": at}
    model = {"id": "2" * 16, "type": "GENERATION", "name": "chat", "startTime": at, "endTime": at, "model": "m-1"}
    texts = {"input": orjson.dumps([{"role": "user", "content": f"How much is {number}?"}]).decode(), "output": "five"}
    model |= {"parentObservationId": "1" * 16, "usageDetails": {"input": 3, "output": 1}, **texts}
    model |= {"metadata": {"note": "long " * 100, "tier": "gold", "flags": ["a", "b"]}}
    return [{"traceId": trace_id, "projectId": "p", **each} for each in (turn, model)]


OBSERVED = {each.trace_id.hex(): observations(each, number) for number, each in enumerate(TRACES.values())}


def as_langfuse(call: Call) -> web.Response:
    """Metadata are cut to 200 characters unless they are asked for, by names between commas."""
    query = asked(call)
    if urlsplit(call.path).path != "/api/public/v2/observations":
        return web.Response(status=404)
    assert call.headers["Authorization"] == "Basic " + base64.b64encode(b"pk-lf-1:sk-lf-2").decode()
    chosen = [query["traceId"]] if "traceId" in query else list(OBSERVED)
    found = [{**each, "sessionId": f"talk-{name}"} for name in chosen for each in OBSERVED[name]]
    if query["fields"] == "core":
        found = [{name: each[name] for name in ("id", "traceId", "startTime", "endTime", "type")} for each in found]
    for each in (each for each in found if "metadata" in each):
        whole = query.get("expandMetadata", "").split(",")
        values = each["metadata"].items()
        each["metadata"] = {name: value if name in whole else value[:200] for name, value in values}
    begin, size = int(query.get("cursor", 0)), 5
    meta = {"cursor": str(begin + size)} if len(found) > begin + size else {}
    return web.json_response({"data": found[begin : begin + size], "meta": meta})


def as_mlflow(call: Call) -> web.Response:
    path, query = urlsplit(call.path).path, asked(call)
    if path == "/api/2.0/mlflow/experiments/get-by-name":
        if query["experiment_name"] == "shop":
            return web.json_response({"experiment": {"experiment_id": "7"}})
        return web.json_response({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}, status=404)
    if path == "/api/3.0/mlflow/traces/search":
        since, until = (int(each) / 1000 for each in re.findall(r"[<=] (\d{10,})", call.body["filter"]))
        begin, found = int(call.body.get("page_token", 0)), within(since, until)
        meta = {"trace_metadata": {"mlflow.trace.session": "a-session"}}
        page = [{"trace_id": f"tr-{each.trace_id.hex()}", **meta} for each in found[begin : begin + 5]]
        following = {"next_page_token": str(begin + 5)} if len(found) > begin + 5 else {}
        return web.json_response({"traces": page, **following})
    trace = TRACES[query["trace_id"].removeprefix("tr-")]
    return web.json_response({"trace": {"trace_info": {}, "spans": base64_spans(trace)}})


AS: dict[str, Callable[[Call], web.Response]] = {
    "tempo": as_tempo,
    "jaeger": as_jaeger,
    "phoenix": as_phoenix,
    "langfuse": as_langfuse,
    "mlflow": as_mlflow,
}


class Fetched:
    """The command on a stub, its output and its status."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "traces.jsonl"
        self.said: list[str] = []

    async def run(self, stub: PlatformStub, source: str, token: str = "pk-lf-1:sk-lf-2", **options: Any) -> int:
        settings = {"since": NOON, "until": NOON + HOUR, "limit": 1000, "patience": 5.0, **options}
        async with stub.serve():
            chosen = FetchOptions(source=source, output=self.path, url=stub.endpoint, **settings)
            return await fetch_traces(chosen, {"EVALSTREAM_FETCH_TOKEN": token}, self.said.append)

    @property
    def questions(self) -> list[str]:
        return sorted(str(each.input) for each in normalize([self.path]))

    @property
    def lines(self) -> list[Any]:
        return [orjson.loads(each) for each in self.path.read_bytes().splitlines()]


@pytest.fixture
def fetched(tmp_path: Path) -> Iterator[Fetched]:
    yield Fetched(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} <= {"traces.jsonl"}, "a part is left"


@pytest.mark.parametrize("source", sorted(AS))
async def test_every_trace_is_there_once(source: str, fetched: Fetched) -> None:
    stub = PlatformStub(respond=AS[source])
    assert await fetched.run(stub, source) == DONE, fetched.said
    assert len(fetched.lines) == COUNT
    assert fetched.questions == QUESTIONS
    assert stat.S_IMODE(fetched.path.stat().st_mode) == 0o600
    first = fetched.path.read_bytes()
    fetched.path.unlink()
    assert await fetched.run(PlatformStub(respond=AS[source]), source) == DONE
    assert fetched.path.read_bytes() == first, "what is read again is the same, byte by byte"
    turns = list(normalize([fetched.path]))
    assert {each.actual_output for each in turns} == {"five"}
    assert all(each.conversation_id for each in turns)
    assert all(TOKEN not in line for line in fetched.said)


async def test_langfuse_gives_metadata_whole_and_says_what_it_cannot(
    fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    seventh, [turn, model] = list(OBSERVED.items())[7]
    metadata = {**model["metadata"], "a,b": "x" * 250}
    monkeypatch.setitem(OBSERVED, seventh, [turn, {**model, "metadata": metadata}])
    assert await fetched.run(PlatformStub(respond=as_langfuse), "langfuse") == FAILED
    spans = [span for line in fetched.lines for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    models = [{each["key"]: each["value"] for each in span["attributes"]} for span in spans if span["name"] == "chat"]
    prefix = "langfuse.observation.metadata."
    assert {each[f"{prefix}note"]["stringValue"] for each in models} == {"long " * 100}
    assert {each[f"{prefix}flags"]["stringValue"] for each in models} == {'["a","b"]'}
    assert [len(each[f"{prefix}a,b"]["stringValue"]) for each in models if f"{prefix}a,b" in each] == [200]
    assert [each for each in fetched.said if each.startswith("left out")] == [
        f"left out: all but the first 200 characters of 1 values of the metadata of {seventh}"
    ]


def test_langfuses_root_of_an_application_may_have_a_parent() -> None:
    [model] = observations(next(iter(TRACES.values())), 1)[1:]
    for is_root in (True, False):
        [span] = langfuse.otlp_request([{**model, "isRootObservation": is_root}])["resourceSpans"][0]["scopeSpans"][0][
            "spans"
        ]
        names = {each["key"] for each in span["attributes"]}
        assert ("langfuse.internal.is_app_root" in names) == is_root


async def test_langfuse_before_version_4_is_one_sentence(fetched: Fetched) -> None:
    stub = PlatformStub(respond=lambda _call: web.Response(status=404, text="<html>"))
    with pytest.raises(ConfigError, match="update it to 4 or newer"):
        await fetched.run(stub, "langfuse")
    assert not fetched.path.exists()


@pytest.mark.parametrize("source", ["jaeger", "mlflow", "phoenix", "tempo"])
async def test_only_the_time_and_the_limit_are_read(source: str, fetched: Fetched) -> None:
    assert await fetched.run(PlatformStub(respond=AS[source]), source, until=NOON + HOUR / 2) == DONE
    assert len(fetched.lines) == COUNT // 2
    fetched.path.unlink()
    assert await fetched.run(PlatformStub(respond=AS[source]), source, limit=3) == DONE
    assert len(fetched.lines) == 3
    assert "--limit is 3" in fetched.said[-1]


async def test_a_trace_that_jaeger_streams_in_pieces_is_whole(fetched: Fetched) -> None:
    def streamed(call: Call) -> web.Response:
        answer = orjson.loads(as_jaeger(call).body)
        pieces = [{"result": {"resourceSpans": [each]}} for each in answer.get("result", {}).get("resourceSpans", ())]
        return web.Response(body=b"\n".join(map(orjson.dumps, pieces))) if pieces else as_jaeger(call)

    assert await fetched.run(PlatformStub(respond=streamed), "jaeger") == DONE
    resources = [each for line in fetched.lines for each in line["resourceSpans"]]
    spans = [span for each in resources for scope in each["scopeSpans"] for span in scope["spans"]]
    assert len(spans) == 2 * COUNT


@pytest.mark.parametrize(("source", "module"), [("tempo", tempo), ("jaeger", jaeger)])
async def test_a_full_search_is_searched_by_halves(
    source: str, module: Any, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no pages: without the halves two traces of twelve would be there."""
    monkeypatch.setattr(module, "_MOST", 2)
    assert await fetched.run(PlatformStub(respond=AS[source]), source) == DONE
    assert fetched.questions == QUESTIONS


async def test_what_cannot_be_halved_is_said(fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempo, "_MOST", 1)
    assert await fetched.run(PlatformStub(respond=as_tempo), "tempo") == FAILED
    assert fetched.questions == QUESTIONS
    assert sum("only the first 1 " in each for each in fetched.said) == COUNT


async def test_traces_are_whole_though_the_time_or_a_page_cuts_them(
    fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phoenix, "_TRACES", 5)
    stub = PlatformStub(respond=as_phoenix)
    assert await fetched.run(stub, "phoenix", query="tier:gold") == DONE
    spans = [len(each["resourceSpans"][0]["scopeSpans"][0]["spans"]) for each in fetched.lines]
    assert spans == [2] * COUNT, "the query fits one of the two"


async def test_an_old_phoenix_is_refused(fetched: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves out parameters that it does not know, and would give what nobody asked for."""
    monkeypatch.setattr(phoenix, "_TRACES", 5)

    def old(call: Call) -> web.Response:
        query = {"start_time": NOON.isoformat(), "end_time": (NOON + HOUR).isoformat(), "limit": "1000"}
        cursor = asked(call).get("cursor", "0")
        path = f"{urlsplit(call.path).path}?" + "&".join(f"{a}={b.replace('+', '%2B')}" for a, b in query.items())
        return as_phoenix(Call("GET", f"{path}&cursor={cursor}", {}, b""))

    with pytest.raises(ConfigError, match=r"13\.9"):
        await fetched.run(PlatformStub(respond=old), "phoenix", limit=3)
    with pytest.raises(ConfigError, match="does not filter by attributes"):
        await fetched.run(PlatformStub(respond=old), "phoenix", query="other:gold")
    assert not fetched.path.exists()


async def test_an_experiment_has_a_name(fetched: Fetched) -> None:
    stub = PlatformStub(respond=as_mlflow)
    assert await fetched.run(stub, "mlflow", project="shop") == DONE
    assert stub.posts[0].body["locations"][0]["mlflow_experiment"] == {"experiment_id": "7"}
    fetched.path.unlink()
    with pytest.raises(ConfigError, match="no experiment 'none'"):
        await fetched.run(PlatformStub(respond=as_mlflow), "mlflow", project="none")


async def test_nothing_found_is_no_file(fetched: Fetched) -> None:
    for source in ("jaeger", "mlflow", "phoenix", "tempo"):
        since = NOON - 9 * HOUR
        assert await fetched.run(PlatformStub(respond=AS[source]), source, since=since, until=NOON - HOUR) == FAILED
        assert "no trace between" in fetched.said[-1]
    assert not fetched.path.exists()


async def test_busy_is_asked_again(fetched: Fetched) -> None:
    answers = [web.Response(status=status) for status in (503, 429, 502)]
    assert await fetched.run(PlatformStub(respond=as_tempo, answers=answers), "tempo") == DONE
    assert fetched.questions == QUESTIONS


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, r"refuses the credentials \(401\); set EVALSTREAM_FETCH_TOKEN or --token-file"),
        (404, r"does not have what is asked for \(404\); correct --url or --project"),
        (302, "correct --url"),
        (400, r"refuses the query \(400\): parse error at line 1"),
        (200, "is not Tempo's API; correct --url"),
        (503, "answers 503; try again later"),
        (418, "answers 418"),
    ],
)
async def test_what_is_wrong_is_one_sentence(status: int, sentence: str, fetched: Fetched) -> None:
    text = "parse error\nat line 1"
    headers = {"Location": "/login"} if status == 302 else {}
    stub = PlatformStub(respond=lambda _call: web.Response(status=status, text=text, headers=headers))
    with pytest.raises(FetchFailed, match=sentence) as failure:
        await fetched.run(stub, "tempo", token=TOKEN, patience=0.0)
    assert "\n" not in str(failure.value)
    assert TOKEN not in str(failure.value)
    assert len(stub.calls) == 1
    assert not fetched.path.exists()


async def test_a_failure_in_the_middle_leaves_no_file(fetched: Fetched) -> None:
    found: list[str] = []

    def fails_later(call: Call) -> web.Response:
        found.append(call.path)
        return as_tempo(call) if len(found) < 5 else web.Response(status=500)

    with pytest.raises(FetchFailed, match="answers 500"):
        await fetched.run(PlatformStub(respond=fails_later), "tempo", patience=0.0)
    assert not fetched.path.exists()


async def test_what_is_not_otlp_is_left_out_and_said(fetched: Fetched) -> None:
    def spoilt(call: Call) -> web.Response:
        bad = urlsplit(call.path).path == "/api/traces/5"
        return web.Response(body=b'{"batches": [{"scopeSpans": 7}]}') if bad else as_tempo(call)

    assert await fetched.run(PlatformStub(respond=spoilt), "tempo") == FAILED
    assert len(fetched.lines) == COUNT - 1
    assert any(each.startswith("left out: an answer that is not OTLP") for each in fetched.said)


def command(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fetch", *arguments])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tempi",), "did you mean 'tempo'"),
        (("tempo", "--project", "x"), "--project: Tempo is not searched so; it takes --query"),
        (("jaeger", "--from", "1h", "--to", "2h"), "must begin before it ends"),
        (("tempo", "--url", "tempo:3200"), "--url: not an address"),
        (("tempo", "--header", "X"), "write NAME=VALUE"),
        (("tempo", "--header", "authorization=Bearer x"), "EVALSTREAM_FETCH_TOKEN or --token-file"),
        (("tempo", "--token-file", "nowhere"), "nowhere: No such file"),
        (("tempo", "--from", "soon"), "is not a time"),
    ],
)
def test_wrong_options_are_refused(arguments: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    result = command(*arguments, "-o", str(tmp_path / "out.jsonl"))
    assert isinstance(result.exception, ConfigError)
    assert sentence in str(result.exception)


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("mine")
    assert "exists already" in str(command("tempo", "-o", str(path)).exception)
    assert path.read_text() == "mine"
    assert "cannot be written" in str(command("tempo", "-o", str(tmp_path / "no" / "out.jsonl")).exception)


def test_an_address_without_an_answer_is_said_at_once(tmp_path: Path) -> None:
    result = command("tempo", "--url", "http://127.0.0.1:1", "-o", str(tmp_path / "out.jsonl"))
    assert "Tempo does not answer at http://127.0.0.1:1 (" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


PLAIN = {"traceId": "0" * 31 + "1", "id": "0" * 15 + "1", "startTime": "0001-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"data": [{"traceId": "a", "tags": ' + b"[" * 900 + b"]" * 900 + b"}]}", "nested more than 100 deep"),
        (b'{"data": [' + b"{}," * 600_000 + b"{}]}", "objects and arrays"),
        (b" " * (33 << 20), "larger than"),
        (b'{"data": [], "meta": {"cursor": "again"}}', "does not end"),
    ],
    ids=["deep", "many", "large", "endless"],
)
async def test_answers_without_bounds_are_one_sentence(body: bytes, sentence: str, fetched: Fetched) -> None:
    packed = {"body": gzip.compress(body), "headers": {"Content-Encoding": "gzip", "Content-Type": "application/json"}}
    stub = PlatformStub(respond=lambda _call: web.Response(**packed))
    with pytest.raises(FetchFailed, match=sentence):
        await fetched.run(stub, "langfuse")
    assert not fetched.path.exists()
