"""The OTLP/gRPC receiver on a real socket, with the exporter that applications use and with hostile senders."""

from __future__ import annotations

import asyncio
import gzip
import random
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from log_doubles import FailingLog, GatedLog, PickyLog, stored
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from otlp_samples import logs_request, trace_id, traces_request
from peak_memory import PeakMemory
from test_access import make_certificates

from collector.errors import ConfigError, Overloaded
from collector.logs.log import LogUnavailable
from collector.logs.memory import MemoryLog
from collector.receive.access import OtlpGrpcSettings
from collector.receive.otlp_grpc import OtlpGrpcReceiver
from collector.receive.tenants import UNNAMED
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_ITEMS, RECEIVE_PENDING_BYTES, RECEIVE_REJECTED, RECEIVE_REQUESTS

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
ONE, TWO = trace_id(1), trace_id(2)
REQUEST = traces_request(ONE, TWO).SerializeToString()
MIB = 1024**2
TOKEN = "a-good-token-0123456789"
Code = grpc.StatusCode


class Sender:
    """Calls a receiver that listens on a port of its own."""

    def __init__(self, port: int, channel: grpc.aio.Channel, telemetry: Telemetry) -> None:
        self.port = port
        self.channel = channel
        self.telemetry = telemetry

    async def send(self, body: bytes, method: str = TRACES, *, compression=None, authorization: str | None = None):
        metadata = None if authorization is None else (("authorization", authorization),)
        return await self.channel.unary_unary(method)(body, compression=compression, metadata=metadata)

    async def refused(self, body: bytes, method: str = TRACES, **more) -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await self.send(body, method, **more)
        return raised.value

    async def code(self, body: bytes, method: str = TRACES, **more) -> Code:
        try:
            await self.send(body, method, **more)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return Code.OK

    def counted(self, status: str, signal: str = "traces") -> float:
        return self.telemetry.counter(RECEIVE_REQUESTS, "otlp_grpc", signal, status)._value.get()

    def pending(self) -> float:
        return self.telemetry.gauge(RECEIVE_PENDING_BYTES)._value.get()


@asynccontextmanager
async def receiving(log: MemoryLog | None = None, **settings) -> AsyncIterator[Sender]:
    telemetry = Telemetry()
    made = OtlpGrpcSettings.model_validate({"port": 0} | settings)
    receiver = OtlpGrpcReceiver(made, log or MemoryLog("spans", 2), telemetry)
    async with receiver.serve() as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Sender(port, channel, telemetry)


def retry_of(error: grpc.aio.AioRpcError) -> float:
    """The wait that an error asks for, in seconds: the same in both places where senders look for it."""
    trailing = dict(error.trailing_metadata())
    status = Status.FromString(trailing["grpc-status-details-bin"])
    retry = RetryInfo()
    assert status.code == error.code().value[0]
    assert status.details[0].Unpack(retry)
    assert retry == RetryInfo.FromString(trailing["google.rpc.retryinfo-bin"])
    return retry.retry_delay.ToNanoseconds() / 1e9


async def test_spans_are_durable_when_the_answer_comes():
    log = GatedLog()
    async with receiving(log) as sender:
        answer = asyncio.create_task(sender.send(REQUEST))
        await log.arrived.acquire()
        assert not answer.done()
        log.gate.set()
        assert ExportTraceServiceResponse.FromString(await answer) == ExportTraceServiceResponse()
        assert sender.counted("OK") == 1
        assert sender.telemetry.counter(RECEIVE_ITEMS, "otlp_grpc", "traces", "accepted")._value.get() == 2
    assert [(record.key, record.headers) for record in await stored(log)] == [
        (ONE.hex().encode(), (("signal", b"traces"),)),
        (TWO.hex().encode(), (("signal", b"traces"),)),
    ]


async def test_gzip_logs_and_empty_requests():
    log = MemoryLog("spans", 1)
    async with receiving(log) as sender:
        await sender.send(traces_request(ONE, text="x" * 5000).SerializeToString(), compression=grpc.Compression.Gzip)
        await sender.send(logs_request(ONE).SerializeToString(), LOGS)
        for method in (TRACES, LOGS):
            assert await sender.send(b"", method) == b""
        assert sender.pending() == 0
    records = await stored(log)
    assert [record.headers[0][1] for record in records] == [b"traces", b"logs"]
    assert len(records[0].value) > 5000


