"""Two deployments on one cluster, with TLS, users and ACLs: neither hinders the other, and passwords change under load."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from broker import Broker
from broker_security import grant, set_password
from kafka import KafkaAdminClient, KafkaProducer
from kafka_logs import fresh
from service import ServiceProcess
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import check
from collector.config.settings import LogSettings
from collector.logs.log import Log
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service import kafka_settings
from collector.service.app import running
from collector.service.open_logs import open_logs
from evaluators.cases import Turn

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
TURNS = 200
RIGHTS = ("READ", "WRITE", "CREATE", "DESCRIBE_CONFIGS")


def configuration(log: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    return {
        "log": {"kind": "kafka", "kafka": {"partitions": 2, "group_instance_id": "evalstream-0", **log}},
        "receive": {"kafka": [{"group_instance_id": "evalstream-0", **source}]},
        "evaluators": {"brief": {"kind": "length", "maximum": 1000}},
        "monitors": {"all": {"evaluators": ["brief"]}},
    }


class Deployment:
    """A service with a user, a prefix and ACLs of its own."""

    def __init__(self, broker: Broker, topic: str, folder: Path) -> None:
        assert broker.certificates is not None
        self.broker, self.prefix, self.user = broker, fresh("team"), fresh("user")
        self.password_file = folder / "password"
        folder.mkdir()
        self.change_password("first")
        grant(broker.bootstrap, self.user, "TOPIC", f"{self.prefix}.", *RIGHTS)
        grant(broker.bootstrap, self.user, "GROUP", f"{self.prefix}.", "READ")
        grant(broker.bootstrap, self.user, "TOPIC", topic, "READ", prefixed=False)
        security = {
            "protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": self.user,
            "password_file": str(self.password_file), "ca": str(broker.certificates.ca),
        }  # fmt: skip
        servers = {"bootstrap_servers": [broker.secure]}
        log = {**servers, "prefix": self.prefix, "security": security}
        config = configuration(log, {**servers, "turns": [topic]})
        self.process = ServiceProcess(folder, json.loads(json.dumps(config)))  # else its YAML has aliases

    def change_password(self, password: str) -> None:
        set_password(self.broker.bootstrap, self.user, password)
        self.password_file.write_text(f"{password}\n")

    async def judged(self) -> list[str]:
        """The ids of the evaluations, as often as they are there, read by somebody who may read everything."""
        kafka = {"bootstrap_servers": [self.broker.bootstrap], "prefix": self.prefix, "partitions": 2}
        async with open_logs(LogSettings.model_validate({"kind": "kafka", "kafka": kafka})) as logs:
            return await evaluation_ids(logs.evaluations)

    async def until_judged(self, count: int) -> list[str]:
        ids: list[str] = []
        try:
            async with asyncio.timeout(90):
                while len(ids) < count:
                    await asyncio.sleep(0.5)
                    ids = await self.judged()
        except TimeoutError:
            raise AssertionError(f"{len(ids)} of {count}: {self.process.stderr.read_text()[-3000:]}") from None
        return ids

    async def ready(self) -> tuple[int, str]:
        url = self.process.metrics_url.replace("/metrics", "/readyz")
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.text()


async def evaluation_ids(log: Log) -> list[str]:
    return [
        evaluation_from_json(record.value).evaluation_id
        for partition in range(log.partitions)
        async for batch in log.read(partition, 0)
        for record in batch
        if not record.headers
    ]


def make_topic(broker: Broker) -> str:
    topic = fresh("chats")
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
    admin.close()
    return topic


def send(broker: Broker, topic: str, start: int, end: int) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    for number in range(start, end):
        turn = Turn(
            turn_id=f"turn-{number}", conversation_id=f"c-{number}", input="What?", actual_output="That.",
            ended_at=datetime.now(UTC),
        )  # fmt: skip
        producer.send(topic, turn_to_json(turn), key=b"%d" % number)
    producer.flush()
    producer.close()


@pytest.mark.long
async def test_both_judge_everything_and_a_password_changes_meanwhile(secured_broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(secured_broker)
    one, two = (Deployment(secured_broker, topic, tmp_path / name) for name in ("one", "two"))
    try:
        await asyncio.gather(one.process.start(), two.process.start())
        for begin in range(0, TURNS, 25):
            await asyncio.to_thread(send, secured_broker, topic, begin, begin + 25)
            if begin == 50:
                await asyncio.to_thread(one.change_password, "second")
            await asyncio.sleep(0.4)  # the broker wants each to log in again within 1.5 s
        for each in (one, two):
            ids = await each.until_judged(TURNS)
            assert len(ids) == len(set(ids)) == TURNS
            assert "second" not in each.process.stderr.read_text()
        plan = await asyncio.to_thread(CliRunner().invoke, app, ["check", "-v", "-c", str(one.process.path)])
        assert plan.exit_code == 0, plan.output
        assert f"in {one.prefix}.evaluate now: evalstream-0 on 127.0.0.1" in plan.output
        assert f"{one.prefix}.labels: partitions 2, copies 1, retention.ms -1" in plan.output
        assert f"permissions: topics {one.prefix}.*: READ, WRITE, DESCRIBE_CONFIGS" in plan.output
        assert two.prefix not in plan.output
        assert await one.process.stop() == await two.process.stop() == 0
    finally:
        await asyncio.gather(one.process.end(), two.process.end())


@pytest.mark.long
async def test_a_wrong_password_ends_the_start_and_is_waited_for_later(secured_broker: Broker, tmp_path: Path) -> None:
    topic = make_topic(secured_broker)
    mine = Deployment(secured_broker, topic, tmp_path / "mine")
    try:
        mine.password_file.write_text("wrong\n")
        plan = await asyncio.to_thread(CliRunner().invoke, app, ["check", "-c", str(mine.process.path)])
        assert "wrong user, password or mechanism" in str(plan.exception)
        await mine.process.launch()
        assert await mine.process.ended() == 2
        *_, line = mine.process.stderr.read_text().strip().splitlines()
        assert line.startswith("evalstream: log: Kafka at 127.0.0.1:"), line
        assert "wrong user, password or mechanism; correct security.username, security.password" in line
        mine.change_password("first")
        await mine.process.start()
        set_password(secured_broker.bootstrap, mine.user, "elsewhere")  # the file has the old one still
        async with asyncio.timeout(60):
            while (found := await mine.ready())[0] == 200:
                await asyncio.sleep(0.5)
        assert f"refuses the user {mine.user} (SCRAM-SHA-" in found[1], found
        assert "wrong user, password or mechanism" in found[1], found
        mine.change_password("elsewhere")
        await asyncio.to_thread(send, secured_broker, topic, 0, 10)
        assert len(set(await mine.until_judged(10))) == 10
        async with asyncio.timeout(60):
            while (await mine.ready())[0] != 200:
                await asyncio.sleep(0.5)
        assert await mine.process.stop() == 0
    finally:
        await mine.process.end()


async def test_an_upgrade_judges_nothing_twice(kafka_broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version before had groups without the prefix, and a source's group was `evalstream` always."""
    topic, prefix = make_topic(kafka_broker), fresh("team")
    servers = {"bootstrap_servers": [kafka_broker.bootstrap]}
    config = configuration({**servers, "prefix": prefix, "session_timeout": 6}, {**servers, "turns": [topic]})
    now = kafka_settings.settings_of_log
    with monkeypatch.context() as before:
        from dataclasses import replace

        from collector.service import open_logs as opening, receive as receiving

        before.setattr(opening, "settings_of_log", lambda log: replace(now(log), group_prefix=""))
        before.setattr(receiving, "group_of", lambda *_: "evalstream")
        await run_and_judge(kafka_broker, config, topic, 0, 20)
    ids = await run_and_judge(kafka_broker, config, topic, 20, 30)
    assert len(ids) == len(set(ids)) == 30


async def run_and_judge(broker: Any, config: dict[str, Any], topic: str, start: int, end: int) -> list[str]:
    config["export"] = {"prometheus": {"port": 0}}
    async with running(check(config, "test")) as service:
        await asyncio.to_thread(send, broker, topic, start, end)
        ids: list[str] = []
        async with asyncio.timeout(60):
            while len(set(ids)) < end:
                await asyncio.sleep(0.3)
                ids = await evaluation_ids(service.logs.evaluations)
        await asyncio.sleep(1.5)  # offsets are committed
        return await evaluation_ids(service.logs.evaluations)
