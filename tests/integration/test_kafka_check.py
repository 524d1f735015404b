"""`check` on a secured cluster says what `run` would: the same sentence, and status 2."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
from broker import Broker, free_ports
from broker_security import grant, revoke
from kafka import KafkaAdminClient
from kafka_logs import fresh
from test_kafka_security import TOPIC_RIGHTS, user_of
from typer.testing import CliRunner

from collector.cli import app
from collector.commands.erase.erase import EraseOptions, erase
from collector.commands.log_copy.log_copy import copy_logs
from collector.config.loading import load
from collector.errors import ConfigError
from collector.logs.kafka.topics import delete, empty, set_timestamps, states
from collector.logs.log import LogRefused
from collector.records.turns import turn_record
from collector.service.app import running
from collector.service.kafka_settings import settings_of_log
from collector.service.open_logs import NAMES, names_of, open_logs
from collector.telemetry.registry import Telemetry
from collector.wording import listed
from evaluators.cases import Turn

pytestmark = pytest.mark.kafka


class Cluster(NamedTuple):
    broker: Broker
    user: str
    name: str

    def grant(self, kind: str, name: str, *rights: str) -> None:
        grant(self.broker.bootstrap, self.user, kind, name, *rights)

    def make(self, topic: str, partitions: int, **configs: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})
        admin.close()

    def topics(self, *, without: str | None = None) -> list[str]:
        """Those of the prefix; with `without`, all but this one are deleted."""
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        there = sorted(topic for topic in admin.list_topics() if topic.startswith(f"{self.name}."))
        if without is not None:
            admin.delete_topics([topic for topic in there if topic != f"{self.name}.{without}"])
        admin.close()
        return there

    def file(self, folder: Path, *, source: str | None = None, **log: Any) -> Path:
        assert self.broker.certificates is not None
        security = {
            "protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": self.user, "password": "x",
            "ca": str(self.broker.certificates.ca),
        }  # fmt: skip
        servers = {"bootstrap_servers": [self.broker.secure]}
        config = {
            "log": {"kind": "kafka", "kafka": {**servers, "prefix": self.name, "security": security, **log}},
            "receive": {"kafka": [{**servers, "traces": [source], "security": security}] if source else []},
            "evaluators": {"brief": {"kind": "length", "maximum": 1000}},
            "monitors": {"all": {"evaluators": ["brief"]}},
        }
        path = folder / "evalstream.yaml"
        path.write_text(json.dumps(config))
        return path


@pytest.fixture
def cluster(secured_broker: Broker) -> Cluster:
    made = Cluster(secured_broker, user_of(secured_broker, "x"), fresh("checked"))
    made.grant("GROUP", f"{made.name}.", "READ")
    return made


def said(path: Path, *options: str) -> str:
    """What `check` refuses; status 2 is what the command line makes of this error. Empty if it is valid."""
    done = CliRunner().invoke(app, ["check", "-c", str(path), *options])
    assert done.exit_code == 0 or isinstance(done.exception, ConfigError), done.output
    return str(done.exception or "")


async def refused_at_the_start(path: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        async with open_logs(load(path).settings.log):
            pass
    return str(refused.value).removeprefix("log: ")


async def test_what_a_start_refuses_of_the_logs_is_a_mistake(cluster: Cluster, tmp_path: Path) -> None:
    """It was valid, with a line on the state of the topics at most."""
    cluster.grant("TOPIC", f"{cluster.name}.", "READ", "WRITE", "DESCRIBE_CONFIGS")
    path = cluster.file(tmp_path)
    sentence = said(path)
    assert f"Kafka does not permit this user CREATE of the topic {cluster.name}.dead_letters, " in sentence
    assert sentence.endswith(
        ": grant it, and READ, WRITE, DESCRIBE_CONFIGS (not checked before the topics exist); "
        "or create each by hand with 16 partitions and the settings in deploy/docs/kafka.md"
    )
    assert said(cluster.file(tmp_path, replication_factor=3)).endswith("replication_factor: 3; write 1, or add brokers")
    cluster.grant("TOPIC", f"{cluster.name}.", "CREATE")
    assert said(cluster.file(tmp_path)) == "", "nothing is made by looking"
    missing = fresh("missing")
    path = cluster.file(tmp_path, replication_factor=3, source=missing)
    of_log, of_source = said(path).splitlines()
    copies = "the cluster has 1 broker, too few for log.kafka.replication_factor: 3; write 1, or add brokers"
    assert of_log == f"{path}: log: {copies}"
    assert f"receive.kafka[0]: there is no topic {missing}" in of_source, "it came in the next run"
    assert await refused_at_the_start(path) in said(path)
    cluster.make(f"{cluster.name}.spans", 4)
    path = cluster.file(tmp_path)
    assert f"the topic {cluster.name}.spans has 4 partitions, not 16" in said(path)
    assert await refused_at_the_start(path) in said(path)
    assert said(path, "--offline") == ""
    assert said(path, "--json") == said(path)


def test_topics_with_other_partitions_than_the_rest_have_a_remedy_that_ends(cluster: Cluster, tmp_path: Path) -> None:
    """For one topic of seven, check said to set its number of partitions; with that, it said so of the other six."""
    cluster.grant("TOPIC", f"{cluster.name}.", "READ", "WRITE", "DESCRIBE_CONFIGS")
    fit = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "17825792"}
    *most, odd = [name for name in NAMES if name != "definitions"]
    for name in most[1:]:
        cluster.make(f"{cluster.name}.{name}", 4, **fit)
    cluster.make(f"{cluster.name}.{odd}", 3, **fit)
    lacking = said(cluster.file(tmp_path, partitions=16))
    assert "or create each by hand with 4 partitions and the settings in deploy/docs/kafka.md" in lacking
    assert f"; the topic {cluster.name}.{odd} has 3 partitions, not 4 as the others" in lacking, "also while one lacks"
    cluster.grant("TOPIC", f"{cluster.name}.", "CREATE")
    sentence = (
        f"the topic {cluster.name}.{odd} has 3 partitions, not 4 as the others: if empty, delete and create again"
    )
    several = f"the topics {listed(f'{cluster.name}.{name}' for name in sorted(most[1:]))} have 4 partitions, not 3: "
    for partitions in (4, 3):
        refused = said(cluster.file(tmp_path, partitions=partitions)).partition(": log: ")[2].split("; ")
        assert [part for part in refused if "partitions, not" in part] == [
            f"{sentence} with 4, or use another log.kafka.prefix",
            *[f"{several}set log.kafka.partitions: 4, or use another log.kafka.prefix"] * (partitions == 3),
        ]


def test_topics_that_may_not_be_seen_do_not_hide_the_mistakes_of_others(cluster: Cluster, tmp_path: Path) -> None:
    cluster.grant("TOPIC", f"{cluster.name}.", "CREATE")
    for name in NAMES:
        cluster.make(f"{cluster.name}.{name}", 1)
    cluster.grant("TOPIC", f"{cluster.name}.turns", *TOPIC_RIGHTS)
    sentence = said(cluster.file(tmp_path, partitions=3))
    assert f"does not permit this user READ, WRITE of the topic {cluster.name}." in sentence
    assert f"; the topic {cluster.name}.turns has 1 partition, not 3" in sentence


def test_all_that_is_not_permitted_is_said_at_once(secured_broker: Broker, tmp_path: Path) -> None:
    """One right came for each attempt: first of a group, then of the topics, then of a source."""
    cluster = Cluster(secured_broker, user_of(secured_broker, "x"), fresh("checked"))
    source = fresh("seen")
    cluster.make(source, 1)
    cluster.grant("TOPIC", source, "DESCRIBE")
    assert [
        line.partition(": ")[2].partition(", ")[0] for line in said(cluster.file(tmp_path, source=source)).splitlines()
    ] == [
        f"log: Kafka does not permit this user to use the group {cluster.name}.assemble; grant this user READ of groups that begin with the prefix",
        f"log: Kafka does not permit this user CREATE of the topic {cluster.name}.dead_letters",
        f"receive.kafka[0]: Kafka does not permit this user to use the group {cluster.name}.traces; grant this user READ of groups that begin with the prefix",
        f"receive.kafka[0]: Kafka does not permit this user READ of the topic {source}: grant it",
    ]


def test_a_start_names_all_that_it_lacks_before_it_makes_a_topic(
    secured_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights of groups and sources were asked for one by one, once those of topics were granted and the topics made."""
    cluster = Cluster(secured_broker, user_of(secured_broker, "x"), fresh("started"))
    source, served = fresh("seen"), list[frozenset[str]]()
    cluster.make(source, 1)
    cluster.grant("TOPIC", source, "DESCRIBE")
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    monkeypatch.setattr("collector.service.app.serve", lambda _config, stages, **_: served.append(stages))
    path = cluster.file(tmp_path, source=source)
    start = ["run", "-c", str(path)]
    done = CliRunner().invoke(app, start)
    assert isinstance(done.exception, ConfigError)
    assert [line.partition(": ")[2][:53] for line in str(done.exception).splitlines()] == [
        "log: Kafka does not permit this user to use the group",
        "receive.kafka[0]: Kafka does not permit this user to ",
        "receive.kafka[0]: Kafka does not permit this user REA",
    ]
    assert cluster.topics() == []
    cluster.grant("GROUP", f"{cluster.name}.evaluate", "READ")
    done = CliRunner().invoke(app, [*start, "--stages", "evaluate"])
    assert (done.exception, served) == (None, [{"evaluate"}]), "other stages' rights are those of other processes"


