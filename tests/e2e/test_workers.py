"""One command, several processes: they share ports and work, and one that ends takes the others along."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from faulty_judge import Faults, FaultyJudge
from made_up import Trace, chat
from payloads import WHOLE_WAY, requests
from prometheus_client.parser import text_string_to_metric_families
from service import ServiceProcess, free_port, until_ledger
from stand_in_judge import serve_judge
from test_kill import EXPECTED, assert_everything_once
from test_whole_way import configuration, of_whole_turns
from topics import Topics

JUDGED = "evalstream_evaluations_started_total"
RECEIVED = "evalstream_receive_requests_total"


@asynccontextmanager
async def command(folder: Path, config: dict[str, Any], workers: int) -> AsyncIterator[ServiceProcess]:
    """The command, started; it does not outlive a test that fails, and its workers do not outlive it."""
    process = ServiceProcess(folder, config, ("--workers", str(workers)))
    try:
        await process.start()
        yield process
    finally:
        await process.end()


def workers_of(process: ServiceProcess) -> dict[int, int]:
    """The newest process of each worker, as the command says."""
    return {int(a): int(b) for a, b in re.findall(r"worker (\d) is process (\d+)", process.stderr.read_text())}


def runs(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    return False


async def gone(pids: list[int]) -> None:
    async with asyncio.timeout(60):
        while any(map(runs, pids)):
            await asyncio.sleep(0.1)


async def by_worker(process: ServiceProcess, name: str) -> dict[str, float]:
    counted = Counter[str]()
    for family in text_string_to_metric_families(await process.metrics()):
        for each in family.samples:
            if each.name == name:
                counted[each.labels["worker"]] += each.value
    return counted


async def both(process: ServiceProcess, name: str) -> bool:
    """Whether each of two workers has counted something."""
    return sum(map(bool, (await by_worker(process, name)).values())) == 2


def a_trace(number: int) -> bytes:
    trace = Trace(f"{number + 1:032x}", start=time.time_ns())
    said = chat(f"What is {number}?", f"{number}.") | {"gen_ai.conversation.id": f"c{number}"}
    return trace.span(1, "chat", said).spans.SerializeToString()


async def post_everything(process: ServiceProcess) -> None:
    for dialect in WHOLE_WAY:
        for name, body in requests(dialect):
            assert await process.post(name, body) == 200


async def finished(process: ServiceProcess, within: float) -> None:
    await until_ledger(process, EXPECTED, within=within, of=of_whole_turns)
    await asyncio.sleep(0.5)
    assert_everything_once(await process.ledger())


async def send_until_both(process: ServiceProcess) -> int:
    """Send traces until both workers receive and judge; gives how many. The system picks who receives."""
    sent = 0
    async with asyncio.timeout(90):  # over Kafka the second one joins the groups of the first after it is ready
        while not (await both(process, JUDGED) and await both(process, RECEIVED)):
            assert await process.post("traces", a_trace(sent)) == 200
            sent += 1
            await asyncio.sleep(0.2)
    return sent


async def everything_once(process: ServiceProcess, sent: int) -> None:
    ledger = await until_ledger(process, 2 * sent, within=60)
    assert Counter((each.subject.trace_id, each.evaluator) for each in ledger) == {
        (f"{number + 1:032x}", evaluator): 1 for number in range(sent) for evaluator in ("helpful", "exact")
    }


async def test_over_a_file_they_share_partitions_and_end_together(tmp_path: Path) -> None:
    async with (
        serve_judge(FaultyJudge(Faults(latency=0.4))) as url,
        command(tmp_path, configuration(url), 3) as process,
    ):
        await post_everything(process)
        killed = workers_of(process)
        os.kill(killed[2], signal.SIGKILL)
        assert await process.ended() == 128 + signal.SIGKILL
        await gone([*killed.values()])
        assert "worker 2 has ended with status 137; the others stop, too" in process.stderr.read_text()
        await process.start()
        await finished(process, within=60)
        assert set(await by_worker(process, "evalstream_build_info")) == {"1", "2", "3"}
        judged = await by_worker(process, JUDGED)
        assert sum(judged[each] > 0 for each in "123") > 1
        ledger = len(await process.ledger())
        async with asyncio.timeout(20):  # the killed workers were not scraped, and have counted nothing for Prometheus
            while await by_worker(process, "evalstream_evaluations_total") != {"1": ledger}:
                await asyncio.sleep(0.1)
        assert await process.stop() == 0
        assert "error" not in process.stderr.read_text().rpartition("worker 3 is process")[2]


async def overview_of(port: int) -> dict[str, Any]:
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/api/overview") as response:
        return await response.json()


def counts_of(overview: dict[str, Any]) -> list[int]:
    """Of every evaluator, how many of its evaluations the page has counted, by any outcome."""
    return [each["scored"] + sum(number for *_, number in each["others"]) for each in overview["funnel"]["outcomes"]]


@pytest.mark.parametrize("workers", [1, 2])
async def test_the_page_has_turns_and_budgets_of_all_processes_or_says_that_it_has_not(
    tmp_path: Path, workers: int
) -> None:
    """It had the turns that its own process had counted, and that process's part of the budget, beside all scores."""
    async with serve_judge(FaultyJudge()) as url:
        config = configuration(url, page={"port": (port := free_port())})
        config["monitors"]["all"]["budget"] = {"usd_per_hour": 8.0}
        config["judges"]["stand-in"] |= {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
        async with command(tmp_path, config, workers) as process:
            for number in range(12):
                assert await process.post("traces", a_trace(number)) == 200
            await everything_once(process, 12)
            assert workers == 1 or await both(process, JUDGED)
            async with asyncio.timeout(20):
                while sum(counts_of(shown := await overview_of(port))) < 24:  # of two evaluators
                    await asyncio.sleep(0.1)
            assert shown["funnel"]["traffic"] == ({} if workers == 2 else {"all": {"sampled": 12, "sampled_out": 0}})
            [budget] = shown["budgets"]
            assert budget["limit_usd"] == 8.0
            spent = sum(each["work"]["cost_usd"] or 0.0 for each in shown["tracks"])
            assert budget["spent_usd"] == pytest.approx(spent) != 0.0


async def post_on_its_own_connection(stack: AsyncExitStack, process: ServiceProcess, number: int) -> None:
    session = await stack.enter_async_context(aiohttp.ClientSession())
    kind = {"Content-Type": "application/x-protobuf"}
    async with session.post(f"{process.url}/v1/traces", data=a_trace(number), headers=kind) as response:
        assert response.status == 200


async def export_on_its_own_connection(stack: AsyncExitStack, port: int, number: int) -> None:
    own = [("grpc.use_local_subchannel_pool", 1)]
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}", own))
    export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
    await export(a_trace(number), timeout=30)


