"""`evalstream log copy` with real files and a real broker: a deployment moves, is killed on the way, and comes back.

Evaluations are pending, conversations and traces are open. Nothing is judged twice, nothing is lost, and
weights are what they were.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from kafka import KafkaAdminClient, KafkaProducer
from kafka_logs import fresh
from log_doubles import stored
from made_up import Trace
from otlp_destination import Destination
from past_world import until_drained
from plan_histories import OnePlan
from running_service import ledger, put, value
from service import free_port
from stand_in_judge import StandInJudge, serve_judge
from typer.testing import CliRunner

from collector.assemble.open_traces import TraceLimits
from collector.cli import app
from collector.commands.log_copy import log_copy
from collector.commands.log_copy.copying import LogCopy
from collector.config.configured import Config
from collector.config.loading import load
from collector.dead_letters import append_letters, letter_of, letters_in
from collector.errors import BadInput, ConfigError
from collector.evaluate.plan import Plan
from collector.logs.kafka import KafkaLog
from collector.logs.log import TICK, Committed, Log, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.epochs import claim_record, stamped
from collector.records.judged_spans import EVALUATION, SPAN
from collector.service.app import Running, running
from collector.service.open_logs import NAMES, Logs, names_of

STAGES = ("assemble", "evaluate", "export")

WHOLE = ("hold a whole copy already", "a copy gets its name once it is whole")
"""What is said of topics, and of a file, that were copied to the end."""


class Move:
    """A deployment with several homes, each with a configuration of its own. One of its judges is out until served."""

    def __init__(self, folder: Path, url: str) -> None:
        self.port = free_port()
        self.folder = folder
        self._url = url

    def home(self, name: str, log: dict[str, Any], **more: Any) -> Path:
        judged = {"kind": "g_eval", "evaluation_params": ["input", "actual_output"], "evaluation_steps": ["Look."]}
        breaker = {"failures": 3, "first_wait": "100ms", "longest_wait": "200ms"}
        values = {
            "log": log,
            "receive": {"otlp_http": None},
            "assemble": {"idle_timeout": 2, "allowed_lateness": 10},
            "judges": {
                "out": {"model": "m", "base_url": f"http://127.0.0.1:{self.port}/v1", "breaker": breaker},
                "up": {"model": "m", "base_url": self._url},
            },
            "evaluators": {
                "waits": {**judged, "judge": "out"},
                "goes": {**judged, "judge": "up"},
                "whole": {"kind": "turn_relevancy", "judge": "up"},
            },
            "monitors": {
                "all": {
                    "evaluators": ["waits", "goes", "whole"],
                    "sample": 0.8,
                    "idle_timeout": 8,
                    "allowed_lateness": 2,
                }
            },
            "evaluate": {"max_waiting": 1000, "shutdown_grace": 0},
            "export": {"jsonl": {"path": str(self.folder / "scores.jsonl")}},
            **more,
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(values))
        return path

    def sqlite(self, name: str) -> Path:
        return self.home(name, {"kind": "sqlite", "path": str(self.folder / f"{name}.db")})

    def kafka(self, name: str, broker: Any, partitions: int) -> Path:
        kafka = {
            "bootstrap_servers": [broker.bootstrap], "prefix": fresh(name), "partitions": partitions,
            "replication_factor": 1, "session_timeout": 6,
        }  # fmt: skip
        return self.home(name, {"kind": "kafka", "kafka": kafka})


async def send_spans(service: Running, numbers: range) -> None:
    """Traces of one piece, which are open until they have been quiet for two seconds."""
    for number in numbers:
        trace_id = f"{number:032x}"
        trace = Trace(trace_id, start=time.time_ns()).span(
            1, "chat", {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                "gen_ai.conversation.id": f"traced-{number % 5}",
                "gen_ai.input.messages": f'[{{"role":"user","parts":[{{"type":"text","content":"Question {number}?"}}]}}]',
                "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"An answer."}]}]',
            },
        )  # fmt: skip
        await service.logs.spans.append(
            [Record(trace_id.encode(), trace.spans.SerializeToString(), (("signal", b"traces"),))]
        )


async def until(condition: Any, seconds: float = 90) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.1)


def copy(config: Path, to: Path) -> Result:
    return CliRunner().invoke(app, ["log", "copy", "-c", str(config), "--to", str(to)])


async def copied(config: Path, to: Path) -> Result:
    return await asyncio.to_thread(copy, config, to)


async def copied_and_killed(config: Path, to: Path, chance: random.Random) -> bool:
    """Kill copies later and later; whether one was quick enough to become whole."""
    for delay in (1.2, 1.6, 2.0, 2.5, chance.uniform(1.5, 4.0)):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "collector.cli", "log", "copy", "-c", str(config), "--to", str(to),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, env=dict(os.environ),
        )  # fmt: skip
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                return await process.wait() == 0
        process.kill()
        await process.wait()
    return False


def lines(folder: Path) -> list[str]:
    return [each.split('"evaluation_id":"')[1][:32] for each in (folder / "scores.jsonl").read_text().splitlines()]


async def drained(service: Running) -> bool:
    log = service.logs.turns
    ends = {each: await log.end_offset(each) for each in range(log.partitions)}
    gauges = ("evalstream_evaluations_in_flight", "evalstream_open_conversations", "evalstream_open_traces")
    return (
        all(value(service, each) == 0 for each in gauges)
        and {number: each.offset for number, each in (await log.committed("evaluate")).items()} == ends
    )


async def live(config: Path, turns: range, spans: range, following: Path) -> None:
    """A life: turns and spans come, one judge answers, one does not; it ends with traces and conversations open.

    While it lasts, nothing can be copied to what follows.
    """
    async with running(load(config), STAGES) as service:
        before = len(await ledger(service))
        await put(service, turns, 10)
        await send_spans(service, spans)

        async def judged() -> bool:
            return len(await ledger(service)) > before + 10 and value(service, "evalstream_evaluations_in_flight") > 10

        await until(judged)
        refused = await copied(config, following)
        assert "stop all processes of the service" in str(refused.exception)
        await asyncio.sleep(2.5)
        await send_spans(service, range(spans.stop, spans.stop + 5))
        await asyncio.sleep(0.7)


async def move(homes: Sequence[Path], move: Move, judge: StandInJudge, *, kill: bool) -> None:
    everything: set[tuple[str, float]] = set()
    chance = random.Random(7)
    for number, (home, following) in enumerate(pairwise(homes)):
        await live(home, range(number * 40, number * 40 + 40), range(number * 20 + 1, number * 20 + 16), following)
        async with running(load(home), ("watch",)) as service:
            everything |= {(each.evaluation_id, each.sampling.probability) for each in await ledger(service)}
        asked = judge.calls
        if not (kill and await copied_and_killed(home, following, chance)):
            result = await copied(home, following)
            whole = any(each in str(result.exception) for each in WHOLE)  # the last kill came when all was done
            assert result.exit_code == 0 or whole, (result.output, result.exception)
        again = await copied(home, following)
        assert "already" in str(again.exception), "it is not copied over"
        assert judge.calls == asked
        async with running(load(following), ("watch",)) as service:
            after = {(each.evaluation_id, each.sampling.probability) for each in await ledger(service)}
        assert after == everything, "with the same weights"
    number = len(homes)
    async with serve_judge(port=move.port), running(load(homes[-1]), STAGES) as service:
        await put(service, range(number * 40, number * 40 + 10), 10)

        async def done() -> bool:
            return await drained(service)

        await until(done)
        found = await ledger(service)
        await until_drained(homes[-1])
    assert max(Counter(each.evaluation_id for each in found).values()) == 1
    assert everything <= {(each.evaluation_id, each.sampling.probability) for each in found}
    config: Config = load(homes[-1])
    assert config
    sampled = {each.subject.conversation_id for each in found}
    for evaluator in ("waits", "goes"):
        turns = Counter(each.subject.turn_id for each in found if each.evaluator == evaluator)
        assert max(turns.values()) == 1
        expected = {f"t{n}" for n in [*range((number - 1) * 40), *range(number * 40, number * 40 + 10)] if f"c{n % 10}" in sampled}  # fmt: skip
        assert {each for each in turns if each.startswith("t")} == expected
        traced = {f"traced-{n % 5}": 0 for n in range(5)}
        assert len([each for each in turns if not each.startswith("t")]) == sum(
            20 * (number - 1) // 5 for each in traced if each in sampled
        )
    exported = lines(move.folder)
    assert set(exported) == {each.evaluation_id for each in found}
    assert max(Counter(exported).values()) <= 2


@pytest.mark.long
async def test_from_one_file_to_another(tmp_path: Path) -> None:
    judge = StandInJudge()
    async with serve_judge(judge) as url:
        deployment = Move(tmp_path, url)
        await move([deployment.sqlite("old"), deployment.sqlite("new")], deployment, judge, kill=False)


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(400)
async def test_to_kafka_between_partitions_and_back(tmp_path: Path, kafka_broker: Any) -> None:
    judge = StandInJudge()
    async with serve_judge(judge) as url:
        deployment = Move(tmp_path, url)
        homes = [
            deployment.sqlite("old"),
            deployment.kafka("two", kafka_broker, 2),
            deployment.kafka("four", kafka_broker, 4),
            deployment.sqlite("back"),
        ]
        await move(homes, deployment, judge, kill=True)


class Interrupted(Exception):
    """Stands for the end of a process at one of its steps."""


STEPS = ((KafkaLog, "append"), (KafkaAdminClient, "delete_records"), (KafkaAdminClient, "alter_configs"))


def interrupt_at(patch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Have the next step fail before it does anything, once `number` were done; the list gets the steps."""
    done: list[str] = []

    def interrupting(name: str, original: Any) -> Any:
        def step(*args: Any, **options: Any) -> Any:
            if len(done) == number:
                raise Interrupted
            done.append(name)
            return original(*args, **options)

        return step

    for owner, name in STEPS:
        patch.setattr(owner, name, interrupting(name, getattr(owner, name)))
    return done