def test_a_source_that_is_missing_or_hidden_is_a_mistake(cluster: Cluster, tmp_path: Path) -> None:
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    hidden = fresh("hidden")
    path = cluster.file(tmp_path, source=hidden)
    for there in (False, True):
        if there:
            cluster.make(hidden, 1)
        assert f"receive.kafka[0]: there is no topic {hidden}, or this user may not see it (READ of it)" in said(path)
    cluster.grant("TOPIC", hidden, "READ")
    assert said(path) == ""


def test_a_source_whose_retention_is_hidden_has_a_line_in_the_summary(cluster: Cluster, tmp_path: Path) -> None:
    """Only `--verbose` named it, and only once the source had been read."""
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    source = fresh("seen")
    cluster.make(source, 1)
    cluster.grant("TOPIC", source, "READ")
    path = cluster.file(tmp_path, source=source)
    note = f"note DESCRIBE_CONFIGS of {source} is not granted, so its retention is not watched"
    for granted in (False, True):
        if granted:
            cluster.grant("TOPIC", source, "DESCRIBE_CONFIGS")
        done = CliRunner().invoke(app, ["check", "-c", str(path)])
        assert done.exit_code == 0
        assert (note in " ".join(done.output.split())) == (not granted), done.output


def test_a_destination_that_is_missing_is_a_mistake(cluster: Cluster, tmp_path: Path) -> None:
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    config = json.loads(cluster.file(tmp_path).read_text())
    kafka = {"bootstrap_servers": [cluster.broker.bootstrap], "topic": fresh("judged")}
    path = tmp_path / "evalstream.yaml"
    path.write_text(json.dumps({**config, "export": {"spans": {"kafka": kafka}}}))
    assert f"export.spans.kafka.topic: there is no topic {kafka['topic']}" in said(path)


