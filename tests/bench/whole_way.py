"""The whole way: OTLP in, evaluations durable; in one process, and with a process for each stage to see what each costs.

A turn is a model call of 2 kB in two spans. A thousand of them come before those that are measured. The judge answers after 20 ms, with twenty alternatives per token. CPU is
that of the service's processes. Turns per second are those of a burst, from its first request to its last evaluation,
without the half second for which a trace is waited for; the sender, the judge and the service share this machine.
Latency is of single turns at an even rate: from the end of a turn's last span until its evaluation is in the log, without
that half second and without what the evaluation itself took.
"""

from __future__ import annotations

import http.client
import json
import sqlite3
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ingest import mixed_span, model_call_floor
from measured import Figure, arguments, beside
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from processes import Process, configuration, free_port, processes
from quick_judge import serving

GROUP = "whole way"
QUIET = 0.5
PER_REQUEST = 50
STAGES = ("receive", "assemble", "evaluate", "export")
MANY_CONNECTIONS = 32, 2
"""Senders, and connections of each."""

WHOLE_WAY_AIM = 17.0
"""The most that a turn may take as `init` configures it at 1 % judged, as a multiple of the floor."""

FLOOR = "floor: parse and attribute dicts of one model call"

WARM_UP = 1000
"""Turns before those that are measured: connections, schemas and caches are made once, and are no cost of a turn."""


def body(first: int, traces: int, ended: float) -> bytes:
    """Spans of so many traces, each a model call below an HTTP span."""
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    for trace in range(first, first + traces):
        for each in range(2):
            number = 2 * trace + each
            span = scope.spans.add(trace_id=(trace + 1).to_bytes(16, "big"), span_id=(number + 1).to_bytes(8, "big"))
            if each:
                span.parent_span_id = number.to_bytes(8, "big")
            span.end_time_unix_nano = int(ended * 1e9)
            span.start_time_unix_nano = span.end_time_unix_nano - 900_000_000
            mixed_span(span, number)
    return made.SerializeToString()


