"""What workers say of themselves, put together: every series of each, in a text that Prometheus' own readers take."""

from __future__ import annotations

import json

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition, parser
from prometheus_client.parser import text_string_to_metric_families

from collector.service.workers.joint_metrics import join_metrics, join_readiness


def registry(count: float) -> CollectorRegistry:
    made = CollectorRegistry()
    Counter("spans", "Spans # of all.", ["dialect"], registry=made).labels('a "b" {c} d').inc(count)
    Gauge("idle", "No labels.", registry=made).set(count)
    Histogram("took", "Seconds.", ["stage"], buckets=(0.5,), registry=made).labels("one two").observe(
        count, {"trace_id": "0af7"}
    )
    return made


def samples(families: object) -> dict[tuple[str, str, str], float]:
    return {
        (each.name, each.labels["worker"], each.labels.get("le", "")): each.value
        for family in families  # type: ignore[attr-defined]
        for each in family.samples
        if not each.name.endswith("_created")
    }


EXPECTED = {
    (name, worker, le): value
    for worker, count in (("1", 1.0), ("2", 0.25))
    for name, le, value in (
        ("spans_total", "", count), ("idle", "", count), ("took_sum", "", count), ("took_count", "", 1.0),
        ("took_bucket", "0.5", float(count <= 0.5)), ("took_bucket", "+Inf", 1.0),
    )
}  # fmt: skip


def test_every_series_of_each_worker_is_there_under_its_number() -> None:
    text = join_metrics({number: generate_latest(registry(count)).decode() for number, count in ((1, 1.0), (2, 0.25))})
    families = list(text_string_to_metric_families(text))
    assert samples(families) == EXPECTED
    assert len({each.name for each in families}) == len(families), "a family comes once"
    assert {each.labels["dialect"] for each in families[0].samples} == {'a "b" {c} d'}


def test_openmetrics_stays_openmetrics_with_its_exemplars() -> None:
    latest = exposition.generate_latest
    text = join_metrics({number: latest(registry(count)).decode() for number, count in ((1, 1.0), (2, 0.25))})
    families = list(parser.text_string_to_metric_families(text))
    assert samples(families) == EXPECTED
    exemplars = [each.exemplar.labels for family in families for each in family.samples if each.exemplar]
    assert exemplars == [{"trace_id": "0af7"}] * 2


def test_of_no_worker_there_is_nothing() -> None:
    assert list(text_string_to_metric_families(join_metrics({}))) == []


def body(status: str, *problems: str) -> str:
    return json.dumps({"status": status, "problems": problems, "checks": {"log": {"status": "ok", "detail": ""}}})


def test_all_have_to_be_ready() -> None:
    status, answer = join_readiness({1: body("ready"), 2: body("ready")})
    assert (status, answer["status"], sorted(answer["checks"])) == (200, "ready", ["worker 1: log", "worker 2: log"])
    status, answer = join_readiness({1: body("ready"), 2: body("degraded")})
    assert (status, answer["status"]) == (200, "degraded")
    status, answer = join_readiness({1: body("not ready", "starting"), 2: None})
    assert status == 503
    assert answer["problems"] == ["worker 1: starting", "worker 2: it does not answer"]