def test_a_broker_that_does_not_answer_is_a_mistake_unless_nobody_is_asked(cluster: Cluster, tmp_path: Path) -> None:
    [port] = free_ports(1)
    path = cluster.file(tmp_path, bootstrap_servers=[f"127.0.0.1:{port}"])
    assert f"no Kafka broker answers at 127.0.0.1:{port}; start it, correct bootstrap_servers" in said(path)
    assert said(path, "--offline") == ""
    shown = CliRunner().invoke(app, ["check", "-c", str(path), "--offline"]).output
    assert "kafka      not checked: --offline" in shown


@pytest.mark.parametrize("right", ["READ", "WRITE", "DESCRIBE_CONFIGS"])
async def test_a_right_that_is_taken_from_topics_that_exist_is_a_mistake(
    cluster: Cluster, tmp_path: Path, right: str
) -> None:
    """Without WRITE it was valid, and the service ready; without DESCRIBE_CONFIGS it was a traceback."""
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    path = cluster.file(tmp_path, partitions=1)
    async with open_logs(load(path).settings.log):
        pass
    assert await asyncio.to_thread(said, path) == ""
    revoke(cluster.broker.bootstrap, cluster.user, "TOPIC", f"{cluster.name}.", right)
    sentence = f"Kafka does not permit this user {right} of the topic {cluster.name}.dead_letters, "
    assert sentence in await asyncio.to_thread(said, path)
    wrong = await asyncio.to_thread(said, cluster.file(tmp_path, partitions=3))
    assert sentence in wrong
    assert " have 1 partition, not 3: set log.kafka.partitions: 1, or" in wrong, "it came once the right was granted"
    cluster.file(tmp_path, partitions=1)
    if right == "WRITE":
        revoke(cluster.broker.bootstrap, cluster.user, "TOPIC", f"{cluster.name}.", "DESCRIBE_CONFIGS")
        both = sentence.replace("WRITE", "WRITE, DESCRIBE_CONFIGS")
        assert both in await asyncio.to_thread(said, path), "one came after the other was granted"
        cluster.grant("TOPIC", f"{cluster.name}.", "DESCRIBE_CONFIGS")
        revoke(cluster.broker.bootstrap, cluster.user, "TOPIC", f"{cluster.name}.", "READ")
        sentence = sentence.replace("WRITE", "READ, WRITE")
        assert sentence in await asyncio.to_thread(said, path)
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        async with open_logs(load(path).settings.log, telemetry=Telemetry()):
            pass