def send(port: int, bodies: list[bytes], senders: int = 4, connections: int = 1) -> None:
    """Post them, each sender over so many connections that stay open: some 5 µs of this process a turn."""

    def post(mine: list[bytes]) -> None:
        opened = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(connections)]
        for number, each in enumerate(mine):
            connection = opened[number % connections]
            connection.request("POST", "/v1/traces", each, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
        for each in opened:
            each.close()

    with ThreadPoolExecutor(senders) as pool:
        list(pool.map(post, (bodies[number::senders] for number in range(senders))))


def bodies_of(first: int, turns: int) -> list[bytes]:
    """The requests of so many turns, of which the first has this number; they end now."""
    return [body(number, PER_REQUEST, time.time()) for number in range(first, first + turns, PER_REQUEST)]


def warm_up(port: int, counting: Process) -> None:
    """Send the turns that are not measured, and wait until they are done; `counting` is the process that evaluates."""
    send(port, bodies_of(0, WARM_UP))
    until_done(counting, WARM_UP)


def kept(keep: str | None) -> str:
    """How a row is named whose configuration is not as `init` leaves it."""
    return f", keep: {keep}" if keep else ""


def until_done(process: Process, turns: int, within: float = 150.0) -> float:
    """When everything was done, on the monotonic clock.

    Asking takes 4 ms of each worker, so the next time is when half of what is left should be done.
    """
    start = time.monotonic()
    before = process.metric("evalstream_turns_total")
    while (waited := time.monotonic() - start) < within:
        done = process.metric("evalstream_turns_total")
        if done >= turns and not process.metric("evalstream_evaluations_in_flight"):
            return time.monotonic()
        left = waited * (turns - done) / (done - before) if done > before else 1.0
        time.sleep(min(1.0, max(0.05, left / 2)))
    raise RuntimeError(f"{process.metric('evalstream_turns_total'):.0f} of {turns} turns in {within:g} s")


@contextmanager
def service(judge: str, sample: float, *stages: str | None, keep: str | None = None) -> Any:
    with tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder:
        port = free_port()
        config = configuration(judge, sample=sample, quiet=QUIET, port=port, keep=keep)
        with processes(Path(folder), config, *stages) as running:
            yield port, running, Path(folder)


def burst(judge: str, sample: float, turns: int, repeats: int, keep: str | None = None) -> None:
    rates, costs, floors, memory = [], [], [], []
    measure_floor = model_call_floor()
    for _ in range(repeats):
        with service(judge, sample, None, keep=keep) as (port, (process,), _):
            warm_up(port, process)
            floor = measure_floor()
            bodies = bodies_of(WARM_UP, turns)
            before, start = process.cpu, time.monotonic()
            send(port, bodies)
            rates.append(turns / (until_done(process, WARM_UP + turns) - start - QUIET))
            costs.append((process.cpu - before) / turns)
            memory.append(process.memory)
            floors.append((floor + measure_floor()) / 2)
    name = f"OTLP/HTTP, SQLite, {sample:.0%} judged{kept(keep)}"
    aim = WHOLE_WAY_AIM if sample <= 0.01 and keep is None else None
    note = f"{FLOOR}; {turns} turns, one process"
    beside(GROUP, f"{name}: CPU", "µs CPU/turn", floors, costs, 1e6, aim=aim, note=note).show()
    Figure(GROUP, f"{name}: burst", "turns/s", tuple(rates), note="all processes on this machine").show()
    Figure(GROUP, f"{name}: memory", "MB resident", tuple(memory), note="at the end of the burst").show()


def by_workers(judge: str, sample: float, turns: int, repeats: int) -> None:
    """Turns a second of two workers beside one, by turns; and what the busiest process takes, which bounds them.

    Two services that share nothing, each with half of the turns, tell what two processes can reach on this machine.
    There are many connections, as of many processes of an application; the workers divide them evenly.
    """
    ones, workers, services = [], [], []
    for number in range(repeats):
        ones.append(_together(judge, sample, turns))
        workers.append(_together(judge, sample, turns, workers=2))
        if number % 2 == 0:  # it only explains the others
            services.append(_together(judge, sample, turns, services=2))
    name = f"OTLP/HTTP, SQLite, {sample:.0%} judged, --workers 2"
    one, two, apart = ([each.rate for each in those] for those in (ones, workers, services))
    note = "floor: one process; where nothing else runs, the ratio is nearly that of the row below, upside down"
    beside(GROUP, f"{name}: burst", "turns/s", one, two, 1.0, aim=1.7, at_least=True, note=note).show()
    note = "floor: one process; two services with a file each share nothing: this is what two cores give here"
    beside(GROUP, f"{name}: burst of two services instead", "turns/s", one[::2], apart, 1.0, note=note).show()
    one, two, apart = ([max(each.costs) for each in those] for those in (ones, workers, services))
    note = "floor: one process; what bounds the rate where two cores are free"
    beside(GROUP, f"{name}: busiest process", "µs CPU/turn", one, two, 1e6, aim=1 / 1.7, note=note).show()
    note = "floor: one process of two services, for each of its turns: as the row above, with both cores busy on both sides"
    busy = [2 * each for each in apart]
    beside(GROUP, f"{name}: busiest process, of a service's", "µs CPU/turn", busy, two[::2], 1e6, note=note).show()
    sums = tuple(sum(each.costs) * 1e6 for each in workers)
    Figure(GROUP, f"{name}: CPU", "µs CPU/turn", sums, note="all processes").show()


class Burst(NamedTuple):
    """Turns a second, and seconds of CPU of each process for each of all turns."""

    rate: float
    costs: list[float]


def _together(judge: str, sample: float, turns: int, *, services: int = 1, workers: int = 1) -> Burst:
    """One burst over services that share it evenly, each with a file of its own and so many workers."""
    with ExitStack() as stack:
        running: list[tuple[int, Process]] = []
        for _ in range(services):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evalstream-bench-")))
            port = free_port()
            config = configuration(judge, sample=sample, quiet=QUIET, port=port)
            process = Process(folder, config, workers=workers)
            stack.callback(process.stop)
            running.append((port, process))
        for port, process in running:
            process.settle()
            warm_up(port, process)
        share = turns // services
        bodies = bodies_of(WARM_UP, share)
        before = [process.cpu_by_process for _, process in running]
        start = time.monotonic()
        with ThreadPoolExecutor(services) as pool:
            ends = pool.map(lambda each: _burst_of(*each, bodies, WARM_UP + share), running)
        seconds = max(ends) - start - QUIET
        after = [process.cpu_by_process for _, process in running]
    used = [cpu - old[pid] for old, new in zip(before, after, strict=True) for pid, cpu in new.items()]
    return Burst(turns / seconds, [each / turns for each in used])


def _burst_of(port: int, process: Process, bodies: list[bytes], turns: int) -> float:
    """When a service that was sent these has done so many turns."""
    send(port, bodies, *MANY_CONNECTIONS)
    return until_done(process, turns)


def by_stage(judge: str, sample: float, turns: int, keep: str | None = None) -> None:
    with service(judge, sample, *STAGES, keep=keep) as (port, running, _):
        warm_up(port, running[2])
        bodies = bodies_of(WARM_UP, turns)
        before = [each.cpu for each in running]
        send(port, bodies)
        until_done(running[2], WARM_UP + turns)
        time.sleep(1.0)  # the exporters follow
        for stage, process, cpu in zip(STAGES, running, before, strict=True):
            cost = (process.cpu - cpu) / turns * 1e6
            note = "a process for each stage, over one SQLite file"
            Figure(GROUP, f"{stage}, {sample:.0%} judged{kept(keep)}", "µs CPU/turn", (cost,), note=note).show()


def latency(judge: str, turns: int, rate: float) -> None:
    with service(judge, 1.0, None) as (port, (process,), folder):
        send(port, [body(turns + 1, 1, time.time())])
        until_done(process, 1)
        ended: dict[str, float] = {}
        start = time.monotonic()
        for number in range(turns):
            time.sleep(max(0.0, start + number / rate - time.monotonic()))
            ended[f"{number + 1:032x}"] = now = time.time()
            send(port, [body(number, 1, now)])
        until_done(process, turns + 1)
        waits = [
            1e3 * (at - ended[trace] - QUIET - took)
            for trace, at, took in durable(folder / "bench.db")
            if trace in ended
        ]
    assert len(waits) == turns, (len(waits), turns)
    cuts = statistics.quantiles(waits, n=100)
    note = f"{turns} turns at {rate:g} a second, all judged; judge time and the wait for the trace left out"
    Figure(GROUP, "added latency, p50", "ms", (cuts[49],), note=note).show()
    Figure(GROUP, "added latency, p99", "ms", (cuts[98],), aim=250.0, note=note).show()


def durable(path: Path) -> list[tuple[str, float, float]]:
    """Of each evaluation in a file: the trace, when it was appended, and how many seconds judging took."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        rows = connection.execute(
            "SELECT timestamp, value FROM records WHERE headers IS NULL AND id >> 57 ="
            " (SELECT number FROM logs WHERE name = 'evaluations')"
        ).fetchall()
    found = []
    for timestamp, value in rows:
        evaluation = json.loads(value)
        took = _seconds(evaluation["ended_at"]) - _seconds(evaluation["started_at"])
        found.append((evaluation["subject"]["trace_id"], timestamp, took))
    return found


def _seconds(moment: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(moment).timestamp()


def main() -> None:
    given = arguments(__doc__ or "")
    repeats = 1 if given.smoke else 5 if given.long else 3
    with serving(0.02) as judge:
        if given.smoke:
            burst(judge, 1.0, 50, repeats)
            return
        for sample, turns in ((0.01, 12_000), (0.1, 6000), (1.0, 2000)):
            burst(judge, sample, turns, repeats)
        burst(judge, 0.01, 6000, repeats, keep="all")
        by_workers(judge, 0.01, 40_000, max(5, repeats))
        if given.long:
            by_workers(judge, 1.0, 6000, repeats)
        by_stage(judge, 0.01, 12_000)
        by_stage(judge, 0.1, 6000)
        by_stage(judge, 1.0, 2000)
        latency(judge, 600, 40.0)


if __name__ == "__main__":
    main()