@pytest.mark.kafka
async def test_a_copy_into_topics_that_is_interrupted_at_any_step_can_be_run_again(
    tmp_path: Path, kafka_broker: Any
) -> None:
    deployment = Move(tmp_path, "http://127.0.0.1:9/v1")
    old, new = deployment.sqlite("old"), deployment.kafka("new", kafka_broker, 2)
    async with running(load(old), ("watch",)) as service:
        await put(service, range(20), 4)
        await send_spans(service, range(1, 9))
    whole, steps, number = False, list[str](), 0
    while not whole:
        with pytest.MonkeyPatch.context() as patch:
            steps = interrupt_at(patch, number)
            result = await copied(old, new)
        whole = result.exit_code == 0
        assert whole or isinstance(result.exception, Interrupted), (steps, result.exception)
        number += 1
    assert set(steps) == {name for _, name in STEPS}
    assert steps.count("append") > 3, "of several logs"
    async with running(load(new), ("watch",)) as service:
        log = service.logs.turns
        turns = [
            each for number in range(2) async for batch in log.read(number, 0) for each in batch if not each.headers
        ]
    assert len({each.value for each in turns}) == len(turns) == 20


async def test_scores_that_wait_for_their_destination_go_out_on_their_spans_after_the_copy(tmp_path: Path) -> None:
    """Also those that come after the copy: the spans that they belong to are remembered by the log alone."""
    destination, port = Destination(), free_port()
    deployment = Move(tmp_path, "http://127.0.0.1:9/v1")
    more: dict[str, Any] = {
        "judges": {},
        "evaluators": {"short": {"kind": "length", "maximum": 100}},
        "monitors": {"all": {"evaluators": ["short"]}},
        "export": {"spans": {"otlp": {"endpoint": f"http://127.0.0.1:{port}"}}},
    }
    old, new = [
        deployment.home(each, {"kind": "sqlite", "path": str(tmp_path / f"{each}.db")}, **more)
        for each in ("old", "new")
    ]
    async with running(load(old), STAGES) as service:
        await send_spans(service, range(1, 7))
        log = service.logs.judged_spans
        assert log is not None

        async def all_wait() -> bool:
            return len(await records_of(log)) == 12

        await until(all_wait)
        await asyncio.sleep(1.5)  # the exporter commits
    result = await copied(old, new)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "The copy is whole, and its audit adds up. Next: evalstream run" in result.output
    assert "judged_spans  12 records" in result.output
    audited = await asyncio.to_thread(CliRunner().invoke, app, ["audit", "-c", str(new), "--drained"])
    assert audited.exit_code == 1
    assert "records of the judged_spans log are not read by judged_spans" in audited.output
    async with destination.serve(port), running(load(new), STAGES):

        async def all_are_out() -> bool:
            return len({each.trace_id for each in destination.spans}) == 6

        await until(all_are_out)
        await until_drained(new)
    assert all(any("short.score" in each.key for each in span.attributes) for span in destination.spans)


