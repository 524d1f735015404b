"""Peers that take OTLP in and store or count it, beside us in the same run: Phoenix, MLflow, the Collector's spanmetrics.

The captured traffic of all dialects (`tests/golden/otlp`), copied under new ids and with times of now until there are
10,000 spans; one request has all of a dialect's. All get the same requests, from four senders, over HTTP on loopback.
CPU is that of a service with all its processes; the rate lasts from the first request until the last span is durable:
a row in the peer's SQLite file, with us a turn in ours, with 1 % of the conversations judged besides. The half second
for which we wait for more of a trace is left out. The Collector's connector keeps nothing but counters in memory.

The peers are real, from PyPI, each version and file pinned by hash (`tests/e2e/platforms.txt`), installed at the first use.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))

from hashed_env import hashed_python
from kafka_way import OTELCOL, until_listening
from measured import Figure, arguments, cpu_seconds
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from processes import configuration, free_port, processes
from quick_judge import serving
from whole_way import QUIET

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.otlp.decode import request_from_protobuf, split_by_trace

GROUP = "stores"
TESTS = Path(__file__).parents[1]
SENDERS = 4
PLATFORMS = TESTS / "e2e" / "platforms.txt"
STAGNANT = 60.0
"""Seconds without a new span after which no more are expected."""


@dataclass(frozen=True)
class Outcome:
    """What a service did with the requests: CPU in seconds, spans that are durable, seconds until they were."""

    cpu: float
    spans: int
    seconds: float
    refused: int = 0

    @property
    def cost(self) -> float:
        return 1e6 * self.cpu / max(1, self.spans)

    @property
    def rate(self) -> float:
        return self.spans / self.seconds


def captured() -> list[ExportTraceServiceRequest]:
    """All captured spans, a request for each dialect."""
    found = []
    for folder in sorted((TESTS / "golden" / "otlp").iterdir()):
        request = ExportTraceServiceRequest()
        for path in sorted(folder.glob("*-traces.pb")):
            request.MergeFromString(path.read_bytes())
        if request.resource_spans:
            found.append(request)
    return found


def spans_of(request: ExportTraceServiceRequest) -> Iterator[object]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def copied(request: ExportTraceServiceRequest, number: int, now: int) -> bytes:
    """The request with ids of its own, ending now."""

    def renamed(identity: bytes) -> bytes:
        return hashlib.sha256(b"%d " % number + identity).digest()[: len(identity)]

    copy = ExportTraceServiceRequest.FromString(request.SerializeToString())
    later = now - max(each.end_time_unix_nano for each in spans_of(copy))
    for each in spans_of(copy):
        each.trace_id, each.span_id = renamed(each.trace_id), renamed(each.span_id)
        each.parent_span_id = renamed(each.parent_span_id)
        each.start_time_unix_nano += later
        each.end_time_unix_nano += later
        for event in each.events:
            event.time_unix_nano += later
        for link in each.links:
            link.trace_id, link.span_id = renamed(link.trace_id), renamed(link.span_id)
    return copy.SerializeToString()


def traffic(total: int) -> list[bytes]:
    """Requests with at least so many spans."""
    requests, now = captured(), time.time_ns()
    size = sum(1 for request in requests for _ in spans_of(request))
    return [copied(request, number, now) for number in range(-(-total // size)) for request in requests]


def count(bodies: Sequence[bytes]) -> tuple[int, int]:
    """How many spans there are, and how many turns they make."""
    split = [split_by_trace(request_from_protobuf(body, "traces"), body) for body in bodies]
    pieces: dict[str, list[TracePiece]] = {}
    for each in split:
        for trace_id, value in each.pieces:
            pieces.setdefault(trace_id, []).append(TracePiece("traces", value))
    assembler = Assembler(Dialects.installed())
    return sum(each.items for each in split), sum(len(assembler.assemble(held).turns) for held in pieces.values())


def send(url: str, bodies: Sequence[bytes], headers: dict[str, str]) -> int:
    """Post them all, as an exporter does; gives how many were refused for good."""

    def post(body: bytes) -> int:
        given = {"Content-Type": "application/x-protobuf", **headers}
        while True:
            try:
                with urllib.request.urlopen(urllib.request.Request(url, body, given), timeout=120) as answer:
                    return answer.status >= 300
            except urllib.error.HTTPError as error:
                if error.code not in (429, 502, 503, 504):
                    return 1
                time.sleep(0.1)
            except http.client.RemoteDisconnected:
                time.sleep(0.1)

    with ThreadPoolExecutor(SENDERS) as pool:
        return sum(pool.map(post, bodies))


def until(durable: Callable[[], int], wanted: int, every: float = 0.1) -> tuple[int, float]:
    """How many became durable, and when the last one did, on the monotonic clock."""
    most, at = 0, time.monotonic()
    while most < wanted and time.monotonic() - at < STAGNANT:
        time.sleep(every)
        if (now := durable()) > most:
            most, at = now, time.monotonic()
    return most, at


def measure(
    url: str,
    bodies: Sequence[bytes],
    spans: int,
    cpu: Callable[[], float],
    durable: Callable[[], int],
    *,
    every: float = 0.1,
    **headers: str,
) -> Outcome:
    """Send all and wait; asking `durable` every so many seconds must cost the service nothing that counts."""
    before, start = cpu(), time.monotonic()
    refused = send(url, bodies, {name.replace("_", "-"): value for name, value in headers.items()})
    stored, at = until(durable, spans, every)
    return Outcome(cpu() - before, stored, at - start, refused)


def of_session(leader: int) -> float:
    """CPU of all processes in a session; children that have ended are in their parent's."""
    total = 0.0
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == leader:
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def rows(path: Path) -> int:
    """Spans in a peer's SQLite file."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as connection:
            return connection.execute("SELECT count(*) FROM spans").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


@contextmanager
def running(command: Sequence[str | Path], environment: dict[str, str], health: str, folder: Path) -> Iterator[int]:
    """A server in a session of its own, ready; gives its process id."""
    with (folder / "server.txt").open("wb") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, cwd=folder, env=os.environ | environment, start_new_session=True
        )
        try:
            give_up = time.monotonic() + 240
            while not _answers(health):
                if process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError((folder / "server.txt").read_text()[-800:])
                time.sleep(0.2)
            time.sleep(3.0)  # what a server does once after its start is no cost of a span
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status < 500
    except OSError:
        return False


def evalstream(bodies: Sequence[bytes], spans: int, turns: int, folder: Path) -> Outcome:
    port = free_port()
    with serving(0.02) as judge:
        config = configuration(judge, sample=0.01, quiet=QUIET, port=port)
        with processes(folder, config, None) as (process,):

            def durable() -> int:
                made = process.metric("evalstream_turns_total")
                return spans if made >= turns and not process.metric("evalstream_evaluations_in_flight") else 0

            done = measure(f"http://127.0.0.1:{port}/v1/traces", bodies, spans, lambda: process.cpu, durable, every=1.0)
            if not done.spans:
                raise RuntimeError(f"{process.metric('evalstream_turns_total'):.0f} of {turns} turns")
            return Outcome(done.cpu, spans, done.seconds - QUIET, done.refused)


def phoenix(python: Path, bodies: Sequence[bytes], spans: int, folder: Path) -> Outcome:
    port, work = free_port(), folder / "phoenix"
    work.mkdir()
    environment = {
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(work),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    url, command = f"http://127.0.0.1:{port}", [python, "-m", "phoenix.server.main", "serve"]
    with running(command, environment, f"{url}/healthz", work) as pid:
        return measure(f"{url}/v1/traces", bodies, spans, lambda: of_session(pid), lambda: rows(work / "phoenix.db"))


def mlflow(python: Path, bodies: Sequence[bytes], spans: int, folder: Path) -> Outcome:
    port, work = free_port(), folder / "mlflow"
    work.mkdir()
    store = ["--backend-store-uri", f"sqlite:///{work}/mlflow.db", "--artifacts-destination", str(work / "files")]
    command = [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1", *store]
    url = f"http://127.0.0.1:{port}"
    with running(command, {"DO_NOT_TRACK": "true"}, f"{url}/health", work) as pid:
        return measure(
            f"{url}/v1/traces",
            bodies,
            spans,
            lambda: of_session(pid),
            lambda: rows(work / "mlflow.db"),
            x_mlflow_experiment_id="0",
        )


def spanmetrics(bodies: Sequence[bytes], spans: int, folder: Path) -> Outcome:
    """The Collector makes metrics of the spans, and sends them once a second to somebody who throws them away."""
    with _sink() as destination:
        port = free_port()
        config = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            "connectors": {"spanmetrics": {"metrics_flush_interval": "1s"}},
            "exporters": {"otlp_http": {"metrics_endpoint": destination}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {
                    "traces": {"receivers": ["otlp"], "exporters": ["spanmetrics"]},
                    "metrics": {"receivers": ["spanmetrics"], "exporters": ["otlp_http"]},
                },
            },
        }
        path = folder / "spanmetrics.yaml"
        path.write_text(yaml.safe_dump(config))
        with (folder / "spanmetrics.txt").open("wb") as said:
            process = subprocess.Popen([OTELCOL, "--config", str(path)], stdout=said, stderr=said)
            try:
                until_listening(port, process)
                url = f"http://127.0.0.1:{port}/v1/traces"
                done = measure(url, bodies, spans, lambda: cpu_seconds(process.pid), lambda: spans)
                time.sleep(2.0)  # the last metrics
                return done
            finally:
                process.terminate()
                process.wait(20)


@contextmanager
def _sink() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/metrics"
    finally:
        server.shutdown()
        server.server_close()


def has_spanmetrics() -> bool:
    if not OTELCOL.exists():
        return False
    parts = subprocess.run([OTELCOL, "components"], capture_output=True, text=True, check=True).stdout
    return "name: span_metrics" in parts or "name: spanmetrics" in parts


def show(name: str, done: Outcome, ours: Outcome | None, note: str) -> None:
    more: dict[str, float] = {} if ours is None else {"floor": ours.cost, "ratio": done.cost / ours.cost}
    Figure(GROUP, f"{name}: CPU", "µs CPU/span", (done.cost,), note=note, **more).show()
    more = {} if ours is None else {"floor": ours.rate, "ratio": done.rate / ours.rate}
    Figure(GROUP, f"{name}: rate", "spans/s", (done.rate,), note=note, **more).show()


def stored(done: Outcome, sent: int) -> str:
    short = "" if done.spans == sent else f"; {done.spans:,} of {sent:,} spans were stored"
    return short + (f", {done.refused} requests refused" if done.refused else "")


def leave_out(sentence: str) -> None:
    print(json.dumps({"left_out": sentence}), flush=True)


def main() -> None:
    given = arguments(__doc__ or "")
    bodies = traffic(500 if given.smoke else 10_000)
    spans, turns = count(bodies)
    with tempfile.TemporaryDirectory(prefix="evalstream-bench-") as name:
        folder = Path(name)
        ours = evalstream(bodies, spans, turns, folder)
        note = f"{spans:,} spans in {len(bodies)} requests, {turns:,} turns, 1 % judged; SQLite"
        show("evalstream", ours, None, note)
        python = hashed_python(PLATFORMS)
        if python is None:
            leave_out("Phoenix and MLflow beside: they cannot be installed here")
        else:
            versions = dict(re.findall(r"^([\w-]+)==(\S+)", PLATFORMS.read_text(), re.MULTILINE))
            for title, package, work in (("Phoenix", "arize-phoenix", phoenix), ("MLflow", "mlflow", mlflow)):
                done = work(python, bodies, spans, folder)
                note = f"floor: evalstream; stored in SQLite, nothing judged{stored(done, spans)}"
                show(f"peer: {title} {versions[package]}", done, ours, note)
        if has_spanmetrics():
            note = "floor: evalstream; counters in memory, nothing is durable"
            show("peer: Collector 0.155, spanmetrics", spanmetrics(bodies, spans, folder), ours, note)
        else:
            leave_out("the Collector's spanmetrics connector: `make tools` builds a Collector that has it (needs Go)")


if __name__ == "__main__":
    main()
