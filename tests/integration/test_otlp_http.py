"""The OTLP/HTTP receiver on a real socket, with well-meant and hostile senders."""

from __future__ import annotations

import asyncio
import gzip
import io
import random
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import orjson
import pytest
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from log_doubles import FailingLog, GatedLog, PickyLog, stored
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from otlp_samples import logs_request, trace_id, traces_request
from peak_memory import PeakMemory

from collector.logs.log import LogUnavailable
from collector.logs.memory import MemoryLog
from collector.receive.access import FREE_GUESSES
from collector.receive.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROPS, RECEIVE_PENDING_BYTES, RECEIVE_REJECTED, RECEIVE_REQUESTS, WRONG_TOKENS

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
GZIP = {"Content-Encoding": "gzip"}
ONE, TWO = trace_id(1), trace_id(2)
TRACES = traces_request(ONE, TWO).SerializeToString()
MIB = 1024**2


class Sender:
    """Talks to a receiver that listens on a port of its own."""

    def __init__(self, port: int, session: aiohttp.ClientSession, telemetry: Telemetry) -> None:
        self.port = port
        self.session = session
        self.telemetry = telemetry

    async def post(self, body: bytes, headers=PROTOBUF, path: str = "/v1/traces"):
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.post(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers) as response:
            return response.status, response.headers, await response.read()

    async def status(self, body: bytes, headers=PROTOBUF, path: str = "/v1/traces") -> int:
        return (await self.post(body, headers, path))[0]

    @asynccontextmanager
    async def raw(self, data: bytes) -> AsyncIterator[asyncio.StreamReader]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            await writer.drain()
            yield reader
        finally:
            writer.close()


@asynccontextmanager
async def receiving(log: MemoryLog | None = None, **settings) -> AsyncIterator[Sender]:
    telemetry = Telemetry()
    receiver = OtlpHttpReceiver(OtlpHttpSettings(port=0, **settings), log or MemoryLog("spans", 2), telemetry)
    async with receiver.serve() as port, aiohttp.ClientSession() as session:
        yield Sender(port, session, telemetry)


async def test_spans_are_durable_when_the_answer_comes():
    log = GatedLog()
    async with receiving(log) as sender:
        answer = asyncio.create_task(sender.post(TRACES))
        await log.arrived.acquire()
        await asyncio.sleep(0.02)
        assert not answer.done()
        log.gate.set()
        status, headers, body = await answer
    assert (status, headers["Content-Type"], body) == (200, "application/x-protobuf", b"")
    assert [(record.key, record.headers) for record in await stored(log)] == [
        (ONE.hex().encode(), (("signal", b"traces"),)),
        (TWO.hex().encode(), (("signal", b"traces"),)),
    ]


async def test_json_gzip_and_logs():
    log = MemoryLog("spans", 1)
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s"}]}]}]}' % ONE.hex().encode()
    async with receiving(log) as sender:
        status, headers, answer = await sender.post(gzip.compress(body), {**JSON, **GZIP})
        assert (status, headers["Content-Type"], answer) == (200, "application/json", b"{}")
        charset = {"Content-Type": "application/json; charset=utf-8", "Content-Encoding": "identity"}
        assert await sender.status(body, charset) == 200
        assert await sender.status(gzip.compress(TRACES), {**PROTOBUF, **GZIP}) == 200
        assert await sender.status(logs_request(ONE).SerializeToString(), path="/v1/logs") == 200
    assert [record.headers[0][1] for record in await stored(log)] == [b"traces"] * 4 + [b"logs"]


@pytest.mark.parametrize("headers", [PROTOBUF, JSON, {**PROTOBUF, **GZIP}])
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
async def test_an_empty_body_is_an_empty_request(headers, path: str):
    async with receiving() as sender:
        assert await sender.status(b"", headers, path) == 200