def test_a_source_or_a_destination_that_may_only_be_described_is_a_mistake(cluster: Cluster, tmp_path: Path) -> None:
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    topic = fresh("seen")
    cluster.make(topic, 1)
    cluster.grant("TOPIC", topic, "DESCRIBE")
    path = cluster.file(tmp_path, source=topic)
    assert f"does not permit this user READ of the topic {topic}: grant it" in said(path)
    config = json.loads(cluster.file(tmp_path).read_text())
    spans = {
        "bootstrap_servers": [cluster.broker.secure],
        "topic": topic,
        "security": config["log"]["kafka"]["security"],
    }
    path.write_text(json.dumps({**config, "export": {"spans": {"kafka": spans}}}))
    assert said(path).endswith(f"does not permit this user WRITE of the topic {topic}: grant it"), "nothing else helps"
    cluster.grant("TOPIC", topic, "WRITE")
    assert said(path).endswith(f"does not permit this user DESCRIBE_CONFIGS of the topic {topic}: grant it")
    cluster.grant("TOPIC", topic, "DESCRIBE_CONFIGS")
    assert said(path) == ""


async def test_notes_in_the_logs_that_a_start_refuses_are_mistakes(cluster: Cluster, tmp_path: Path) -> None:
    """Partitions that were added, and logs that were copied: `check` was valid, and the service judged again."""
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    path = cluster.file(tmp_path, partitions=1)
    async with running(load(path), {"watch"}):
        pass
    admin = KafkaAdminClient(bootstrap_servers=cluster.broker.bootstrap)
    admin.create_partitions({f"{cluster.name}.{name}": 2 for name in NAMES})
    admin.close()
    assert "have 2 partitions, not 1: set log.kafka.partitions: 2" in await asyncio.to_thread(said, path)
    path = cluster.file(tmp_path, partitions=2)
    assert "set repartitioned_from: 1" in await asyncio.to_thread(said, path)
    path = cluster.file(tmp_path, partitions=2, repartitioned_from=1)
    assert await asyncio.to_thread(said, path) == ""
    to = tmp_path / "to.yaml"
    to.write_text(
        json.dumps(json.loads(path.read_text()) | {"log": {"kind": "sqlite", "path": str(tmp_path / "l.db")}})
    )
    async with running(load(path), {"watch"}):
        pass
    assert await copy_logs(load(path), load(to), print) == 0
    assert f"these logs were copied for {to}" in await asyncio.to_thread(said, path)
    with pytest.raises(ConfigError, match="these logs were copied for"):
        async with running(load(path), {"watch"}):
            pass
    async with running(load(to), {"watch"}):
        pass
    await asyncio.to_thread(cluster.topics, without="definitions")  # as after `erase`
    done = await asyncio.to_thread(CliRunner().invoke, app, ["run", "-c", str(path)])
    assert f"these logs were copied for {to}" in str(done.exception)
    assert cluster.topics() == [f"{cluster.name}.definitions"], "a start that is refused makes no topic"