async def test_remembered_spans_lie_with_their_evaluations_in_other_partitions() -> None:
    """Two of ten spans are still remembered, and the evaluations of the last five are not out."""
    source, target = [
        Logs(**{name: MemoryLog(name, each) for name in names_of(linking=False, judged_spans=True)}) for each in (1, 3)
    ]
    log, copied_log = source.judged_spans, target.judged_spans
    assert log is not None
    assert copied_log is not None
    for number in range(10):
        await log.append([Record(b"trace %d" % number, b"span", SPAN)])
    for number in range(10):
        await log.append([Record(b"trace %d" % number, b"evaluation", EVALUATION)])
    await log.set_committed("judged_spans", {0: Committed(8, 15)})
    copying = LogCopy(Plan(()), TraceLimits(), (), source, target, 1_000.0, OnePlan())
    await copying.run()
    await copying.commit()
    committed = await copied_log.committed("judged_spans")
    replayed, unread = set[Any](), set[Any]()
    for partition, state in committed.items():
        for record in [each async for batch in copied_log.read(partition, 0) for each in batch]:
            if state.low_watermark <= record.offset < state.offset:
                replayed.add((record.key, record.value))
            elif record.offset >= state.offset:
                unread.add((record.key, record.value))
    assert {(b"trace %d" % each, b"span") for each in (8, 9)} <= replayed
    assert unread == {(b"trace %d" % each, b"evaluation") for each in range(5, 10)}


