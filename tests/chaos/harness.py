"""A small cluster under fire: a broker, a judge, workers; what happens to them, and what is left in the end."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestServer
from batching_judge import BatchingJudge
from broker import Broker, running_broker
from counted_judge import CountedJudge
from faulty_judge import Faults
from figures import Figures, Interruption, Kill, exports, repeated
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError
from ledger_watch import LedgerWatch
from sink import Sink
from stand_in_judge import serve_judge
from traffic import PATIENT_MODEL, is_patient, request
from workers import Worker, evalstream, quick_batches

from collector.commands.audit.audit import audit
from collector.config.loading import load
from collector.config.settings import LogSettings
from collector.logs.kafka.workarounds import abandon
from collector.service.open_logs import Logs, open_logs

PREFIX = "chaos"
SOURCE = "otlp_spans"
PARTITIONS = 6
GROUPS = (f"{PREFIX}.receive.traces", *(f"{PREFIX}.{each}" for each in ("assemble", "evaluate", "export.jsonl")))
PER_MESSAGE = 10
EVALUATORS = ("helpful", "brief")
PATIENT = "patient"
JUDGED = "helpful"
IN_ORDER = (0, -signal.SIGTERM)
"""Exit statuses of workers that were told to stop; the second is of one that had not begun to listen for it."""
HOPELESS = 100
"""So many processes end by themselves only if something is wrong with all of them."""
UNREST = 30.0
"""Seconds within which partitions have moved after an interruption."""
LET_THROUGH = 1.0
"""Seconds after a freeze within which questions are asked that were let through before it."""
USUAL = Faults(latency=0.1, error_share=0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How large it is. `rate` is in turns a second, `concurrency` evaluations a worker has under way at most.

    `keep` is a folder for what the workers say and export, to look into afterwards. `static` workers have names that
    outlive their processes.
    """

    turns: int
    rate: float
    workers: int = 3
    concurrency: int = 32
    faults: Faults = USUAL
    seed: int = 1
    keep: Path | None = None
    static: bool = True
    session: float = 45.0
    """Seconds until a worker that stands still loses its partitions."""
    entry: Callable[[Sequence[str], str], None] = evalstream
    deferred: bool = False
    """Whether a fifth of the traffic has an evaluator more, whose judge is asked in batches."""
    sink: bool = False
    """Whether evaluations are exported over OTLP, too, to an endpoint that counts them."""