async def test_partial_success_says_how_many_spans_have_no_trace():
    async with receiving() as sender:
        body = traces_request(b"", ONE, bytes(16)).SerializeToString()
        status, _, answer = await sender.post(body)
        partial = ExportTraceServiceResponse.FromString(answer).partial_success
        assert (status, partial.rejected_spans) == (200, 2)
        assert partial.error_message == "2 spans have no valid trace id"
        as_json = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"x"}]}]}]}'
        _, _, answer = await sender.post(as_json, JSON)
        assert orjson.loads(answer)["partialSuccess"]["rejectedSpans"] == "1"
        _, _, answer = await sender.post(logs_request(b"").SerializeToString(), path="/v1/logs")
        assert not ExportLogsServiceResponse.FromString(answer).HasField("partial_success")


def gzip_bomb(size: int) -> bytes:
    pack = zlib.compressobj(9, wbits=31)
    return b"".join(pack.compress(bytes(MIB)) for _ in range(size // MIB)) + pack.flush()


async def test_gzip_bomb_is_413_without_growing():
    bomb = gzip_bomb(1024 * MIB)
    assert len(bomb) < 2 * MIB
    async with receiving() as sender:
        assert await sender.status(TRACES) == 200
        with PeakMemory() as memory:
            status, _, answer = await sender.post(bomb, {**PROTOBUF, **GZIP})
        assert (status, Status.FromString(answer).code) == (413, Code.RESOURCE_EXHAUSTED)
        assert sender.telemetry.gauge(RECEIVE_PENDING_BYTES)._value.get() == 0
    assert memory.grown < 32 * MIB


async def test_too_large_bodies_are_413():
    async with receiving() as sender:
        assert await sender.status(bytes(5 * MIB)) == 413
        assert await sender.status(await chunked(bytes(5 * MIB))) == 413
        assert await sender.status(b"\x0a" + bytes(4 * MIB - 1)) == 400  # the limit itself is allowed


async def chunked(body: bytes):
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 65536):
            yield body[at : at + 65536]

    return pieces()


@pytest.mark.parametrize("encoding", ["lz4", "gzip, gzip", "br", "x-gzip", ","])
async def test_other_encodings_are_415(encoding: str):
    async with receiving() as sender:
        assert await sender.status(TRACES, {**PROTOBUF, "Content-Encoding": encoding}) == 415
        assert await sender.status(TRACES) == 200


@pytest.mark.parametrize(
    "body",
    [b"not gzip", gzip.compress(TRACES)[:-4], gzip.compress(TRACES) + b"junk", gzip.compress(TRACES)[:15]],
    ids=["prose", "cut off", "more behind it", "half"],
)
async def test_broken_gzip_is_400(body: bytes):
    async with receiving() as sender:
        status, _, answer = await sender.post(body, {**PROTOBUF, **GZIP})
        assert (status, Status.FromString(answer).code) == (400, Code.INVALID_ARGUMENT)


async def test_half_sent_requests_do_not_hold_up_others():
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    async with receiving(idle_timeout=0.3, body_deadline=0.3) as sender:
        started = time.monotonic()
        async with (
            sender.raw(b"") as idle,
            sender.raw(head) as half_head,
            sender.raw(head + b"Content-Length: 100\r\n\r\nhalf") as half_body,
        ):
            assert await sender.status(TRACES) == 200
            assert await asyncio.wait_for(idle.read(), 60) == b""
            assert await asyncio.wait_for(half_head.read(), 60) == b""
            answer = await asyncio.wait_for(half_body.read(), 60)
        assert answer.startswith(b"HTTP/1.1 408")
        assert time.monotonic() - started < 30, "long before aiohttp's own limits"
        assert sender.telemetry.gauge(RECEIVE_PENDING_BYTES)._value.get() == 0


async def test_dripping_headers_are_cut_off():
    async with receiving(idle_timeout=0.3) as sender:
        reader, writer = await asyncio.open_connection("127.0.0.1", sender.port)
        writer.write(b"POST /v1/traces HTTP/1.1\r\n")
        closed = asyncio.create_task(reader.read())
        async with asyncio.timeout(60):
            while not closed.done():
                writer.write(b"X-a: y\r\n")
                await asyncio.sleep(0.05)
        writer.close()


async def test_connections_beyond_the_cap_are_told_to_come_again():
    async with receiving(max_connections=20) as sender:
        connections = [await asyncio.open_connection("127.0.0.1", sender.port) for _ in range(20)]
        await asyncio.sleep(0.05)
        async with sender.raw(b"") as reader:
            assert (await reader.read()).startswith(b"HTTP/1.1 503")
        for _, writer in connections:
            writer.close()
            await writer.wait_closed()
        await asyncio.sleep(0.05)
        assert await sender.status(TRACES) == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", "application/grpc", "x"])
async def test_wrong_content_type_is_415(content_type: str):
    async with receiving() as sender:
        status, headers, answer = await sender.post(TRACES, {"Content-Type": content_type})
        assert (status, headers["Content-Type"]) == (415, "application/json")
        assert "application/x-protobuf" in orjson.loads(answer)["message"]


async def test_json_that_is_sent_as_protobuf_is_told_its_content_type():
    async with receiving() as sender:
        status, _, answer = await sender.post(b'{"resourceSpans": []}')
        assert status == 400
        assert Status.FromString(answer).message == (
            "not an OTLP protobuf request of traces; this is JSON, whose content type is application/json"
        )


async def test_other_methods_and_paths(caplog):
    async with receiving() as sender:
        url = f"http://127.0.0.1:{sender.port}"
        async with sender.session.get(f"{url}/v1/traces") as response:
            assert response.status == 405
            assert response.headers["Allow"] == "POST"
            assert await response.json() == {"code": Code.UNIMPLEMENTED, "message": "Method Not Allowed; use POST"}
        for path in ("/v1/elsewhere", "/v1/traces/v1/traces"):
            status, _, answer = await sender.post(TRACES, path=path)
            assert status == 404
            assert "traces go to /v1/traces" in Status.FromString(answer).message
        assert caplog.text.count("traces go to /v1/traces") == 1, "a sender repeats it without end"


async def test_metrics_are_refused_with_a_sentence_and_nothing_breaks():
    async with receiving() as sender:
        status, _, answer = await sender.post(b"anything", path="/v1/metrics")
        assert status == 404
        assert "only traces and logs" in Status.FromString(answer).message
        assert await sender.status(TRACES) == 200


async def test_random_bytes_never_do_more_than_400():
    chance = random.Random(3)
    seen = set()
    async with receiving() as sender:
        for _ in range(300):
            body = bytearray(chance.randbytes(chance.randint(0, 60)) if chance.random() < 0.5 else TRACES)
            for _ in range(chance.randint(0, 4)):
                if body:
                    body[chance.randrange(len(body))] = chance.randrange(256)
            path = chance.choice(["/v1/traces", "/v1/logs"])
            seen.add(await sender.status(bytes(body), chance.choice([PROTOBUF, JSON, {**PROTOBUF, **GZIP}]), path))
    assert seen == {200, 400}


def field(tag: bytes, inner: bytes) -> bytes:
    """A length-delimited protobuf field."""
    length, size = bytearray(), len(inner)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return tag + bytes([*length, size]) + inner


def spans_of(count: int, before: bytes = b"") -> bytes:
    return field(b"\x0a", field(b"\x12", before + b"\x12\x00" * count))


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (spans_of(2_000_000), PROTOBUF),
        (spans_of(2_000_000, b"\x23\x24"), PROTOBUF),
        (b"\x23\x24" + spans_of(2_000_000), PROTOBUF),
        (b"\x0a\x00" * 2_000_000, PROTOBUF),
        (b'{"resourceSpans":[' + b"{}," * 1_300_000 + b"{}]}", JSON),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 480_000 + b"{}]}]}]}", JSON),
    ],
    ids=["spans", "behind a group", "behind a group at the top", "resources", "json resources", "json spans"],
)
async def test_items_beyond_the_limit_are_413_at_once(body: bytes, headers: dict[str, str]):
    packed = gzip.compress(body)
    assert len(packed) < 16_384
    async with receiving() as sender:
        with PeakMemory() as memory:
            assert await sender.status(packed, {**headers, **GZIP}) == 413
    assert memory.grown < 24 * len(body) + 16 * MIB