async def test_partial_success_says_how_many_spans_have_no_trace():
    async with receiving() as sender:
        answer = await sender.send(traces_request(b"", ONE, bytes(16)).SerializeToString())
        partial = ExportTraceServiceResponse.FromString(answer).partial_success
        assert (partial.rejected_spans, partial.error_message) == (2, "2 spans have no valid trace id")
        answer = await sender.send(logs_request(b"").SerializeToString(), LOGS)
        assert not ExportLogsServiceResponse.FromString(answer).HasField("partial_success")


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        (f"Bearer {TOKEN}", Code.OK),
        (f"bearer {TOKEN}", Code.OK),
        (None, Code.UNAUTHENTICATED),
        ("", Code.UNAUTHENTICATED),
        (f"Bearer {TOKEN[:-1]}", Code.UNAUTHENTICATED),
        (f"Basic {TOKEN}", Code.UNAUTHENTICATED),
    ],
)
async def test_only_a_whole_token_lets_in(authorization: str | None, code: Code):
    async with receiving(auth={"tokens": [TOKEN]}) as sender:
        assert await sender.code(REQUEST, authorization=authorization) == code
        assert sender.counted(code.name) == 1


async def test_mutual_tls_lets_only_our_clients_in(tmp_path: Path):
    make_certificates(tmp_path)
    read = lambda name: (tmp_path / name).read_bytes()  # noqa: E731
    tls = {name: tmp_path / f"ours{end}" for name, end in (("certificate", ".pem"), ("key", ".key"), ("client_ca", "-ca.pem"))}  # fmt: skip

    async def code(port: int, client: str | None) -> Code:
        shown = (read(f"{client}.key"), read(f"{client}.pem")) if client else (None, None)
        credentials = grpc.ssl_channel_credentials(read("ours-ca.pem"), *shown)
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            return await Sender(port, channel, Telemetry()).code(REQUEST)

    async with receiving(tls=tls) as sender:
        assert await code(sender.port, "ours") == Code.OK
        assert await code(sender.port, "others") == Code.UNAVAILABLE
        assert await code(sender.port, None) == Code.UNAVAILABLE
    with pytest.raises(ConfigError, match=r"receive\.otlp_grpc\.tls"):
        async with receiving(tls={"certificate": tmp_path / "ours.pem", "key": tmp_path / "others.key"}):
            pass


@pytest.mark.parametrize("error", [LogUnavailable("disk full"), TimeoutError()])
async def test_a_log_that_cannot_write_is_unavailable_and_says_when_to_come_again(error: Exception):
    log = FailingLog(error)
    async with receiving(log, retry_after=2.5) as sender:
        refused = await sender.refused(REQUEST)
        assert (refused.code(), retry_of(refused)) == (Code.UNAVAILABLE, 2.5)
        assert await sender.code(REQUEST) == Code.OK
    assert len(log.appends) == 1


async def test_a_log_that_hangs_is_unavailable_and_frees_the_place():
    async with receiving(GatedLog(), log_deadline=0.05, max_requests=1) as sender:
        for _ in range(3):
            assert await sender.code(REQUEST) == Code.UNAVAILABLE
        assert (sender.counted("UNAVAILABLE"), sender.pending()) == (3, 0)


async def test_beyond_the_bounds_is_resource_exhausted_with_a_time_to_come_again():
    log = GatedLog()
    async with receiving(log, max_requests=4) as sender:  # of which one sender may hold two
        running = [asyncio.create_task(sender.code(REQUEST)) for _ in range(2)]
        for _ in running:
            await log.arrived.acquire()
        async with grpc.aio.insecure_channel(
            f"127.0.0.1:{sender.port}", [("grpc.use_local_subchannel_pool", 1)]
        ) as other:
            refused = await Sender(sender.port, other, sender.telemetry).refused(REQUEST)
        assert (refused.code(), retry_of(refused)) == (Code.RESOURCE_EXHAUSTED, 1.0)
        log.gate.set()
        assert await asyncio.gather(*running) == [Code.OK, Code.OK]
        assert await sender.code(REQUEST) == Code.OK
    async with receiving(max_pending_bytes=1024) as sender:
        refused = await sender.refused(traces_request(ONE, text="x" * 2000).SerializeToString())
        assert (refused.code(), retry_of(refused)) == (Code.RESOURCE_EXHAUSTED, 1.0)


