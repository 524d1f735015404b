"""A real Prometheus that scrapes metrics as the service makes them: the exporter fed with evaluations, and every other
declared series with values that it takes in life."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from broker import free_ports
from evaluation_samples import failed, scored, skipped

from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import Series, all_series
from evaluators.results import Evaluation, Sampling, Subject, Usage

OF_TURNS = tuple(
    MonitoredEvaluator(
        evaluator=evaluator,
        evaluator_version="0123456789ab",
        monitor=monitor,
        threshold=0.7,
        labels=("useful", "useless") if evaluator == "helpful" else (),
    )
    for evaluator, monitor in (("helpful", "chatbot"), ("grounded", "chatbot"), ("helpful", "search"))
)
LOWER = MonitoredEvaluator(
    evaluator="toxic", evaluator_version="0123456789ab", monitor="chatbot", threshold=0.7, lower_is_better=True
)
WHOLE = MonitoredEvaluator(
    evaluator="solved", evaluator_version="0123456789ab", monitor="chatbot", threshold=0.7, scope="conversation"
)
AUDITED = MonitoredEvaluator(
    evaluator="careful",
    evaluator_version="0123456789ab",
    monitor="chatbot",
    threshold=0.7,
    audit_version="ba9876543210",
)
WATCHED = (*OF_TURNS, LOWER, WHOLE, AUDITED)
SEGMENTS = ("free", "paid")
BY_HAND = {
    "monitor": ("chatbot", "search"),
    "outcome": ("sampled", "sampled_out", "complete", "scored"),
    "exporter": ("prometheus", "otlp"),
    "result": ("accepted", "rejected", "hit", "miss"),
    "signal": ("traces", "logs"),
    "source": ("otlp_http", "kafka"),
    "status": ("200", "503"),
    "stage": ("receive",),
    "reason": ("unreadable", "over_budget"),
    "label": ("segment",),
    "evaluator": ("helpful", "grounded"),
    "direction": ("input", "output"),
    "judge": ("main",),
    "consumer": ("assemble", "evaluate"),
    "period": ("hour", "day"),
    "origin": ("matched", "resumed"),
    "statistic": ("cohen_kappa", "spearman", "kappa"),
    "bound": ("low", "high"),
    "age": ("0m",),
}
"""What labels are in series that are not fed by the exporter; any other label is `some`."""

UNBROKEN = (
    "min(count_over_time(up[1m])) >= 20",
    "min(count_over_time(up[7s])) >= 6",
    "min(min_over_time(up[7s])) == 1",
    "min(count_over_time(evalstream:score_mean[5s])) >= 4",
)
"""Conditions at the end of a stretch without a missed scrape or evaluation of a rule, once rules of rules are there."""

STEP = 0.5


class PrometheusUnavailable(Exception):
    """Prometheus is not installed; the message says how to get it."""


class Prometheus:
    """The HTTP API of one that runs. Queries are about the time `at`, whenever they are made."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.began = self.at = time.time()

    def get(self, path: str, **parameters: Any) -> Any:
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def now(self, expr: str) -> list[Any]:
        return self.get("query", query=expr, time=self.at)["result"]

    def over_time(self, expr: str) -> list[Any]:
        return self.get("query_range", query=expr, start=self.began, end=self.at, step=1)["result"]

    def exemplars(self, expr: str) -> list[Any]:
        return self.get("query_exemplars", query=expr, start=self.began, end=self.at)


@contextmanager
def scraped(folder: Path, rules: dict[str, Any]) -> Iterator[Prometheus]:
    """A Prometheus with a time at which windows of 5 s are full, of samples and of what rules record.

    Raises:
        PrometheusUnavailable: it is not installed.
    """
    binary = shutil.which("prometheus")
    if binary is None:
        raise PrometheusUnavailable("these tests need Prometheus (apt install --no-install-recommends prometheus)")
    (port,) = free_ports(1)
    with _fed() as target:
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(_configuration(target)))
        command = [
            binary,
            f"--config.file={folder}/prometheus.yaml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--enable-feature=exemplar-storage",
            "--log.level=warn",
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield _ready(Prometheus(f"http://127.0.0.1:{port}"))
        finally:
            process.kill()
            process.wait()


def _configuration(target: int) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "evalstream", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
    }