async def test_a_large_resource_is_not_repeated_for_thousands_of_traces():
    """Every trace's record holds its resource: a kilobyte would else become gigabytes."""
    resource = field(b"\x0a", field(b"\x0a", field(b"\x0a", bytes(2 * MIB))))
    spans = b"".join(field(b"\x12", field(b"\x0a", number.to_bytes(16, "big"))) for number in range(1, 15_000))
    body = gzip.compress(field(b"\x0a", resource + field(b"\x12", spans)))
    log = MemoryLog("spans", 2)
    async with receiving(log) as sender:
        with PeakMemory() as memory:
            status, _, answer = await sender.post(body, {**PROTOBUF, **GZIP})
        assert (status, b"come to more than" in answer) == (413, True)
        assert await sender.status(TRACES) == 200
    assert memory.grown < 64 * MIB


NESTED = b'{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":%s}]}}]}'


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"resourceSpans":' + b"[" * 100_000,
        NESTED % (b'{"arrayValue":{"values":[' * 2000 + b"{}" + b"]}}" * 2000),
        NESTED % (b'{"intValue":' + b"9" * 1_000_000 + b"}"),
        NESTED % b'{"doubleValue":NaN}',
        NESTED % b'{"stringValue":"\xff"}',
        b"null",
        b'"text"',
    ],
    ids=["brackets", "nested", "values", "digits", "nan", "utf-8", "null", "text"],
)
async def test_hostile_json_is_400(body: bytes):
    async with receiving() as sender:
        status, _, answer = await sender.post(body, JSON)
        assert (status, orjson.loads(answer)["code"]) == (400, Code.INVALID_ARGUMENT)