@pytest.mark.parametrize("size", [10, 300])
async def test_a_trace_too_large_for_the_log_is_invalid_for_good(size: int):
    async with receiving(PickyLog(size)) as sender:
        body = traces_request(ONE, text="x" * 400).SerializeToString()
        refused = await sender.refused(body)
        assert refused.code() == Code.INVALID_ARGUMENT
        assert "google.rpc.retryinfo-bin" not in dict(refused.trailing_metadata())


async def test_giant_requests_are_refused_for_good():
    async with receiving() as sender:
        refused = await sender.refused(bytes(5 * MIB))
        assert (refused.code(), "4194304 bytes" in refused.details()) == (Code.INVALID_ARGUMENT, True)
        refused = await sender.refused(bytes(9 * MIB))
        assert refused.code() == Code.RESOURCE_EXHAUSTED  # the library's own status, without a time to come again
        assert "google.rpc.retryinfo-bin" not in dict(refused.trailing_metadata())
        assert await sender.code(bytes(5 * MIB), compression=grpc.Compression.Gzip) == Code.INVALID_ARGUMENT
        empty_spans = b"\x0a\x86\x89\x7a\x12\x82\x89\x7a" + b"\x12\x00" * 1_000_001
        refused = await sender.refused(empty_spans)
        assert (refused.code(), "20000 spans" in refused.details()) == (Code.INVALID_ARGUMENT, True)
        assert await sender.code(REQUEST) == Code.OK
        assert sender.pending() == 0


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name: str, value: str) -> bytes:
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
HEADERS = b"\x83\x86" + b"".join(
    header(name, value)
    for name, value in (
        (":path", TRACES),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-encoding", "gzip"),
    )
)


def compressed_call(packed: bytes) -> list[bytes]:
    """The frames of a call whose message is marked as compressed, of up to 64 KiB so that no window is passed."""
    data = b"\x01" + struct.pack(">I", len(packed)) + packed
    pieces = [data[at : at + 16_384] for at in range(0, len(data), 16_384)]
    assert len(data) < 65_535
    return [HELLO, frame(1, 4, 1, HEADERS), *(frame(0, piece is pieces[-1], 1, piece) for piece in pieces)]