@pytest.mark.parametrize("protocol", ["otlp_http", "otlp_grpc"])
async def test_connections_that_last_are_divided_evenly(tmp_path: Path, protocol: str) -> None:
    """Two workers of eight connections have four each, whichever the system would have picked."""
    port = free_port()
    async with serve_judge(FaultyJudge()) as url:
        receive = {"otlp_http": {"port": 0}, "otlp_grpc": {"port": port}}
        async with command(tmp_path, configuration(url, receive=receive), 2) as process, AsyncExitStack() as stack:
            for number in range(8):
                if protocol == "otlp_http":
                    await post_on_its_own_connection(stack, process, number)
                else:
                    await export_on_its_own_connection(stack, port, number)
            assert await by_worker(process, RECEIVED) == {"1": 4, "2": 4}
            await everything_once(process, 8)
            await stack.aclose()
            assert await process.stop() == 0


async def test_killed_under_load_workers_over_a_file_lose_nothing_and_judge_nothing_twice(tmp_path: Path) -> None:
    """At a moment of its own each time: while requests come, turns are made, judges answer."""
    async with (
        serve_judge(FaultyJudge(Faults(latency=0.05))) as url,
        command(tmp_path, configuration(url), 2) as process,
    ):
        sent = 0
        for killed in (1, 2, 1):
            sent = await post_until_killed(process, sent, killed)
            await process.start()
        await everything_once(process, sent)
        assert await both(process, "evalstream_build_info")
        assert await process.stop() == 0