@pytest.mark.parametrize("text", [rb'"cut \ud83d"', rb'"\ude00"', rb'"\u0000"'])
async def test_odd_text_in_json_refuses_nothing(text: bytes):
    """An exporter in JavaScript that cuts long attributes leaves half an emoji at the end of some."""
    async with receiving() as sender:
        assert await sender.status(NESTED % (b'{"stringValue":%s}' % text), JSON) == 200


async def test_deep_protobuf_is_400():
    value = b""
    for _ in range(2000):
        value = field(b"\x2a", field(b"\x0a", value))  # AnyValue.array_value.values
    attribute = field(b"\x4a", field(b"\x12", value))  # Span.attributes, KeyValue.value
    async with receiving() as sender:
        assert await sender.status(field(b"\x0a", field(b"\x12", field(b"\x12", attribute)))) == 400


async def test_odd_ids_and_times_are_taken_or_told():
    request = traces_request(b"short", ONE)
    span = request.resource_spans[0].scope_spans[0].spans[1]
    span.span_id = b"xyz"
    span.start_time_unix_nano, span.end_time_unix_nano = 2**64 - 1, 0
    async with receiving() as sender:
        _, _, answer = await sender.post(request.SerializeToString())
        assert ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans == 1
        assert sender.telemetry.counter(DROPS, "receive", "traces_without_trace_id")._value.get() == 1


async def test_large_attributes_pass():
    request = traces_request(ONE, text="x" * MIB)
    for number in range(10_000):
        request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key=f"k{number}").value.int_value = 1
    async with receiving() as sender:
        assert await sender.status(request.SerializeToString()) == 200


@pytest.mark.parametrize("error", [LogUnavailable("disk full"), TimeoutError()])
async def test_a_log_that_cannot_write_is_503_with_retry_after(error: Exception):
    log = FailingLog(error)
    async with receiving(log, retry_after=2.5) as sender:
        status, headers, answer = await sender.post(TRACES)
        assert (status, headers["Retry-After"]) == (503, "3")
        assert Status.FromString(answer).code == Code.UNAVAILABLE
        assert await sender.status(TRACES) == 200
    assert len(log.appends) == 1