async def answer_to(port: int, frames: list[bytes]) -> bytes:
    """All that comes back until the trailers have come, or the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(frames))
    answer = b""
    async with asyncio.timeout(60):
        while b"grpc-status" not in answer and (some := await reader.read(65_536)):
            answer += some
    writer.close()
    return answer


async def test_a_bomb_is_not_unpacked():
    pack = zlib.compressobj(9, wbits=31)
    bomb = b"".join(pack.compress(bytes(MIB)) for _ in range(60)) + pack.flush()
    async with receiving() as sender:
        assert await sender.code(REQUEST) == Code.OK
        with PeakMemory() as memory:
            answer = await answer_to(sender.port, compressed_call(bomb))
        assert b"grpc-status\x013" in answer
        assert b"larger than 4194304 bytes" in answer
        assert sender.counted("INVALID_ARGUMENT") == 1
    assert memory.grown < 24 * MIB


@pytest.mark.parametrize(
    "packed", [b"not gzip", gzip.compress(REQUEST)[:-4], gzip.compress(REQUEST) + b"junk", b"\x1f\x8b"]
)
async def test_broken_gzip_is_invalid(packed: bytes):
    async with receiving() as sender:
        assert b"grpc-status\x013" in await answer_to(sender.port, compressed_call(packed))
        assert await sender.code(REQUEST) == Code.OK


async def test_other_compressions_and_methods_are_unimplemented():
    async with receiving() as sender:
        assert await sender.code(bytes(5000), compression=grpc.Compression.Deflate) == Code.UNIMPLEMENTED
        assert (
            await sender.code(REQUEST, "/opentelemetry.proto.collector.trace.v1.TraceService/Other")
            == Code.UNIMPLEMENTED
        )
        assert await sender.code(REQUEST, "/x/y") == Code.UNIMPLEMENTED
        refused = await sender.refused(REQUEST, "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
        assert refused.code() == Code.UNIMPLEMENTED
        assert "only traces and logs" in refused.details()
        assert await sender.code(REQUEST) == Code.OK


async def test_a_call_holds_one_request():
    async with receiving() as sender:
        for messages in ([], [REQUEST, REQUEST]):
            call = sender.channel.stream_unary(TRACES)(iter(messages))
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await call
            assert raised.value.code() == Code.INVALID_ARGUMENT


async def test_random_bytes_are_invalid_at_most():
    chance = random.Random(4)
    seen = set()
    async with receiving() as sender:
        for _ in range(300):
            body = bytearray(chance.randbytes(chance.randint(0, 60)) if chance.random() < 0.5 else REQUEST)
            for _ in range(chance.randint(0, 4)):
                if body:
                    body[chance.randrange(len(body))] = chance.randrange(256)
            seen.add(await sender.code(bytes(body), chance.choice([TRACES, LOGS])))
        answer = await answer_to(sender.port, [chance.randbytes(200)])
        assert await sender.code(REQUEST) == Code.OK
    assert seen == {Code.OK, Code.INVALID_ARGUMENT}
    assert b"grpc-status" not in answer


async def test_half_sent_requests_do_not_hold_up_others():
    half = [*compressed_call(bytes(100))[:2], frame(0, 0, 1, b"\x00\x00\x00\x00\x64half")]
    async with receiving(body_deadline=0.2, idle_timeout=0.5, max_requests=1) as sender:
        answer = await answer_to(sender.port, half)
        assert b"grpc-status\x014" in answer  # DEADLINE_EXCEEDED
        assert (sender.counted("DEADLINE_EXCEEDED"), sender.pending()) == (1, 0)
        assert await sender.code(REQUEST) == Code.OK
        assert await answer_to(sender.port, [HELLO[:10]]) is not None, "who does not finish the greeting is cut off"
        closed = await answer_to(sender.port, [HELLO])
        assert frame(7, 0, 0, b"")[3:4] in closed, "told to go away when idle"


async def greeted(port: int, local: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection from an address, which the server has answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(local, 0))
    writer.write(HELLO)
    async with asyncio.timeout(30):
        await reader.readexactly(9)
    return reader, writer


async def test_connections_beyond_the_cap_are_closed():
    async with receiving(max_connections=5) as sender:
        held = [await greeted(sender.port) for _ in range(3)]
        assert await answer_to(sender.port, [HELLO]) == b"", "an address has as many as it leaves free"
        assert sender.telemetry.counter(RECEIVE_REJECTED, "otlp_grpc", "connections", UNNAMED)._value.get() == 1
        held.append(await greeted(sender.port, "127.0.0.2"))
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        call = sender.channel.unary_unary(TRACES)
        assert await call(REQUEST, wait_for_ready=True, timeout=30) == b""


async def test_a_bug_is_internal_and_its_message_stays_out_of_the_log(caplog: pytest.LogCaptureFixture):
    async with receiving(FailingLog(RuntimeError("judged text"))) as sender:
        refused = await sender.refused(REQUEST)
        assert (refused.code(), refused.details()) == (Code.INTERNAL, "internal error")
        assert sender.counted("INTERNAL") == 1
    assert "judged text" not in caplog.text
    assert "RuntimeError" in caplog.text


async def test_a_sender_that_goes_away_leaves_nothing_behind():
    log = GatedLog()
    async with receiving(log, max_requests=1) as sender:
        for _ in range(3):
            call = sender.channel.unary_unary(TRACES)(REQUEST)
            await log.arrived.acquire()
            call.cancel()
            async with asyncio.timeout(60):
                while sender.pending():
                    await asyncio.sleep(0.01)
        log.gate.set()
        assert await sender.code(REQUEST) == Code.OK


async def test_stopping_refuses_new_requests_and_ends_running_ones():
    log = GatedLog()
    telemetry = Telemetry()
    receiver = OtlpGrpcReceiver(OtlpGrpcSettings(port=0), log, telemetry)
    serving = receiver.serve()
    port = await serving.__aenter__()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        sender = Sender(port, channel, telemetry)
        running = asyncio.create_task(sender.code(REQUEST))
        await log.arrived.acquire()
        receiver.stop_accepting()
        refused = await sender.refused(REQUEST)
        assert (refused.code(), retry_of(refused)) == (Code.UNAVAILABLE, 1.0)
        leaving = asyncio.create_task(serving.__aexit__(None, None, None))
        await asyncio.sleep(0.05)
        assert await sender.code(REQUEST) == Code.UNAVAILABLE
        assert not leaving.done()
        log.gate.set()
        assert await running == Code.OK
        await leaving
    assert len(await stored(log)) == 2


async def test_a_port_that_is_taken_is_one_sentence():
    async with receiving() as sender:
        with pytest.raises(
            ConfigError, match=f"127.0.0.1:{sender.port} cannot be listened on .*; write another receive.otlp_grpc.port"
        ):
            async with receiving(port=sender.port):
                pass


class Application:
    """An application that traces with the OpenTelemetry SDK and sends with its gRPC exporter, from threads of its own."""

    def __init__(self, port: int, **settings) -> None:
        where = {"endpoint": f"http://127.0.0.1:{port}", "timeout": 20, **settings}
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(**where)))
        self.logging = LoggerProvider()
        self.logging.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(**where)))

    async def trace(self) -> None:
        await asyncio.to_thread(self._trace)

    def _trace(self) -> None:
        with self.tracing.get_tracer("app").start_as_current_span("chat"):
            self.logging.get_logger("app").emit(body="hello", event_name="gen_ai.user.message")

    async def stop(self) -> None:
        await asyncio.to_thread(self.tracing.shutdown)
        await asyncio.to_thread(self.logging.shutdown)


@asynccontextmanager
async def application(sender: Sender, **settings) -> AsyncIterator[Application]:
    made = Application(sender.port, **settings)
    try:
        yield made
    finally:
        await made.stop()


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
async def test_the_exporter_of_the_sdk_is_understood(compression):
    log = MemoryLog("spans", 1)
    async with receiving(log, auth={"tokens": [TOKEN]}) as sender:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with application(sender, compression=compression, headers=headers) as app:
            await app.trace()
    records = await stored(log)
    assert sorted(record.headers[0][1] for record in records) == [b"logs", b"traces"]
    assert len({record.key for record in records}) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(LogUnavailable("disk full"), "UNAVAILABLE"), (Overloaded("full"), "RESOURCE_EXHAUSTED")],
)
async def test_the_exporter_comes_again_when_it_has_interval_to(error: Exception, code: str):
    log = FailingLog(*[error] * 5)  # by its own waits it would not come a sixth time within its 20 s
    async with receiving(log, retry_after=0.05) as sender:
        async with application(sender) as app:
            await app.trace()
        assert sender.counted(code, "logs") == 5
    assert len(await stored(log)) == 2


async def test_the_exporter_does_not_come_again_with_what_is_bad():
    async with receiving(PickyLog(10)) as sender:
        async with application(sender) as app:
            await app.trace()
        assert (sender.counted("INVALID_ARGUMENT", "logs"), sender.counted("INVALID_ARGUMENT")) == (1, 1)


async def open_call(port: int, body: bytes) -> grpc.aio.Channel:
    """A call on a connection of its own that sends its request and does not end."""
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
    call = channel.stream_unary(TRACES)()
    await asyncio.wait([asyncio.create_task(call.write(body))], timeout=0.05)
    return channel


async def test_every_byte_of_open_calls_is_in_the_account():
    """The library collects messages that nobody has asked for yet: what it may hold is taken before it begins."""
    async with receiving(max_body_bytes=MIB, max_pending_bytes=16 * MIB) as sender:
        with PeakMemory() as memory:
            channels = [await open_call(sender.port, bytes(MIB)) for _ in range(60)]
            assert 4 * MIB <= sender.pending() <= 8 * MIB + 1, "half of it, for one sender"
        assert memory.grown < 120 * MIB, "60 requests of the clients, and 8 of the server"
        for channel in channels:
            await channel.close(None)
        async with asyncio.timeout(60):
            while sender.pending():
                await asyncio.sleep(0.01)
        assert await sender.code(REQUEST) == Code.OK


async def test_a_tenant_over_its_rate_must_come_again():
    token = {"name": "team-a", "token": TOKEN, "rate": 0.1}
    async with receiving(auth={"tenants": [token]}) as sender:
        assert await sender.code(REQUEST, authorization=f"Bearer {TOKEN}") == Code.OK
        refused = await sender.refused(REQUEST, authorization=f"Bearer {TOKEN}")
        assert (refused.code(), retry_of(refused) > 5) == (Code.RESOURCE_EXHAUSTED, True)
        assert sender.telemetry.counter(RECEIVE_REJECTED, "otlp_grpc", "rate", "team-a")._value.get() == 1