@dataclass(slots=True)
class Cluster:
    """Everything that runs, and what was done to it."""

    setup: Setup
    broker: Broker
    judge: CountedJudge
    workers: list[Worker]
    ledger: LedgerWatch
    chance: random.Random
    kills: list[Kill] = field(default_factory=list[Kill])
    ends: list[Kill] = field(default_factory=list[Kill])
    """Of processes that ended by themselves; when is known to half a second: the last time they were seen."""
    freezes: list[Kill] = field(default_factory=list[Kill])
    """Of workers: what was in flight there timed out, and is asked again, even where no partition moved."""
    interruptions: list[Interruption] = field(default_factory=list[Interruption])
    """Partitions move by them, and what was in flight there is asked again."""
    frozen: set[str] = field(default_factory=set[str])
    broker_restarts: int = 0
    unclean_stops: int = 0
    produced: int = 0
    began: float = field(default_factory=time.monotonic)
    _began: dict[str, float] = field(default_factory=dict[str, float])
    _down: set[str] = field(default_factory=set[str])
    _over: bool = False
    judge_url: str = ""
    batching: BatchingJudge = field(default_factory=BatchingJudge)
    sink: Sink = field(default_factory=Sink)
    logs: Logs | None = None
    audit: list[str] = field(default_factory=list[str])
    """What does not add up in the end, by `evalstream audit --drained`."""

    @property
    def expected(self) -> int:
        return len(self._subjects(self.produced))

    @property
    def share(self) -> float:
        """How much of all evaluations is in the ledger, from 0 to 1."""
        return self.ledger.distinct / len(self._subjects(self.setup.turns))

    def _subjects(self, turns: int) -> set[tuple[str, int]]:
        """The evaluations of so many turns."""
        subjects = {(evaluator, number) for evaluator in EVALUATORS for number in range(turns)}
        patient = {(PATIENT, number) for number in range(turns) if is_patient(number)}
        return subjects | patient if self.setup.deferred else subjects

    @property
    def done(self) -> bool:
        """Whether all of the traffic is in the ledger."""
        return self.produced == self.setup.turns and self.ledger.distinct >= self.expected

    def start(self, worker: Worker) -> None:
        self._began[worker.name] = time.time()
        worker.start()

    async def kill(self, worker: Worker, *, down: float = 0.0) -> None:
        """SIGKILL, and another process in its place after `down` seconds."""
        self._down.add(worker.name)
        was_running, began, at = worker.running, self._began[worker.name], time.time()
        await asyncio.to_thread(worker.kill)
        await asyncio.sleep(down)
        self.start(worker)
        if was_running:
            self.kills.append(Kill(worker.name, began, at, self._began[worker.name]))
        self._down.discard(worker.name)

    async def freeze(self, worker: Worker, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long."""
        self.frozen.add(worker.name)
        began, at = self._began[worker.name], time.time()
        worker.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        worker.send(signal.SIGCONT)
        now = time.time()
        self.freezes.append(Kill(worker.name, began, at, now + LET_THROUGH))
        self.interruptions.append(Interruption(at, now + UNREST))
        self.frozen.discard(worker.name)

    async def freeze_broker(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long; it then takes all members of groups for dead."""
        began = time.time()
        self.broker.pause()
        try:
            await asyncio.sleep(seconds)
        finally:  # also where the run ends meanwhile
            self.broker.go_on()
        self.interruptions.append(Interruption(began, time.time() + UNREST))

    async def replace(self, worker: Worker) -> None:
        """SIGTERM, and another process in its place."""
        self._down.add(worker.name)
        self.unclean_stops += await asyncio.to_thread(worker.stop) not in IN_ORDER
        self.start(worker)
        self._down.discard(worker.name)

    async def restart_broker(self, *, kill: bool = False, away: float = 0.0) -> None:
        began = time.time()
        await asyncio.to_thread(self.broker.kill if kill else self.broker.stop)
        await asyncio.sleep(away)
        await asyncio.to_thread(self.broker.start)
        self.interruptions.append(Interruption(began, time.time() + UNREST))
        self.broker_restarts += 1

    async def supervise(self) -> None:
        """Start again what has ended by itself, as whoever runs services does."""
        seen: dict[str, float] = {}
        while True:
            for worker in self.workers:
                if worker.running:
                    seen[worker.name] = time.time()
                elif worker.name not in self._down and not self._over:
                    began = self._began[worker.name]
                    self.start(worker)
                    at = max(began, seen.get(worker.name, began))
                    self.ends.append(Kill(worker.name, began, at, self._began[worker.name]))
                    if len(self.ends) > HOPELESS:
                        raise RuntimeError(f"{worker.name} ends again and again; it said: {worker.said()}")
            await asyncio.sleep(0.5)

    async def assembled(self, within: float = 90.0) -> None:
        """Wait until every worker has its share: what moves at the start is no fault that anybody makes."""
        async with asyncio.timeout(within):
            while not await asyncio.to_thread(_all_have_a_share, self.broker.bootstrap, len(self.workers)):
                await asyncio.sleep(0.3)

    async def watch(self) -> None:
        while True:
            await self.ledger.look()
            await asyncio.sleep(0.5)

    async def produce(self) -> None:
        """Send the traffic at its rate, however the broker is; what is not acknowledged is sent again."""
        begin, producer = time.monotonic(), None
        for first in range(0, self.setup.turns, PER_MESSAGE):
            numbers = range(first, min(first + PER_MESSAGE, self.setup.turns))
            producer = await asyncio.to_thread(self._send, producer, request(numbers))
            self.produced = numbers[-1] + 1
            await asyncio.sleep(max(0.0, begin + self.produced / self.setup.rate - time.monotonic()))
        await asyncio.to_thread(producer.close)

    def _send(self, producer: Any, value: bytes) -> Any:
        while True:
            try:
                producer = producer or KafkaProducer(bootstrap_servers=self.broker.bootstrap, acks="all")
                producer.send(f"{PREFIX}.{SOURCE}", value).get(20)
            except (KafkaError, TimeoutError):
                if producer is not None:
                    abandon(producer)
                producer = None
                time.sleep(0.5)
            else:
                return producer

    async def finished(self, within: float) -> bool:
        """Wait until all of the traffic is in the ledger; False if it is not in time."""
        give_up_at = time.monotonic() + within
        while not self.done and time.monotonic() < give_up_at:
            await asyncio.sleep(0.2)
        return self.done

    async def drain(self, within: float) -> None:
        """Let the exporters have what is in the ledger, and the audit find nothing, then stop all workers.

        Audited before and after: what the last of them append while the others have stopped is read by nobody.
        """
        give_up_at = time.monotonic() + within
        while True:
            self.audit = await problems_of(self.workers[0].config)
            if not (self.audit or self._not_exported()) or time.monotonic() >= give_up_at:
                break
            await asyncio.sleep(0.5)
        self._over = True
        statuses = await asyncio.gather(*(asyncio.to_thread(each.stop) for each in self.workers))
        await self.ledger.look()
        self.unclean_stops += sum(status not in IN_ORDER for status in statuses)
        self.audit = self.audit or without_unread(await problems_of(self.workers[0].config))

    def _not_exported(self) -> set[str]:
        """What is in the ledger, and was not exported to each destination."""
        written = set(self.ledger.written)
        missing = written - set(exports(self.workers))
        return missing | (written - set(self.sink.taken)) if self.setup.sink else missing

    def figures(self) -> Figures:
        keys = self._subjects(self.produced)
        ledger, exported = self.ledger, exports(self.workers)
        again, in_flight, unexplained = repeated(
            [*self.kills, *self.ends, *self.freezes], self.interruptions, self.judge, ledger, JUDGED
        )
        if self.setup.keep is not None:
            self._write_details(self.setup.keep, sorted(keys - set(ledger.subjects)), unexplained)
        return Figures(
            turns=self.produced,
            workers=len(self.workers),
            seconds=round(time.monotonic() - self.began, 1),
            sigkills=len(self.kills),
            broker_restarts=self.broker_restarts,
            ended_by_themselves=len(self.ends),
            expected=len(keys),
            missing=len(keys - set(ledger.subjects)),
            written_twice=sum(number - 1 for number in ledger.written.values()),
            other_ids=sum(len(ids) > 1 for ids in ledger.subjects.values()),
            strangers=ledger.strangers,
            not_scored=sum(number for (_, outcome), number in ledger.outcomes.items() if outcome != "scored"),
            judge_calls=len(self.judge.asked),
            judge_failures=sum(call.failed for call in self.judge.asked),
            judged_again=again,
            in_flight=in_flight,
            judged_again_without_a_kill=len(unexplained),
            exported_lines=sum(exported.values()),
            exports_missing=len(self._not_exported()),
            unclean_stops=self.unclean_stops,
            audit=tuple(self.audit),
            deferred=sum(name == PATIENT for name, _ in keys),
            batches=len(self.batching.batches),
            in_batches=self.batching.submitted.total(),
            in_batches_again=self.batching.submitted_again,
            outside_of_batches=self.batching.at_once.total(),
            outside_again=self.batching.at_once_again,
            faults=len(self.kills) + len(self.ends) + len(self.freezes) + len(self.interruptions),
        )

    def _write_details(self, folder: Path, missing: list[tuple[str, int]], unexplained: list[int]) -> None:
        """Where to look: which evaluations are missing or there twice, and who asked what when."""
        wrong = {number for _, number in missing} | set(unexplained)
        details = {
            "missing": missing,
            "written_twice": [each for each, number in self.ledger.written.items() if number > 1],
            "unexplained": unexplained,
            "calls": [asdict(call) for call in self.judge.asked if call.number in wrong],
            "written_at": {number: self.ledger.at.get((JUDGED, number)) for number in wrong},
            "kills": [asdict(each) for each in [*self.kills, *self.ends]],
            "interruptions": [asdict(each) for each in self.interruptions],
            "partitions": {number: self.ledger.partitions.get(number) for number in wrong},
            "claims": self.ledger.claims,
        }
        (folder / "details.json").write_text(json.dumps(details, indent=1))


async def until_drained(config: Path, within: float = 60.0) -> None:
    """Wait, while the service runs, until the audit finds nothing: exporters may be a moment behind the ledger.

    What they have not read when the service is stopped is left to its next start, as it should be, and an audit says so.
    """
    give_up_at = time.monotonic() + within
    while problems := await problems_of(config):
        assert time.monotonic() < give_up_at, f"the service has not come to its end after {within:.0f} s: {problems}"
        await asyncio.sleep(0.2)


def without_unread(problems: Sequence[str]) -> list[str]:
    """What does not add up besides what the last of several workers appended while the others had stopped."""
    return [each for each in problems if " not read by " not in each]


async def problems_of(config: Path) -> list[str]:
    """What `evalstream audit` says does not add up, once the service has finished its work."""
    reports: list[str] = []
    await audit(load(config), reports.append, drained=True, json=True)
    return json.loads(reports[0])["problems"]


def configuration(
    name: str, bootstrap: str, judge: str, concurrency: int, *, static: bool = True, session: float = 45.0
) -> dict[str, Any]:
    """What one worker runs with."""
    instance = name if static else None
    source = {"bootstrap_servers": [bootstrap], "traces": [f"{PREFIX}.{SOURCE}"], "group": f"{PREFIX}.receive"}
    return {
        "log": log_settings(bootstrap, instance, session),
        "receive": {"kafka": [source | {"group_instance_id": instance}]},
        "assemble": {"idle_timeout": "500ms", "allowed_lateness": "10s"},
        "judges": {
            "main": {
                "model": "m", "base_url": judge, "api_key": name, "top_logprobs": 0, "timeout": "10s",
                "concurrency": concurrency,
            }
        },
        "evaluators": {
            "helpful": {
                "kind": "g_eval",
                "evaluation_steps": ["Say whether the actual output answers the input."],
                "evaluation_params": ["input", "actual_output"],
            },
            "brief": {"kind": "length", "maximum": 100},
        },
        "evaluate": {"concurrency": concurrency, "snapshot_after_turns": 30},
        "monitors": {"all": {"evaluators": list(EVALUATORS), "idle_timeout": "5s", "allowed_lateness": "5s"}},
    }  # fmt: skip


def log_settings(bootstrap: str, name: str | None = None, session: float = 45.0) -> dict[str, Any]:
    kafka = {
        "bootstrap_servers": [bootstrap],
        "prefix": PREFIX,
        "partitions": PARTITIONS,
        "group_instance_id": name,
        "session_timeout": session,
    }
    return {"kind": "kafka", "kafka": kafka}


def with_batches(config: dict[str, Any], url: str) -> dict[str, Any]:
    """The configuration with a monitor whose evaluations may wait."""
    batching = {**config["judges"]["main"], "base_url": url}
    helpful = config["evaluators"]["helpful"]
    polite = {**helpful, "judge": "batching", "evaluation_steps": ["Say whether the actual output is polite."]}
    monitor = {"evaluators": [PATIENT], "urgency": "hours", "match": {"model": PATIENT_MODEL}}
    changed = {
        "judges": {**config["judges"], "batching": batching},
        "evaluators": {**config["evaluators"], "helpful": {**helpful, "judge": "main"}, PATIENT: polite},
        "evaluate": {**config["evaluate"], "gather": "1s"},
        "monitors": {**config["monitors"], "patient": {**config["monitors"]["all"], **monitor}},
    }
    return json.loads(json.dumps(config | changed))  # YAML would name what is there twice


def _all_have_a_share(bootstrap: str, workers: int) -> bool:
    """Whether in each group every partition is assigned, and every worker has some."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        described = admin.describe_groups(list(GROUPS)).values()
    except KafkaError:  # there is no such group yet
        return False
    finally:
        admin.close()
    return all(_shares(group) == sorted([PARTITIONS // workers] * workers) for group in described)


def _shares(group: Any) -> list[int]:
    """How many partitions each member of a group has."""
    return sorted(
        sum(len(topic["partitions"]) for topic in member["member_assignment"]["assigned_partitions"])
        for member in group["members"]
        if member["member_assignment"]
    )


def _make_source(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({f"{PREFIX}.{SOURCE}": {"num_partitions": PARTITIONS, "replication_factor": 1}})
    admin.close()


def _worker_configuration(setup: Setup, name: str, bootstrap: str, judge: str, batches: str | None) -> dict[str, Any]:
    config = configuration(name, bootstrap, judge, setup.concurrency, static=setup.static, session=setup.session)
    return config if batches is None else with_batches(config, batches)


@asynccontextmanager
async def cluster(setup: Setup) -> AsyncIterator[Cluster]:
    """Broker, judge and workers, all running; gone on leaving."""
    with tempfile.TemporaryDirectory(prefix="evalstream-chaos-") as temporary, running_broker() as broker:
        folder = setup.keep or Path(temporary)
        judge = CountedJudge(setup.faults)
        await asyncio.to_thread(_make_source, broker.bootstrap)
        settings = LogSettings.model_validate(log_settings(broker.bootstrap))
        sink, batching = Sink(), BatchingJudge()
        async with (
            serve_judge(judge) as url,
            open_logs(settings) as logs,
            sink.served() as endpoint,
            TestServer(batching.application()) as provider,
        ):
            batches = f"http://127.0.0.1:{provider.port}/v1" if setup.deferred else None
            otlp = {"otlp": {"endpoint": endpoint, "spans": False}} if setup.sink else {}
            workers = [
                Worker(
                    folder / name,
                    name,
                    _worker_configuration(setup, name, broker.bootstrap, url, batches) | {"export": otlp},
                    "--stages",
                    "receive,assemble,evaluate,export",
                    entry=quick_batches if setup.deferred else setup.entry,
                )
                for name in (f"worker-{number}" for number in range(setup.workers))
            ]
            ledger = LedgerWatch(logs.evaluations, setup.turns)
            running = Cluster(
                setup, broker, judge, workers, ledger, random.Random(setup.seed), batching=batching, sink=sink,
                logs=logs, judge_url=url,
            )  # fmt: skip
            try:
                for each in workers:
                    running.start(each)
                await running.assembled()
                running.began = time.monotonic()
                async with asyncio.TaskGroup() as tasks:
                    mine = [
                        tasks.create_task(each) for each in (running.produce(), running.watch(), running.supervise())
                    ]
                    yield running
                    for task in mine:
                        task.cancel()
            finally:
                for each in workers:
                    if each.running:
                        await asyncio.to_thread(each.kill)
