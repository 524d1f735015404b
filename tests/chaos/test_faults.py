"""What goes wrong around the service, one thing at a time: it says so, waits, and goes on by itself."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from counted_judge import CountedJudge
from faulty_judge import Faults
from kafka import KafkaAdminClient, KafkaProducer
from service import ServiceProcess, until_ledger
from stand_in_judge import serve_judge
from topics import PARTITIONS, Topics
from traffic import request, trace_id, turn

from collector.config.loading import check
from collector.logs.consumer_runner import ConsumerTiming, SlewedClock
from collector.logs.log import Record
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.app import running
from evaluators.cases import Turn
from evaluators.results import Evaluation

STEPS = ["Say whether the actual output answers the input."]


def configuration(judge: str, **changes: Any) -> dict[str, Any]:
    return {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": "200ms", "allowed_lateness": "5s"},
        "judges": {"main": {"model": "m", "base_url": judge, "top_logprobs": 0}},
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "evaluation_steps": STEPS,
                "evaluation_params": ["input", "actual_output"],
            }
        },
        "monitors": {"all": {"evaluators": ["helpful"]}},
    } | changes


def assert_each_once(ledger: list[Evaluation], numbers: range) -> None:
    counted = Counter(each.subject.trace_id for each in ledger)
    assert counted == {trace_id(number).hex(): 1 for number in numbers}
    assert {each.outcome for each in ledger} == {"scored"}


@pytest.mark.long
async def test_a_full_disk_is_waited_for_and_what_was_accepted_is_judged_once(tmp_path: Path) -> None:
    """The process may not make files longer for a while. Whoever sends is told to come again; memory stays bounded."""
    judge = CountedJudge(Faults(latency=0.05))
    async with serve_judge(judge) as url:
        service = ServiceProcess(tmp_path, configuration(url))
        await service.start()
        await accepted(service, range(20))
        await until_ledger(service, 20)
        longest = (tmp_path / "evalstream.db-wal").stat().st_size
        with FilesAtMost(service, longest):
            async with asyncio.timeout(60):  # what is in the file already has room for a few
                while not await refused(service, range(20, 40)) or "; retrying" not in said(service):
                    await asyncio.sleep(0.1)
        await accepted(service, range(20, 60))
        ledger = await until_ledger(service, 60)
        assert await service.stop() == 0
    assert_each_once(ledger, range(60))
    assert judge.paid() == dict.fromkeys(range(60), 1)


async def accepted(service: ServiceProcess, numbers: range) -> None:
    """Send each turn until it is taken, as a sender does that is told to come again."""
    async with asyncio.timeout(60):
        for number in numbers:
            while await service.post("traces", request([number])) != 200:
                await asyncio.sleep(0.2)


async def refused(service: ServiceProcess, numbers: range) -> int:
    """How many it does not take now. That it says it is not available, and means it, is all it does."""
    answers = [await service.post("traces", request([number])) for number in numbers]
    assert set(answers) <= {200, 429, 503}
    return sum(answer != 200 for answer in answers)


def said(service: ServiceProcess) -> str:
    return service.stderr.read_text()


class FilesAtMost:
    """The service can write no file beyond a length: for SQLite much like a full disk."""

    def __init__(self, service: ServiceProcess, length: int) -> None:
        assert service._process is not None
        self._pid = service._process.pid
        self._length = length

    def __enter__(self) -> None:
        _, self._hard = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (self._length, self._hard))

    def __exit__(self, *_: object) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (self._hard, self._hard))


@pytest.mark.long
async def test_sigterm_under_load_ends_in_order_and_costs_no_question(tmp_path: Path) -> None:
    """What runs may end, the rest is left in the log: the next process goes on exactly there."""
    judge, turns = CountedJudge(Faults(latency=0.3)), range(120)
    async with serve_judge(judge) as url:
        service = ServiceProcess(tmp_path, configuration(url, evaluate={"concurrency": 8}))
        for stop_at in (10, 40, None):
            await service.start()
            sending = asyncio.create_task(send_what_was_not_taken(service, taken := set[int](), turns))
            if stop_at is not None:
                async with asyncio.timeout(60):
                    while len(judge.asked) < stop_at:
                        await asyncio.sleep(0.01)
                assert await service.stop() == 0, "within the grace, and in order"
                sending.cancel()
                await asyncio.wait([sending])
            else:
                await sending
                assert taken == set(turns)
        ledger = await until_ledger(service, len(turns), within=90)
        assert await service.stop() == 0
    assert_each_once(ledger, turns)
    assert judge.paid() == dict.fromkeys(turns, 1)


async def send_what_was_not_taken(service: ServiceProcess, taken: set[int], turns: range) -> None:
    while len(taken) < len(turns):
        for number in turns:
            if number not in taken:
                try:
                    if await service.post("traces", request([number])) == 200:
                        taken.add(number)
                except aiohttp.ClientError:
                    return


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", [12, 50], ids=["fewer records", "more records"])
async def test_a_source_topic_that_is_deleted_and_made_again_is_read_again(
    tmp_path: Path, kafka_broker: Any, number: int
) -> None:
    """Also where offsets do not tell: the new topic has more records in each partition than were read of the old one."""
    topics = Topics(kafka_broker.bootstrap)
    judge = CountedJudge()
    async with serve_judge(judge) as url:
        config = configuration(url, receive={"kafka": [topics.source_settings() | {"logs": []}]})
        service = ServiceProcess(tmp_path, config)
        await service.start()
        await asyncio.to_thread(produce, topics, range(20))
        await until_ledger(service, 20)
        await asyncio.to_thread(delete_and_make, topics)
        await asyncio.to_thread(produce, topics, range(20, 20 + number))
        ledger = await until_ledger(service, 20 + number, within=120)
        lost = [line for line in (await service.metrics()).splitlines() if "records_lost_total{" in line]
        assert await service.stop() == 0
    assert_each_once(ledger, range(20 + number))
    if number == 50:
        assert any('reason="topic_replaced"' in line for line in lost), lost


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize("start", ["earliest", "latest"])
async def test_a_source_topic_that_is_replaced_while_nobody_reads_is_read_from_its_start(
    tmp_path: Path, kafka_broker: Any, start: str
) -> None:
    """With the topic the broker has deleted what the group had committed: `latest` alone would begin at the new end."""
    topics = Topics(kafka_broker.bootstrap)
    async with serve_judge(CountedJudge()) as url:
        source = topics.source_settings() | {"logs": [], "start": start}
        service = ServiceProcess(tmp_path, configuration(url, receive={"kafka": [source]}))
        try:
            await service.start()
            read = await read_in_every_partition(service, topics)
            assert await service.stop() == 0
            await asyncio.to_thread(delete_and_make, topics)
            await asyncio.to_thread(produce, topics, range(1000, 1050))
            await service.start()
            ledger = await until_ledger(service, read + 50, within=60)
            lost = await lost_by_replacement(service)
            assert await service.stop() == 0
            await service.start()  # what was noticed is not noticed again
            assert await lost_by_replacement(service) == 0
            assert await service.stop() == 0
        finally:
            await service.end()
    before = {trace_id(number).hex() for number in range(1000)}
    assert_each_once([each for each in ledger if each.subject.trace_id not in before], range(1000, 1050))
    assert lost == PARTITIONS
    assert said(service).count("was deleted and made again") == PARTITIONS


async def read_in_every_partition(service: ServiceProcess, topics: Topics) -> int:
    """Produce until the group reads all partitions; how many turns it has judged then."""
    names, made, read = {trace_id(number).hex(): number for number in range(1000)}, 0, set[int]()
    async with asyncio.timeout(60):
        while {number % PARTITIONS for number in read} != set(range(PARTITIONS)):
            await asyncio.to_thread(produce, topics, range(made, made + PARTITIONS))
            made += PARTITIONS
            await asyncio.sleep(1)
            read = {names[each.subject.trace_id or ""] for each in await service.ledger()}
    # with `latest`, a partition may begin a round later than another
    firsts = {number % PARTITIONS: number for number in sorted(read, reverse=True)}
    due = sum((made + partition - first) // PARTITIONS for partition, first in firsts.items())
    return len(await until_ledger(service, due))


async def lost_by_replacement(service: ServiceProcess) -> float:
    lines = [each for each in (await service.metrics()).splitlines() if 'reason="topic_replaced"' in each]
    return sum(float(each.split()[-1]) for each in lines if each.startswith("evalstream_records_lost_total{"))


def produce(topics: Topics, numbers: range) -> None:
    producer = KafkaProducer(bootstrap_servers=topics.bootstrap, acks="all")
    for number in numbers:
        producer.send(f"{topics.name}.otlp_spans", request([number]), partition=number % PARTITIONS).get(20)
    producer.close()


def delete_and_make(topics: Topics) -> None:
    name = f"{topics.name}.otlp_spans"
    admin = KafkaAdminClient(bootstrap_servers=topics.bootstrap)
    admin.delete_topics([name])
    give_up_at = time.monotonic() + 30
    while name in admin.list_topics():
        assert time.monotonic() < give_up_at
        time.sleep(0.2)
    admin.create_topics({name: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    admin.close()


class Machine:
    """A machine whose clock can be set."""

    def __init__(self) -> None:
        self.set_off = 0.0

    def wall(self) -> float:
        return time.time() + self.set_off


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine()
    monkeypatch.setattr("collector.logs.memory.ConsumerTiming", lambda: ConsumerTiming(clock=SlewedClock(machine.wall)))
    return machine


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_when_the_clock_jumps_an_hour_conversations_neither_all_close_nor_hang(
    machine: Machine, jump: float
) -> None:
    config = configuration("http://127.0.0.1:9/v1", log={"kind": "memory"}, judges={}) | {
        "evaluators": {"whole": {"kind": "conversation_length:Turns"}},
        "monitors": {"all": {"evaluators": ["whole"], "idle_timeout": "1500ms", "allowed_lateness": "600s"}},
        "export": {"prometheus": {"port": 0}},
    }
    async with running(check(config, "test"), ["evaluate"]) as service:

        async def put(number: int, conversation: str) -> None:
            record = turn_to_json(timeless(number, conversation))
            await service.logs.turns.append([Record(conversation.encode(), record)])

        for conversation in "abc":
            await put(ord(conversation), conversation)
        machine.set_off += jump
        await asyncio.sleep(0.3)
        for conversation in "abc":
            await put(ord(conversation) + 100, conversation)
        found: list[Evaluation] = []
        async with asyncio.timeout(30):
            while len(found) < 3:
                await asyncio.sleep(0.05)
                found = [
                    evaluation_from_json(record.value)
                    async for batch in service.logs.evaluations.read(0, 0)
                    for record in batch
                    if not record.headers  # a decision
                ]
    closed = {each.subject.conversation_id: (each.attributes["closed_by"], each.attributes["turns"]) for each in found}
    assert closed == dict.fromkeys("abc", ("idle", 2)), "with the turn that came after the jump"


def timeless(number: int, conversation: str) -> Turn:
    """A turn that happened when the log took it."""
    return replace(turn(number), conversation_id=conversation, started_at=None, ended_at=None)