async def test_a_log_that_hangs_is_503_and_frees_the_place():
    async with receiving(GatedLog(), log_deadline=0.05, max_requests=1) as sender:
        for _ in range(3):
            assert await sender.status(TRACES) == 503
        assert sender.telemetry.counter(RECEIVE_REQUESTS, "otlp_http", "traces", "503")._value.get() == 3


async def test_a_trace_too_large_for_the_log_is_413():
    async with receiving(PickyLog(10)) as sender:
        assert await sender.status(TRACES) == 413


async def test_beyond_the_bounds_is_503():
    log = GatedLog()
    async with receiving(log, max_requests=4) as sender:  # of which one sender may hold two
        running = [asyncio.create_task(sender.status(TRACES)) for _ in range(2)]
        for _ in running:
            await log.arrived.acquire()
        status, headers, _ = await sender.post(TRACES)
        assert (status, headers["Retry-After"]) == (503, "1")
        log.gate.set()
        assert await asyncio.gather(*running) == [200, 200]
        assert await sender.status(TRACES) == 200
    log = GatedLog()
    async with receiving(log, max_pending_bytes=1024) as sender:
        assert await sender.status(traces_request(ONE, text="x" * 2000).SerializeToString()) == 503


async def test_pages_of_listed_origins_send_from_a_browser():
    page = {"Origin": "https://app.example.com"}
    question = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    async with receiving(origins=["https://app.example.com"]) as sender:
        url = f"http://127.0.0.1:{sender.port}/v1/traces"
        async with sender.session.options(url, headers=question) as answer:
            assert answer.status == 204
            assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
            assert answer.headers["Access-Control-Allow-Headers"] == "authorization"
        for body, status in ((TRACES, 200), (b"nonsense", 400)):  # a page reads errors, too
            code, headers, _ = await sender.post(body, {**PROTOBUF, **page})
            assert (code, headers["Access-Control-Allow-Origin"]) == (status, "https://app.example.com")
        _, headers, _ = await sender.post(TRACES, {**PROTOBUF, "Origin": "https://other.example.com"})
        assert "Access-Control-Allow-Origin" not in headers
    async with receiving() as sender:
        url = f"http://127.0.0.1:{sender.port}/v1/traces"
        async with sender.session.options(url, headers=question) as answer:
            assert answer.status == 405
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_stopping_refuses_new_requests_and_ends_running_ones():
    log = GatedLog()
    telemetry = Telemetry()
    receiver = OtlpHttpReceiver(OtlpHttpSettings(port=0), log, telemetry)
    async with aiohttp.ClientSession() as session:
        server = receiver.serve()
        sender = Sender(await server.__aenter__(), session, telemetry)
        running = asyncio.create_task(sender.status(TRACES))
        await log.arrived.acquire()
        receiver.stop_accepting()
        assert await sender.status(TRACES) == 503
        leaving = asyncio.create_task(server.__aexit__(None, None, None))
        await asyncio.sleep(0.05)
        with pytest.raises(aiohttp.ClientConnectionError):
            await sender.status(TRACES)
        log.gate.set()
        assert await running == 200
        await leaving
    assert len(await stored(log)) == 2


async def test_a_token_is_asked_for_before_the_body_is_read():
    token = "right" * 5
    async with receiving(auth={"tokens": [token]}) as sender:
        status, headers, answer = await sender.post(bytes(MIB), {**PROTOBUF, "Authorization": "Bearer wrong"})
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert Status.FromString(answer).code == Code.UNAUTHENTICATED
        assert await sender.status(TRACES, {**PROTOBUF, "Authorization": f"Bearer {token}"}) == 200