@pytest.mark.long
async def test_erasing_asks_for_its_rights_first_and_can_be_run_again(cluster: Cluster, tmp_path: Path) -> None:
    """It copied, was refused when it deleted, and refused to go on: the person stayed."""
    old = cluster.file(tmp_path, partitions=1)
    config = json.loads(old.read_text())
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    cluster.grant("TOPIC", f"{cluster.name}-", *TOPIC_RIGHTS)
    files = {"": old}
    for name in ("-two", "-three"):
        kafka = config["log"]["kafka"] | {"prefix": cluster.name + name}
        files[name] = tmp_path / f"{name[1:]}.yaml"
        files[name].write_text(json.dumps(config | {"log": {"kind": "kafka", "kafka": kafka}}))
    async with running(load(old), {"watch"}) as service:
        turns = [Turn(turn_id=f"{user}-1", input="Hello there.", actual_output="An answer.", conversation_id=f"c-{user}", user_id=user) for user in ("alice-7", "bob-8")]  # fmt: skip
        await service.logs.turns.append([turn_record(turn) for turn in turns])
    told: list[str] = []

    async def erased(source: str, to: str) -> int:
        return await erase(load(files[source]), EraseOptions(users=["alice-7"], to=load(files[to])), told.append)

    with pytest.raises(ConfigError, match=r"grant this user READ of groups that begin with the prefix"):
        await copy_logs(load(old), load(files["-two"]), told.append)
    assert not told, "nothing is copied"
    cluster.grant("GROUP", f"{cluster.name}-", "READ")
    with pytest.raises(ConfigError, match=f"ALTER_CONFIGS, DELETE of the topic {cluster.name}-two.dead_letters, "):
        await copy_logs(load(old), load(files["-two"]), told.append)
    cluster.grant("TOPIC", f"{cluster.name}-", "ALTER_CONFIGS", "DELETE")
    assert await copy_logs(load(old), load(files["-two"]), told.append) == 0
    with pytest.raises(ConfigError, match="hold a whole copy already"):
        await copy_logs(load(old), load(files["-two"]), told.append)
    revoke(cluster.broker.bootstrap, cluster.user, "TOPIC", f"{cluster.name}-", "DELETE")
    cluster.grant("TOPIC", f"{cluster.name}-three", "DELETE")
    told.clear()
    with pytest.raises(ConfigError, match=f"DELETE of the topic {cluster.name}-two.dead_letters, "):
        await erased("-two", "-three")
    assert not told, "nothing is copied"
    cluster.grant("TOPIC", f"{cluster.name}-", "DELETE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("collector.commands.erase.erase.delete", Mock(side_effect=LogRefused("just taken")))
        with pytest.raises(ConfigError, match="just taken; correct that, then run this again"):
            await erased("-two", "-three")
    assert not any("Next:" in line for line in told)
    told.clear()
    assert await erased("-two", "-three") == 1
    [copy] = [line for line in told if "an earlier copy" in line]
    assert copy.startswith(f"  topics {cluster.name}.*: "), "the first copy has her still"
    assert told[-1] == f"Next: evalstream run -c {files['-three']}"


async def test_a_copy_names_the_rights_of_groups_and_topics_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """Those of topics came only once those of groups were granted."""
    to = cluster.file(tmp_path)
    config = json.loads(to.read_text())
    config["log"]["kafka"]["prefix"] = f"{cluster.name}-two"
    to.write_text(json.dumps(config))
    source = tmp_path / "source.yaml"
    source.write_text(json.dumps(config | {"log": {"path": str(tmp_path / "evalstream.db")}}))
    async with running(load(source), {"watch"}):
        pass
    refused = f"does not permit this user to use the group {cluster.name}-two."
    first = await _refused_copy(source, to)
    assert refused in first
    assert f"; Kafka does not permit this user CREATE of the topic {cluster.name}-two." in first
    for topic in names_of(linking=True, page=True, judged_spans=True):
        cluster.make(f"{cluster.name}-two.{topic}", 16)
    cluster.grant("TOPIC", f"{cluster.name}-", "READ", "WRITE", "DESCRIBE_CONFIGS")
    async with asyncio.timeout(20):  # until the broker has taken the grant
        while "CREATE" in (then := await _refused_copy(source, to)):
            await asyncio.sleep(0.5)
    assert refused in then
    assert f"; Kafka does not permit this user ALTER_CONFIGS, DELETE of the topic {cluster.name}-two." in then


async def _refused_copy(source: Path, to: Path) -> str:
    with pytest.raises(ConfigError) as error:
        await copy_logs(load(source), load(to), lambda _line: None)
    return str(error.value)


def test_the_rights_of_a_copy_are_named_in_one_sentence(cluster: Cluster, tmp_path: Path) -> None:
    """`erase` waited a minute for a change that was refused, and repeated a refusal for each partition."""
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    topic = f"{cluster.name}.spans"
    cluster.make(topic, 4)
    log = load(cluster.file(tmp_path)).settings.log.kafka
    assert log is not None
    settings = settings_of_log(log)
    began = time.monotonic()
    with pytest.raises(LogRefused, match=f"user ALTER_CONFIGS of the topic {topic}: grant it$"):
        set_timestamps(settings, [topic], "CreateTime")
    assert time.monotonic() - began < 10
    for remove in (lambda: delete(settings, [topic]), lambda: empty(settings, states(settings, [topic]))):
        with pytest.raises(
            LogRefused, match=f"does not permit this user DELETE of the topic {topic}: grant it$"
        ) as said:
            remove()
        assert len(str(said.value)) < 350
    cluster.grant("TOPIC", topic, "ALTER_CONFIGS", "DELETE")
    set_timestamps(settings, [topic], "CreateTime")
    empty(settings, states(settings, [topic]))
    delete(settings, [topic])
