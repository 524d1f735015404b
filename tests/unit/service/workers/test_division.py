"""Which stages each worker runs: over a file each stage once, over Kafka partitions are shared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.config.loading import check
from collector.errors import ConfigError
from collector.logs.log import GroupInUse
from collector.logs.sqlite import SqliteLog
from collector.service.app import STAGES
from collector.service.workers.division import divide
from collector.service.workers.supervision import share_file


def settings(log: dict[str, Any], **receive: Any) -> Any:
    values = {
        "log": log,
        "receive": {"otlp_http": {"port": 4318}} | receive,
        "evaluators": {"short": {"kind": "length", "maximum": 9}},
        "monitors": {"all": {"evaluators": ["short"]}},
    }
    return check(values, "test.yaml").settings


def kafka(**more: Any) -> dict[str, Any]:
    return {"kind": "kafka", "kafka": {"bootstrap_servers": ["a:9092"], "partitions": 3} | more}


SQLITE = {"kind": "sqlite", "path": "a.db"}


@pytest.mark.parametrize("log", [SQLITE, kafka()], ids=["sqlite", "kafka"])
def test_all_workers_take_partitions_and_the_first_one_has_what_can_be_there_once(log: dict[str, Any]) -> None:
    first, second, third = divide(STAGES, 3, settings(log))
    assert first == set(STAGES)
    assert second == third == {"receive", "assemble", "evaluate"}
    assert divide(["assemble", "export"], 2, settings(log)) == [{"assemble", "export"}, {"assemble"}]


async def test_a_file_is_shared_by_as_many_as_it_has_partitions(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    log = {"kind": "sqlite", "path": str(path)}
    assert len(divide(STAGES, 6, settings(log | {"partitions": 6}))) == 6
    for each in (await SqliteLog.open(path, ["spans"], 1)).values():
        await each.close()
    message = rf"2 cannot share 1 partition, which {path} has; use 1 at most, or copy it into a file with more \(log\."
    with pytest.raises(ConfigError, match=message):
        divide(STAGES, 2, settings(log | {"partitions": 6}))


async def test_a_file_is_the_commands_alone(tmp_path: Path) -> None:
    log = settings({"kind": "sqlite", "path": str(tmp_path / "a.db")}).log
    shares = share_file(log, 3)
    assert [each and (each.number, each.of) for each in shares] == [(0, 3), (1, 3), (2, 3)]
    (opened,) = (await SqliteLog.open(log.path, ["turns"], share=shares[1])).values()
    await opened.claim("evaluate")
    with pytest.raises(GroupInUse, match="stop it first"):
        share_file(log, 2)
    await opened.close()
    share_file(log, 2)
    nowhere = settings({"kind": "sqlite", "path": str(tmp_path / "nowhere" / "a.db")}).log
    with pytest.raises(ConfigError, match=r"a\.db: unable to open database file; see that the folder exists"):
        share_file(nowhere, 2)
    assert share_file(settings(kafka()).log, 2) == [None, None]


@pytest.mark.parametrize(
    ("stages", "workers", "given", "message"),
    [
        (STAGES, 2, settings({"kind": "memory"}), "log.kind is memory, which is of one process; use sqlite or kafka"),
        (STAGES, 5, settings(SQLITE), "5 cannot share 4 partitions of a SQLite file; use 4 at most, or set log.partitions"),
        (["export"], 2, settings(SQLITE), "export run in one process; leave --workers out"),
        (STAGES, 2, settings(SQLITE, otlp_http={"port": 0}), "0 would give each worker another port; name one"),
        (STAGES, 4, settings(kafka()), "4 cannot share 3 partitions; use 3 at most, or more log.kafka.partitions"),
        (["page"], 2, settings(kafka()), "page run in one process; leave --workers out"),
        (STAGES, 2, settings(kafka(group_instance_id="a")), "names one process, and --workers starts 2; leave it out"),
        (STAGES, 2, settings(kafka(), otlp_http={"port": 0}), "0 would give each worker another port; name one"),
    ],
    ids=["memory", "many", "export", "port-of-a-file", "partitions", "page", "named", "any-port"],
)  # fmt: skip
def test_what_cannot_be_shared_is_refused(stages: Any, workers: int, given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        divide(stages, workers, given)