async def test_a_bug_is_500_and_its_message_stays_out_of_the_log(caplog: pytest.LogCaptureFixture):
    async with receiving(FailingLog(RuntimeError("judged text"))) as sender:
        status, _, answer = await sender.post(TRACES)
    assert (status, Status.FromString(answer).code) == (500, Code.INTERNAL)
    assert "judged text" not in caplog.text
    assert "RuntimeError" in caplog.text


async def test_a_sender_that_goes_away_leaves_nothing_behind():
    async with receiving() as sender:
        head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\n"
        for _ in range(5):
            async with sender.raw(head + b"half"):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert sender.telemetry.gauge(RECEIVE_PENDING_BYTES)._value.get() == 0
        assert await sender.status(TRACES) == 200


TEAM_A, TEAM_B = "a-token-of-team-a-0123456789", "a-token-of-team-b-0123456789"
HALF_SENT = (
    b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000\r\n%s\r\n\x0a"
)


def bearer(token: str) -> dict[str, str]:
    return {**PROTOBUF, "Authorization": f"Bearer {token}"}


async def half_sent(port: int, count: int, address: str = "127.0.0.1", token: str | None = None):
    """Requests whose bodies never end; gives their connections."""
    line = b"Authorization: Bearer %s\r\n" % token.encode() if token else b""
    opened = [await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)) for _ in range(count)]
    for _, writer in opened:
        writer.write(HALF_SENT % line)
        await writer.drain()
    return opened


async def test_half_sent_bodies_of_one_address_leave_the_others_their_places():
    async with receiving(max_requests=16) as sender:
        opened = await half_sent(sender.port, 30, "127.0.0.2")
        rejected = [asyncio.create_task(reader.readline()) for reader, _ in opened]
        async with asyncio.timeout(60):
            while sum(each.done() for each in rejected) < 22:
                await asyncio.sleep(0.01)
        assert await asyncio.gather(*(sender.status(TRACES) for _ in range(4))) == [200] * 4
        assert await sender.status(TRACES) == 200
        assert not all(each.done() for each in rejected), "eight are being read still"
        count = sender.telemetry.counter(RECEIVE_REJECTED, "otlp_http", "requests", "unnamed")._value.get()
        assert count == 22
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*rejected)


async def test_a_tenant_has_its_share_whatever_another_holds():
    tokens = [{"name": "team-a", "token": TEAM_A}, {"name": "team-b", "token": TEAM_B, "share": 0.5, "rate": 0.1}]
    async with receiving(max_requests=8, auth={"tenants": tokens}) as sender:
        opened = await half_sent(sender.port, 8, token=TEAM_A)
        async with asyncio.timeout(60):  # four places are shared: team-a may hold two of them
            while await sender.status(TRACES, bearer(TEAM_A)) != 503:
                await asyncio.sleep(0.01)
        assert await sender.status(TRACES, bearer(TEAM_B)) == 200
        status, headers, _ = await sender.post(TRACES, bearer(TEAM_B))
        assert (status, int(headers["Retry-After"]) > 5) == (429, True), "its rate is one span in ten seconds"
        assert sender.telemetry.counter(RECEIVE_REJECTED, "otlp_http", "rate", "team-b")._value.get() == 1
        for _, writer in opened:
            writer.close()


async def test_wrong_tokens_are_counted_and_slowed_and_right_ones_pass():
    async with receiving(auth={"tokens": [TEAM_A]}) as sender:
        first = [await sender.status(TRACES, bearer(f"wrong-token-{number:09}")) for number in range(FREE_GUESSES)]
        assert first == [401] * FREE_GUESSES
        guess = asyncio.create_task(sender.status(TRACES, bearer("wrong-token-is-wrong")))
        assert await sender.status(TRACES, bearer(TEAM_A)) == 200, "from the same address, at once"
        done, _ = await asyncio.wait([guess], timeout=0.3)
        assert not done
        assert sender.telemetry.counter(WRONG_TOKENS, "otlp_http")._value.get() == FREE_GUESSES + 1
        guess.cancel()
        await asyncio.gather(guess, return_exceptions=True)
