"""`check` on a secured cluster says what `run` would: the same sentence, and status 2."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from broker import Broker, free_ports
from broker_security import grant
from kafka import KafkaAdminClient
from kafka_logs import fresh
from test_kafka_security import TOPIC_RIGHTS, user_of
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.errors import ConfigError
from collector.logs.kafka.topics import delete, empty, set_timestamps, states
from collector.logs.log import LogRefused
from collector.service.kafka_settings import settings_of_log
from collector.service.open_logs import open_logs

pytestmark = pytest.mark.kafka


class Cluster(NamedTuple):
    broker: Broker
    user: str
    name: str

    def grant(self, kind: str, name: str, *rights: str) -> None:
        grant(self.broker.bootstrap, self.user, kind, name, *rights)

    def make(self, topic: str, partitions: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        admin.close()

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
    assert "Kafka does not permit it (topic" in sentence, "no CREATE"
    assert "CREATE" in sentence
    cluster.grant("TOPIC", f"{cluster.name}.", "CREATE")
    assert said(path) == "", "nothing is made by looking"
    path = cluster.file(tmp_path, replication_factor=3)
    assert "fewer brokers than a topic's copies; lower replication_factor" in said(path)
    assert len(said(path)) < 220
    assert await refused_at_the_start(path) in said(path)
    cluster.make(f"{cluster.name}.spans", 4)
    path = cluster.file(tmp_path)
    assert f"the topic {cluster.name}.spans has 4 partitions, not 16" in said(path)
    assert await refused_at_the_start(path) in said(path)
    assert said(path, "--offline") == ""
    assert said(path, "--json") == said(path)


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


def test_the_rights_of_a_copy_are_named_in_one_sentence(cluster: Cluster, tmp_path: Path) -> None:
    """`erase` waited a minute for a change that was refused, and repeated a refusal for each partition."""
    cluster.grant("TOPIC", f"{cluster.name}.", *TOPIC_RIGHTS)
    topic = f"{cluster.name}.spans"
    cluster.make(topic, 4)
    log = load(cluster.file(tmp_path)).settings.log.kafka
    assert log is not None
    settings = settings_of_log(log)
    began = time.monotonic()
    with pytest.raises(LogRefused, match=f"{topic}: grant this user ALTER_CONFIGS of the new topics$"):
        set_timestamps(settings, [topic], "CreateTime")
    assert time.monotonic() - began < 10
    for remove in (lambda: delete(settings, [topic]), lambda: empty(settings, states(settings, [topic]))):
        with pytest.raises(LogRefused, match="deletes nothing for this user: grant it DELETE of the topics") as said:
            remove()
        assert len(str(said.value)) < 350
    cluster.grant("TOPIC", topic, "ALTER_CONFIGS", "DELETE")
    set_timestamps(settings, [topic], "CreateTime")
    empty(settings, states(settings, [topic]))
    delete(settings, [topic])