async def records_of(log: Log) -> list[StoredRecord]:
    return [each async for batch in log.read(0, 0) for each in batch]


@pytest.mark.kafka
async def test_positions_in_a_source_topic_go_along(tmp_path: Path, kafka_broker: Any) -> None:
    """Its groups are named by the prefix of the logs, which is another one afterwards."""
    deployment, topic = Move(tmp_path, "http://127.0.0.1:9/v1"), fresh("otlp_spans")
    await asyncio.to_thread(make_topic, kafka_broker, topic)
    receive = {"otlp_http": None, "kafka": [{"bootstrap_servers": [kafka_broker.bootstrap], "traces": [topic]}]}
    kafka = {"bootstrap_servers": [kafka_broker.bootstrap], "prefix": fresh("moved"), "partitions": 2, "replication_factor": 1}  # fmt: skip
    old = deployment.home("old", {"kind": "sqlite", "path": str(tmp_path / "old.db")}, receive=receive)
    new = deployment.home("new", {"kind": "kafka", "kafka": kafka}, receive=receive)
    await asyncio.to_thread(produce_spans, kafka_broker, topic, range(1, 21))
    async with running(load(old), ("receive",)) as service:

        async def received() -> bool:
            return len(await stored(service.logs.spans)) == 20

        await until(received)
        await asyncio.sleep(1.5)  # it commits
    result = await copied(old, new)
    assert result.exit_code == 0, (result.output, result.exception)
    await asyncio.to_thread(produce_spans, kafka_broker, topic, range(21, 24))
    async with running(load(new), ("receive",)) as service:

        async def all_received() -> bool:
            return len(await stored(service.logs.spans)) >= 23

        await until(all_received)
        await asyncio.sleep(2.0)
        assert len(await stored(service.logs.spans)) == 23, "nothing is read twice"


