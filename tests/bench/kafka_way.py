"""Kafka in, Kafka out, on a real broker on this machine: a process for each stage, and a rebalance.

OTLP as the Collector's exporter writes it, fifty traces a message, through topics of three partitions. The rebalance is of two processes that assemble and judge, one of which is killed: the time
without progress is the longest in which no evaluation was appended although turns came all the while.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))

import itertools

from broker import BrokerUnavailable, running_broker
from collector_redaction import processor as redaction
from ingest import model_call_floor
from kafka import KafkaAdminClient, KafkaProducer
from measured import Figure, arguments, beside, cpu_seconds
from processes import Process, configuration, free_port, processes
from quick_judge import serving
from whole_way import (
    FLOOR,
    PER_REQUEST,
    QUIET,
    STAGES,
    WARM_UP,
    WHOLE_WAY_AIM,
    bodies_of,
    body,
    kept,
    send,
    until_done,
)

GROUP = "whole way"
PARTITIONS = 3
OTELCOL = Path(__file__).parents[2] / ".cache" / "go" / "otelcol" / "otelcol"


class Topics:
    """Topics of their own for a measurement."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.name = bootstrap, name
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics({f"{name}.otlp_spans": {"num_partitions": PARTITIONS, "replication_factor": 1}})
        admin.close()
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")

    def config(self, judge: str, sample: float, keep: str | None = None) -> dict[str, Any]:
        given = configuration(judge, sample=sample, quiet=QUIET, keep=keep)
        kafka = {"bootstrap_servers": [self.bootstrap], "prefix": self.name, "partitions": PARTITIONS}
        given["log"] = {"kind": "kafka", "kafka": kafka}
        source = {"bootstrap_servers": [self.bootstrap], "traces": [f"{self.name}.otlp_spans"], "group": self.name}
        given["receive"] = {"kafka": [source]}
        return given

    def send(self, first: int, traces: int) -> None:
        self.producer.send(f"{self.name}.otlp_spans", body(first, traces, time.time()))

    def send_turns(self, first: int, turns: int) -> None:
        for number in range(first, first + turns, PER_REQUEST):
            self.send(number, PER_REQUEST)
        self.producer.flush()

    def close(self) -> None:
        self.producer.close()


def way(bootstrap: str, judge: str, sample: float, turns: int, folder: Path, keep: str | None = None) -> None:
    topics = Topics(bootstrap, f"way{round(sample * 100)}{keep or ''}")
    measure_floor = model_call_floor()
    with processes(folder, topics.config(judge, sample, keep), *STAGES) as running:
        topics.send_turns(0, WARM_UP)
        until_done(running[2], WARM_UP)
        floor = measure_floor()
        before, start = [each.cpu for each in running], time.monotonic()
        topics.send_turns(WARM_UP, turns)
        rate = turns / (until_done(running[2], WARM_UP + turns) - start - QUIET)
        time.sleep(1.0)
        costs = [(each.cpu - cpu) / turns for each, cpu in zip(running, before, strict=True)]
        memory = sum(each.memory for each in running)
        floor = (floor + measure_floor()) / 2
    topics.close()
    name = f"Kafka to Kafka, {sample:.0%} judged{kept(keep)}"
    for stage, cost in zip(STAGES, costs, strict=True):
        Figure(
            GROUP,
            f"{name}: {stage}",
            "µs CPU/turn",
            (cost * 1e6,),
            note=f"{turns} turns, a process for each stage",
        ).show()
    aim = WHOLE_WAY_AIM if sample <= 0.01 and keep is None else None
    note = f"{FLOOR}; all stages"
    beside(GROUP, f"{name}: CPU", "µs CPU/turn", [floor], [sum(costs)], 1e6, aim=aim, note=note).show()
    Figure(GROUP, f"{name}: burst", "turns/s", (rate,), note="broker and judge on this machine").show()
    Figure(GROUP, f"{name}: memory", "MB resident", (memory,), note="four processes").show()


