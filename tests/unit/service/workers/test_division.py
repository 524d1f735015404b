"""Which stages each worker runs: over a file each stage once, over Kafka partitions are shared."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.loading import check
from collector.errors import ConfigError
from collector.service.app import STAGES
from collector.service.workers.division import divide


def settings(log: dict[str, Any], *, sample: float = 1.0, keep: str = "all", **receive: Any) -> Any:
    values = {
        "log": log,
        "receive": {"otlp_http": {"port": 4318}} | receive,
        "evaluators": {"short": {"kind": "length", "maximum": 9}},
        "monitors": {"all": {"evaluators": ["short"], "sample": sample}},
        "assemble": {"keep": keep},
    }
    return check(values, "test.yaml").settings


def kafka(**more: Any) -> dict[str, Any]:
    return {"kind": "kafka", "kafka": {"bootstrap_servers": ["a:9092"], "partitions": 3} | more}


SQLITE = {"kind": "sqlite", "path": "a.db"}


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_over_a_file_each_stage_runs_in_one_worker(workers: int) -> None:
    divided = divide(STAGES, workers, settings(SQLITE))
    assert len(divided) == workers
    assert sorted(stage for each in divided for stage in each) == sorted(STAGES)


@pytest.mark.parametrize(
    ("sample", "keep", "alone"),
    [
        (0.01, "all", {"assemble"}),
        (0.01, "wanted", {"receive"}),
        (0.1, "all", {"assemble"}),
        (0.2, "all", {"receive", "assemble"}),
        (1.0, "wanted", {"receive", "assemble"}),
    ],
)
def test_of_two_workers_the_busier_has_as_little_as_possible(sample: float, keep: str, alone: set[str]) -> None:
    divided = divide(STAGES, 2, settings(SQLITE, sample=sample, keep=keep))
    assert alone in divided
    assert set(STAGES) - alone in divided


def test_stages_that_are_elsewhere_leave_fewer_ways() -> None:
    assert set(divide(["receive", "assemble"], 2, settings(SQLITE))) == {
        frozenset({"receive"}),
        frozenset({"assemble"}),
    }
    assert set(divide(["receive", "evaluate"], 2, settings(SQLITE))) == {
        frozenset({"receive"}),
        frozenset({"evaluate"}),
    }


def test_over_kafka_all_workers_take_partitions_and_the_first_one_has_what_can_be_there_once() -> None:
    first, second, third = divide(STAGES, 3, settings(kafka()))
    assert first == set(STAGES)
    assert second == third == {"receive", "assemble", "evaluate"}


@pytest.mark.parametrize(
    ("stages", "workers", "given", "message"),
    [
        (STAGES, 2, settings({"kind": "memory"}), "log.kind is memory, which is of one process; use sqlite or kafka"),
        (STAGES, 5, settings(SQLITE), "over a SQLite file there can be 4 at most; use log.kind: kafka for more"),
        (["receive"], 2, settings(SQLITE), "receive cannot be divided among 2; use fewer workers"),
        (STAGES, 4, settings(kafka()), "4 cannot share 3 partitions; use 3 at most, or more log.kafka.partitions"),
        (["page"], 2, settings(kafka()), "page run in one process; leave --workers out"),
        (STAGES, 2, settings(kafka(group_instance_id="a")), "names one process, and --workers starts 2; leave it out"),
        (STAGES, 2, settings(kafka(), otlp_http={"port": 0}), "0 would give each worker another port; name one"),
    ],
    ids=["memory", "many", "one-stage", "partitions", "page", "named", "any-port"],
)  # fmt: skip
def test_what_cannot_be_shared_is_refused(stages: Any, workers: int, given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        divide(stages, workers, given)