async def post_until_killed(process: ServiceProcess, first: int, worker: int) -> int:
    """Send traces one after the other, until one is not taken; it and those before were sent, and it is sent again."""
    number = first
    while True:
        try:
            assert await process.post("traces", a_trace(number)) == 200
        except aiohttp.ClientError:
            break
        number += 1
        if number == first + 40:
            os.kill(workers_of(process)[worker], signal.SIGKILL)
    await process.ended()
    return number


async def test_a_second_command_on_the_file_ends_at_once(tmp_path: Path) -> None:
    shared = configuration("http://127.0.0.1:9/v1", log={"kind": "sqlite", "path": str(tmp_path / "evalstream.db")})
    async with command(tmp_path, shared, 2) as first:
        folder = tmp_path / "second"
        folder.mkdir()
        for workers in ("1", "2"):
            second = ServiceProcess(folder, shared, ("--workers", workers))
            await second.launch()
            assert await second.ended() == 2
            assert "another process consumes the log" in second.stderr.read_text()
        assert await first.stop() == 0


@pytest.mark.kafka
@pytest.mark.timeout(180)
async def test_over_kafka_they_share_partitions_and_a_port(tmp_path: Path, kafka_broker: Any) -> None:
    log = Topics(kafka_broker.bootstrap).log_settings()
    del log["kafka"]["group_instance_id"]
    async with serve_judge() as url, command(tmp_path, configuration(url, log=log), 2) as process:
        sent = await send_until_both(process)
        await everything_once(process, sent)
        assert sum((await by_worker(process, RECEIVED)).values()) == sent
        assert await process.stop() == 0


async def test_without_the_one_that_started_them_they_stop(tmp_path: Path) -> None:
    async with command(tmp_path, configuration("http://127.0.0.1:9/v1"), 2) as process:
        workers = workers_of(process)
        await process.kill()
    await gone([*workers.values()])
    assert "stopped" in process.stderr.read_text()


async def test_what_cannot_start_ends_the_command_with_its_status(tmp_path: Path) -> None:
    """A port that another process has: that of /metrics is of the command itself, that of OTLP of a worker."""
    first = ServiceProcess(tmp_path, configuration("http://127.0.0.1:9/v1"))
    await first.start()
    try:
        for taken in ("metrics_port", "port"):
            folder = tmp_path / taken
            folder.mkdir()
            second = ServiceProcess(folder, configuration("http://127.0.0.1:9/v1"), ("--workers", "2"))
            text = second.path.read_text()
            second.path.write_text(text.replace(str(getattr(second, taken)), str(getattr(first, taken))))
            await second.launch()
            assert await second.ended() == 2
            await gone([*workers_of(second).values()])
            assert str(getattr(first, taken)) in second.stderr.read_text()
    finally:
        assert await first.stop() == 0


async def test_metrics_and_readiness_say_when_a_worker_does_not_answer(tmp_path: Path) -> None:
    async with command(tmp_path, configuration("http://127.0.0.1:9/v1"), 2) as process:
        frozen = workers_of(process)[1]
        os.kill(frozen, signal.SIGSTOP)
        try:
            ready = process.metrics_url.replace("/metrics", "/readyz")
            async with aiohttp.ClientSession() as session, session.get(ready) as response:
                assert response.status == 503
                assert (await response.json())["problems"] == ["worker 1: it does not answer"]
        finally:
            os.kill(frozen, signal.SIGCONT)
        assert await process.stop() == 0