def beside_collector(bootstrap: str, judge: str, requests: int, folder: Path) -> None:
    """OTLP/HTTP into Kafka: our `receive`, and the OpenTelemetry Collector's receiver, batch and Kafka exporter.

    Each redacts, and does not. Where both do, the Collector has its redaction processor: see `collector_redaction`.
    """
    topics = Topics(bootstrap, "beside")
    bodies = bodies_of(0, 10 * PER_REQUEST)

    def cost_of(port: int, cpu: Callable[[], float], requests: int) -> float:
        before = cpu()
        send(port, [bodies[number % 10] for number in range(requests)])
        time.sleep(2.0)
        return (cpu() - before) / (requests * 2 * PER_REQUEST)

    with (
        receiving(topics.config(judge, 1.0), folder) as (ours, port),
        receiving(topics.config(judge, 1.0) | {"redact": {"enabled": False}}, folder) as (plain, plain_port),
        collector(bootstrap, topics, folder, redacts=True) as (pid, other),
        collector(bootstrap, topics, folder, redacts=False) as (plain_pid, plain_other),
    ):
        for at in (port, plain_port, other, plain_other):
            send(at, bodies)  # what is made once is no cost of a span
        costs = [
            (
                cost_of(port, lambda: ours.cpu, requests),
                cost_of(plain_port, lambda: plain.cpu, requests),
                cost_of(other, lambda: cpu_seconds(pid), requests // 3),  # it takes seven times as long
                cost_of(plain_other, lambda: cpu_seconds(plain_pid), requests),
            )
            for _ in range(3)
        ]
    topics.close()
    redacted, bare, floors, bare_floors = ([*each] for each in zip(*costs, strict=True))
    name, floor = "OTLP/HTTP into Kafka: receive", "floor: the OpenTelemetry Collector 0.155"
    durable = "keeps nothing durable before it answers"
    note = f"{floor} (otlp, batch, kafka); we redact, it does not, and it {durable}"
    beside(GROUP, name, "µs CPU/span", bare_floors, redacted, 1e6, note=note).show()
    note = (
        f"{floor} (otlp, redaction, batch, kafka); 99 patterns for the same kinds, in the texts of attributes alone, without "
        f"check digits, words around a number, national ids and JSON in JSON; it {durable}"
    )
    beside(GROUP, f"{name}, both redact", "µs CPU/span", floors, redacted, 1e6, aim=1.2, note=note).show()
    note = f"{floor} (otlp, batch, kafka); neither redacts; it {durable}"
    beside(GROUP, f"{name}, redact.enabled: false", "µs CPU/span", bare_floors, bare, 1e6, aim=1.2, note=note).show()


@contextmanager
def receiving(config: dict[str, Any], folder: Path) -> Iterator[tuple[Process, int]]:
    """Our `receive` with a port for OTLP."""
    port = free_port()
    config["receive"] = {"otlp_http": {"port": port}}
    with processes(folder, config, "receive") as (running,):
        yield running, port


@contextmanager
def collector(bootstrap: str, topics: Topics, folder: Path, *, redacts: bool) -> Iterator[tuple[int, int]]:
    """A Collector that runs; gives its process id and port."""
    port = free_port()
    processors = {"redaction": redaction(), "batch": {}} if redacts else {"batch": {}}
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "processors": processors,
        "exporters": {
            "kafka": {
                "brokers": [bootstrap],
                "partition_traces_by_id": True,
                "traces": {"topic": f"{topics.name}.otlp_spans", "encoding": "otlp_proto"},
                "producer": {"required_acks": -1, "max_message_bytes": 4_000_000},
            }
        },
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "processors": [*processors], "exporters": ["kafka"]}},
        },
    }
    path = folder / f"otelcol-{port}.yaml"
    path.write_text(yaml.safe_dump(config))
    with (folder / f"otelcol-{port}.txt").open("wb") as said:
        process = subprocess.Popen([OTELCOL, "--config", str(path)], stdout=said, stderr=said)
        try:
            until_listening(port, process)
            yield process.pid, port
        finally:
            process.terminate()
            process.wait(20)


def until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        if process.poll() is not None:
            raise RuntimeError("the Collector does not start")
        time.sleep(0.05)


def rebalance(bootstrap: str, judge: str, folder: Path, *, killed: bool) -> None:
    topics = Topics(bootstrap, "rebalance")
    config = topics.config(judge, 1.0)
    first = Process(folder, config, "receive,export")
    workers = [Process(folder, config, "assemble,evaluate") for _ in range(2)]
    stop, seen = threading.Event(), [(time.monotonic(), 0.0)]

    def traffic() -> None:
        number = 0
        while not stop.wait(0.1):
            topics.send(number, 3)
            number += 3

    def watch() -> None:
        while not stop.wait(0.1):
            total = first.metric("evalstream_evaluations_total")
            if total > seen[-1][1]:
                seen.append((time.monotonic(), total))

    threads = [threading.Thread(target=each) for each in (traffic, watch)]
    for each in threads:
        each.start()
    try:
        found = []
        time.sleep(8.0)
        for how, wait in ((workers[0].stop, 15.0), (workers[1].kill, 60.0))[: 1 + killed]:
            at = time.monotonic()
            how()
            workers.append(Process(folder, config, "assemble,evaluate"))
            time.sleep(wait)
            times = [moment for moment, _ in seen if moment >= at - 2.0]
            found.append(max((b - a for a, b in itertools.pairwise(times)), default=float("inf")))
    finally:
        stop.set()
        for each in threads:
            each.join()
        for each in (first, *workers):
            each.stop()
        topics.close()
    note = "two processes over three partitions; 30 turns a second"
    Figure("recovery", "rebalance: one is stopped, one starts", "s without progress", (found[0],), note=note).show()
    if not killed:
        return
    note = "after a crash Kafka waits for the session's end, 45 s, before it gives the partitions away"
    Figure("recovery", "rebalance: one is killed, one starts", "s without progress", (found[1],), note=note).show()


def _ways(*, is_smoke: bool, is_long: bool) -> list[tuple[float, int]]:
    """The shares that are judged, and turns: one in ten lies between the others, and takes half a minute."""
    if is_smoke:
        return [(1.0, 50)]
    return [(0.01, 12_000), *([(0.1, 6000)] if is_long else []), (1.0, 2000)]


def main() -> None:
    given = arguments(__doc__ or "")
    try:
        with (
            running_broker() as broker,
            serving(0.02) as judge,
            tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder,
        ):
            for sample, turns in _ways(is_smoke=given.smoke, is_long=given.long):
                way(broker.bootstrap, judge, sample, turns, Path(folder))
            if not given.smoke:
                way(broker.bootstrap, judge, 0.01, 6000, Path(folder), keep="all")
            if OTELCOL.exists() and not given.smoke:
                beside_collector(broker.bootstrap, judge, 300, Path(folder))
            elif not given.smoke:
                print(json.dumps({"left_out": "the OpenTelemetry Collector beside: `make tools` builds it (needs Go)"}))
            if not given.smoke:
                rebalance(broker.bootstrap, judge, Path(folder), killed=given.long)
    except BrokerUnavailable as error:
        print(json.dumps({"left_out": f"Kafka: {error}"}))


if __name__ == "__main__":
    main()
