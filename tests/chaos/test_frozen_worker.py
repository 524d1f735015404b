"""A worker that stands still for longer than its session, while another takes over, and then continues."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from broker import Broker
from counted_judge import CountedJudge
from faulty_judge import Faults
from harness import EVALUATORS, JUDGED, configuration, problems_of, until_drained, without_unread
from ledger_watch import LedgerWatch
from stand_in_judge import serve_judge
from traffic import conversation_id, turn
from workers import Worker

from collector.config.settings import LogSettings
from collector.logs.log import Log, Record
from collector.records.json import turn_to_json
from collector.service.open_logs import Logs, open_logs

SESSION = 6.0
"""Seconds until a worker that stands still loses its partitions."""
RATE = 25.0
"""Turns a second: with a judge that takes 0.4 s about ten questions are in flight."""


@dataclass(slots=True)
class Seen:
    """What some freezes led to, as every reader sees it."""

    freezes: int = 0
    expected: int = 0
    missing: int = 0
    written_twice: int = 0
    void: int = 0
    judged_again: int = 0
    asked_by_former_owner: list[int] = field(default_factory=list[int])
    exported_by_former_owner: int = 0
    exported_twice: int = 0
    exports_missing: int = 0


@dataclass(slots=True)
class Pair:
    """Two workers on the same topics, and the traffic that they judge."""

    workers: tuple[Worker, Worker]
    judge: CountedJudge
    ledger: LedgerWatch
    turns: Log
    sent: int = 0
    freezes: int = 0
    exported_by_former_owner: int = 0
    asked_by_former_owner: list[int] = field(default_factory=list[int])

    async def send_forever(self, most: int) -> None:
        while self.sent < most:
            value = turn_to_json(turn(self.sent))
            await self.turns.append([Record(conversation_id(self.sent).encode(), value)])
            self.sent += 1
            await asyncio.sleep(1 / RATE)

    async def look_forever(self) -> None:
        while True:
            await self.ledger.look()
            await asyncio.sleep(0.3)

    async def freeze(self, frozen: Worker, other: Worker, seconds: float) -> None:
        """Freeze one worker, and see what it asks and exports afterwards that the other one had done by then."""
        frozen.send(signal.SIGSTOP)
        before = len(frozen.exported())
        await asyncio.sleep(seconds)
        taken_over = set(ids(other))
        frozen.send(signal.SIGCONT)
        continued = time.time()
        self.freezes += 1
        await asyncio.sleep(SESSION + 4.0)
        self.asked_by_former_owner += [
            call.number
            for call in self.judge.asked
            if call.worker == frozen.name
            and call.asked_at > continued
            and self.ledger.at.get((JUDGED, call.number), math.inf) < continued
        ]
        self.exported_by_former_owner += len(taken_over & set(ids(frozen)[before:]))

    async def until_judged(self, within: float) -> None:
        async with asyncio.timeout(within):
            while self.ledger.distinct < self.sent * len(EVALUATORS):
                await asyncio.sleep(0.3)
            while set(self.ledger.written) - {each for worker in self.workers for each in ids(worker)}:
                await asyncio.sleep(0.3)

    def seen(self) -> Seen:
        exported = Counter(each for worker in self.workers for each in ids(worker))
        keys = {(evaluator, number) for evaluator in EVALUATORS for number in range(self.sent)}
        return Seen(
            freezes=self.freezes,
            expected=len(keys),
            missing=len(keys - set(self.ledger.subjects)),
            written_twice=sum(number - 1 for number in self.ledger.written.values()),
            void=self.ledger.void,
            judged_again=sum(calls - 1 for calls in self.judge.paid().values()),
            asked_by_former_owner=self.asked_by_former_owner,
            exported_by_former_owner=self.exported_by_former_owner,
            exported_twice=sum(number - 1 for number in exported.values()),
            exports_missing=len(set(self.ledger.written) - set(exported)),
        )


def ids(worker: Worker) -> list[str]:
    return [json.loads(line)["evaluation_id"] for line in worker.exported()]


@asynccontextmanager
async def pair(broker: Broker, folder: Path, turns: int) -> AsyncIterator[Pair]:
    """Two workers, running; gone on leaving."""
    judge = CountedJudge(Faults(latency=0.4))
    async with serve_judge(judge) as url:
        workers: list[Worker] = []
        for name in ("one", "other"):
            config = configuration(name, broker.bootstrap, url, 32)
            config["receive"] = {"otlp_http": None}
            config["log"]["kafka"]["session_timeout"] = SESSION
            workers.append(Worker(folder / name, name, config, "--stages", "evaluate,export"))
        log = LogSettings.model_validate(configuration("test", broker.bootstrap, url, 1)["log"])
        async with open_logs(log) as logs:
            for each in workers:
                each.start()
            try:
                yield _pair(workers, judge, logs, turns)
            finally:
                for each in workers:
                    if each.running:
                        each.send(signal.SIGCONT)
                        await asyncio.to_thread(each.kill)


def _pair(workers: list[Worker], judge: CountedJudge, logs: Logs, turns: int) -> Pair:
    one, other = workers
    return Pair((one, other), judge, LedgerWatch(logs.evaluations, turns), logs.turns)


WITHOUT_CONNECTION = 5
"""Questions that may have been let through before the freeze and had no connection yet: void, but asked (promises.md)."""


async def frozen_in_turn(broker: Broker, folder: Path, freezes: int, seconds: float) -> Seen:
    most = int(RATE * (freezes * (seconds + SESSION + 14.0) + 30.0))
    async with pair(broker, folder, most) as workers, asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(workers.look_forever())
        sending = tasks.create_task(workers.send_forever(most))
        async with asyncio.timeout(60):
            while {call.worker for call in workers.judge.asked} != {each.name for each in workers.workers}:
                await asyncio.sleep(0.3)
        await asyncio.sleep(3.0)  # connections are made
        for number in range(freezes):
            one, other = workers.workers if number % 2 == 0 else reversed(workers.workers)
            await workers.freeze(one, other, seconds)
            await asyncio.sleep(6.0)  # each has its share again
        sending.cancel()
        await asyncio.wait([sending])
        try:
            await workers.until_judged(within=90)
        except TimeoutError:
            print(*(each.said() for each in workers.workers), sep="\n---\n")
        await until_drained(workers.workers[0].config)
        statuses = [await asyncio.to_thread(each.stop) for each in workers.workers]
        await workers.ledger.look()
        looking.cancel()
        assert statuses == [0, 0]
        assert without_unread(await problems_of(workers.workers[0].config)) == []
        seen = workers.seen()
    print(json.dumps(asdict(seen)))
    return seen


def assert_fenced(seen: Seen) -> None:
    assert seen.missing == seen.written_twice == seen.exports_missing == 0
    assert seen.exported_by_former_owner == 0
    assert len(seen.asked_by_former_owner) <= WITHOUT_CONNECTION


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(240)
async def test_what_a_frozen_worker_has_in_hand_is_void(tmp_path: Path, own_broker: Broker) -> None:
    assert_fenced(await frozen_in_turn(own_broker, tmp_path, 1, SESSION + 5.0))


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_freezes_of_a_minute_beyond_the_session(tmp_path: Path, own_broker: Broker) -> None:
    assert_fenced(await frozen_in_turn(own_broker, tmp_path, 6, SESSION + 60.0))