async def test_positions_of_every_kind_of_topic_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of references and feedback: they would be read from the beginning again."""
    topics = {kind: [f"t.{kind}"] for kind in ("traces", "logs", "turns", "references", "feedback")}
    receive = {"otlp_http": None, "kafka": [{"bootstrap_servers": ["b:9092"], **topics}]}
    deployment, copies = Move(tmp_path, "http://127.0.0.1:9/v1"), []
    kafka = {"bootstrap_servers": ["b:9092"], "prefix": "moved"}
    old = deployment.home("old", {"kind": "sqlite", "path": str(tmp_path / "old.db")}, receive=receive)
    new = deployment.home("new", {"kind": "kafka", "kafka": kafka}, receive=receive)
    monkeypatch.setattr(log_copy, "copy_positions", lambda _settings, *names: copies.append(names))
    await log_copy._copy_source_positions(load(old), load(new))
    assert copies == [(f"moved.{kind}", f"evalstream.{kind}", set(names)) for kind, names in topics.items()]


def make_topic(broker: Any, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
    admin.close()


def produce_spans(broker: Any, topic: str, numbers: range) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    for number in numbers:
        body = Trace(f"{number:032x}", start=time.time_ns()).span(1, "chat").spans.SerializeToString()
        producer.send(topic, body, partition=number % 2).get(20)
    producer.close()


@pytest.mark.kafka
async def test_partitions_that_somebody_has_added_are_not_used_until_that_is_meant(
    tmp_path: Path, kafka_broker: Any
) -> None:
    deployment = Move(tmp_path, "http://127.0.0.1:9/v1")
    two = deployment.kafka("two", kafka_broker, 2)
    values = json.loads(two.read_text())
    async with running(load(two), ("watch",)):
        pass
    prefix = values["log"]["kafka"]["prefix"]
    await asyncio.to_thread(add_partitions, kafka_broker, [f"{prefix}.{name}" for name in NAMES])
    values["log"]["kafka"]["partitions"] = 4
    two.write_text(json.dumps(values))
    with pytest.raises(ConfigError, match="the topics had 2 partitions and have 4: conversations that are open"):
        async with running(load(two), ("watch",)):
            pass
    values["log"]["kafka"]["repartitioned_from"] = 2
    two.write_text(json.dumps(values))
    for _ in range(2):
        async with running(load(two), ("watch",)) as service:
            assert service.logs.turns.partitions == 4


def add_partitions(broker: Any, topics: list[str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_partitions(dict.fromkeys(topics, 4))
    admin.close()


async def test_what_is_in_use_is_not_copied(tmp_path: Path) -> None:
    deployment = Move(tmp_path, "http://127.0.0.1:9/v1")
    old, new = deployment.sqlite("old"), deployment.sqlite("new")
    async with running(load(old), ("evaluate",)):
        result = await copied(old, new)
    assert str(result.exception) == f"{tmp_path / 'old.db'} is in use: stop all processes of the service"
    assert not (tmp_path / "new.db").exists()


async def test_a_target_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    deployment = Move(tmp_path, "http://127.0.0.1:9/v1")
    old, new = deployment.sqlite("old"), deployment.sqlite("new")
    for home in (old, new):
        async with running(load(home), ("watch",)):
            pass
    result = await copied(old, new)
    assert "there is a file" in str(result.exception)
    result = await copied(old, old)
    assert "log.path is the file that is to be copied" in str(result.exception)


@pytest.mark.parametrize("has_page", [True, False])
async def test_a_history_that_is_not_copied_is_named(tmp_path: Path, has_page: bool) -> None:
    """Afterwards the page's share of passes covered all traffic, and nothing had said why."""
    deployment = Move(tmp_path, "http://127.0.0.1:9/v1")
    old, new = deployment.sqlite("old"), deployment.sqlite("new")
    values = json.loads(new.read_text())
    new.write_text(json.dumps({**values, **({"page": {}} if has_page else {})}))
    async with running(load(old), ("watch",)):
        pass
    result = await copied(old, new)
    assert result.exit_code == 0, result.output
    assert ("history       not copied: the page makes it again" in result.output) == has_page