def _ready(prometheus: Prometheus, within: float = 100.0) -> Prometheus:
    """Wait for a stretch in which the machine missed no scrape and no rule, and ask about its end alone."""
    give_up_at = time.monotonic() + within
    while time.monotonic() < give_up_at:
        try:
            urllib.request.urlopen(f"{prometheus.url}/-/ready", timeout=10).close()  # 503 until it is; an OSError
            prometheus.at = time.time() - 1.5  # a scrape under way may still fail and end every series
            if all(map(prometheus.now, (*UNBROKEN, "ALERTS"))):
                return prometheus
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("Prometheus has not scraped in time")


@contextmanager
def _fed() -> Iterator[int]:
    """The port of /metrics while a thread feeds it."""
    stop = threading.Event()
    ready = threading.Event()
    port: list[int] = []

    async def feed() -> None:
        telemetry = Telemetry()
        settings = PrometheusSettings(port=0, segment_by="plan", segments=SEGMENTS)
        async with PrometheusExporter.open(
            settings, ExportContext(telemetry=telemetry, evaluators=WATCHED)
        ) as exporter:
            _touch_all(telemetry, 0)
            port.append(exporter.port or 0)
            ready.set()
            for number in itertools.count():
                if stop.is_set():
                    return
                await asyncio.sleep(STEP)
                await exporter.export(_batch(number))
                _touch_all(telemetry, 1)

    thread = threading.Thread(target=lambda: asyncio.run(feed()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield port[0]
    finally:
        stop.set()
        thread.join(10)


def _batch(number: int) -> list[Evaluation]:
    """Scores of every watched evaluator, good and bad ones, and some without a score."""
    made: list[Evaluation] = []
    for place, watched in enumerate(WATCHED):
        for each in range(6):
            good = (number + each + place) % 3 > 0 if watched is not LOWER else SEGMENTS[each % 2] == "paid"
            label = {"label": "useful" if good else "useless"} if watched.labels else {}
            audit = _audit(number + each, good=good) if watched is AUDITED else {}
            score = 0.9 if good else 0.3
            made.append(
                _of(watched, scored(**_subject(number, each), score=score, passed=good, **label, details=audit))
            )
        made.append(_of(watched, failed(**_subject(number, 6))))
        made.append(_of(watched, skipped(**_subject(number, 7))))
    return made


def _audit(number: int, *, good: bool) -> dict[str, Any]:
    """Three of four are audited, so that windows of 5 s have enough of them, and one in fifteen of the audits fails."""
    if number % 4 == 1:
        return {}
    came = {"reason": "judge_timeout"} if number % 20 == 0 else {"score": 0.7 if good else 0.2}
    return {"audit": {**came, "probability": 0.5, "model": "dear", "version": AUDITED.audit_version}}


def _of(watched: MonitoredEvaluator, evaluation: Evaluation) -> Evaluation:
    names = {
        "evaluator": watched.evaluator,
        "evaluator_version": watched.evaluator_version,
        "monitor": watched.monitor,
    }
    return replace(evaluation, **names)


def _subject(number: int, each: int) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "number": number * 10 + each,
        "subject": Subject(conversation_id=f"visit-{number}-{each}", trace_id=f"{number * 10 + each + 1:032x}"),
        "attributes": {"plan": SEGMENTS[each % 2]},
        "sampling": Sampling(probability=0.5 if each % 2 else 0.25),
        "usage": Usage(input_tokens=400, output_tokens=60, calls=1),
        "cost_usd": 0.002,
        "started_at": now - timedelta(seconds=1),
        "ended_at": now,
    }


def _touch_all(telemetry: Telemetry, amount: float) -> None:
    for each in all_series():
        fed = each.labels[:2] == ("evaluator", "evaluator_version") and not re.search(
            "golden|agreement|release|people", each.name
        )
        if not fed:  # by the exporter
            for labels in itertools.product(*(BY_HAND.get(label, ("some",)) for label in each.labels)):
                _touch(telemetry, each, labels, amount)


def _touch(telemetry: Telemetry, of: Series, labels: tuple[str, ...], amount: float) -> None:
    match of.kind:
        case "counter":
            telemetry.counter(of, *labels).inc(amount)
        case "gauge":
            telemetry.gauge(of, *labels).set(time.time() if "timestamp" in of.name else amount)
        case "histogram":
            telemetry.histogram(of, *labels).observe(amount)