async def test_dead_letters_are_taken_for_no_record_of_the_copy() -> None:
    source, target = [Logs(**{name: MemoryLog(name, partitions) for name in NAMES}) for partitions in (1, 3)]
    for number in range(30):
        await source.turns.append([Record(f"c{number}".encode(), b"turn %d" % number)])
    [record] = [each async for batch in source.turns.read(0, 17) for each in batch][:1]
    one = letter_of("evaluate", "turns", record, BadInput("not a turn"), keep=False)
    redriven = replace(one, letter_id="0" * 16, state="redriven")
    elsewhere = replace(one, letter_id="1" * 16, stage="receive", source="a topic of others")
    await append_letters(source.dead_letters, [one, replace(redriven, state="dead"), redriven, elsewhere])
    copying = LogCopy(Plan(()), TraceLimits(), (), source, target, 1_000.0, OnePlan())
    await copying.run()
    await copying.commit()
    letters = [each async for each in letters_in(target.dead_letters)]
    assert elsewhere in letters
    copied = [each for each in letters if each.source == "turns"]
    assert [each.position for each in copied] == [-1, -1]
    assert {each.letter_id for each in copied}.isdisjoint({one.letter_id, redriven.letter_id})
    assert sorted(each.state for each in copied) == ["dead", "redriven"], "the two records of one letter stay one"


async def test_what_a_former_owner_wrote_is_left_out_and_epochs_end() -> None:
    source, target = [Logs(**{name: MemoryLog(name, 2) for name in NAMES}) for _ in range(2)]
    log = source.evaluations
    for epoch, owner in ((1, "a"), (2, "b")):
        await log.append([claim_record(owner, epoch, 0, 0)])
        await log.append(
            [Record(b"x", stamped(b'{"subject":{"conversation_id":"c"},"by":"%d"}' % epoch, epoch), (), 0)]
        )
    await log.append([Record(b"x", stamped(b'{"subject":{"conversation_id":"c"},"by":"zombie"}', 1), (), 0)])
    copied = await LogCopy(Plan(()), TraceLimits(), (), source, target, 1_000.0, OnePlan()).run()
    values = [each.value async for batch in target.evaluations.read(0, 0) for each in batch]
    assert values == [b'{"subject":{"conversation_id":"c"},"by":"%d"}' % epoch for epoch in (1, 2)]
    [counts] = [each.left_out for each in copied if each.name == "evaluations"]
    assert counts == {"records of former owners": 1, "internal decisions, made again": 2}


@pytest.mark.parametrize("partitions", [1, 3])
async def test_marks_and_states_that_the_copy_makes_are_not_counted_as_copied(partitions: int) -> None:
    """`spans 1,576 records copied; left out: 8 internal time marks` counted six new marks, one a partition."""
    source, target = [Logs(**{name: MemoryLog(name, count) for name in NAMES}) for count in (2, partitions)]
    for number in range(10):
        await source.turns.append([Record(b"c%d" % number, b"turn")])
        await source.spans.append([Record(b"c%d" % number, b"", (("signal", b"traces"),))])
    await source.spans.append([Record(None, b"", TICK, number) for number in range(2)])
    await source.definitions.append([Record(b"steps", b"Look.", partition=0)])
    await append_letters(
        source.dead_letters,
        [letter_of("evaluate", "turns", StoredRecord(0, 0, 0.0, b"c", b"turn"), BadInput("x"), keep=False)],
    )
    for log, group in ((source.spans, "assemble"), (source.turns, "evaluate")):
        await log.set_committed(group, {number: Committed(at, at) for number, at in enumerate(await log_ends(log))})
    copied = await LogCopy(Plan(()), TraceLimits(), (), source, target, 1_000.0, OnePlan()).run()
    counts = {each.name: each.copied for each in copied if each.copied}
    assert counts == {"spans": 10, "turns": 10, "definitions": 1, "dead_letters": 1}
    written = [sum(await log_ends(log)) for log in (target.spans, target.turns)]
    assert written == [10 + partitions, 10 + partitions], "a mark or a state in each partition"


async def log_ends(log: Log) -> list[int]:
    return [await log.end_offset(number) for number in range(log.partitions)]
