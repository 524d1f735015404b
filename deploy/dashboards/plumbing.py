"""Does everything arrive, move on and go out, and how fast?"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as boards

from collector.telemetry import (
    ASSEMBLED,
    DROPS,
    EVALUATION_DURATION,
    EVALUATIONS,
    EVALUATIONS_IN_FLIGHT,
    EXPORT_FAILURES,
    EXPORT_LAG,
    EXPORTED,
    INGEST_LAG,
    JUDGE_IN_FLIGHT,
    JUDGE_REQUEST_DURATION,
    JUDGE_REQUESTS,
    OPEN_CONVERSATIONS,
    OPEN_TRACES,
    RECEIVE_DURATION,
    RECEIVE_PENDING_BYTES,
    RECEIVED_BYTES,
    RECEIVED_ITEMS,
    RECEIVED_REQUESTS,
    STAGE_AGE,
    STAGE_BACKLOG,
    TURNS,
)
from deploy.dashboards.frame import filled, frame
from deploy.dashboards.panels import Look, Query, lines
from deploy.dashboards.queries import WATCHED, quantile, rate


def plumbing() -> boards.Dashboard:
    """The dashboard."""
    board = frame("plumbing", "From the first span to the last exporter: rates, times, what waits and what was lost.")
    parts = {
        "What waits": _waiting(),
        "In": _receive(),
        "From spans to turns": _assemble(),
        "Turns and evaluations": _evaluate(),
        "Judges": _judges(),
        "Out": _export(),
    }
    return filled(board, parts)


def _waiting() -> list[object]:
    return [
        lines(
            Look("Backlog", "Records of its log that a reader has not been given yet.", low=0),
            Query(f"sum by (reader) ({STAGE_BACKLOG.name})", "{{reader}}"),
        ),
        lines(
            Look("Age of what waits", "How long ago the record was written that a reader is at.", unit="s", low=0),
            Query(f"max by (reader) ({STAGE_AGE.name})", "{{reader}}"),
        ),
    ]


def _receive() -> list[object]:
    return [
        lines(
            Look("Spans and log records", "Durable in the spans log (accepted), refused, or none of ours.", unit="cps"),
            Query(rate(RECEIVED_ITEMS, "source, signal, result"), "{{source}} {{signal}} {{result}}"),
        ),
        lines(
            Look(
                "Lag",
                "Age of a request's last span when it is durable: senders' batching, and what waited in Kafka.",
                unit="s",
                width=6,
                low=0,
            ),
            Query(quantile(INGEST_LAG, 0.5, "source"), "{{source}} p50"),
            Query(quantile(INGEST_LAG, 0.95, "source"), "{{source}} p95"),
        ),
        lines(
            Look("Requests", "OTLP/HTTP by status; 503 asks senders to come again.", unit="reqps", width=6),
            Query(rate(RECEIVED_REQUESTS, "signal, status"), "{{signal}} {{status}}"),
        ),
        lines(
            Look("Time to durable", "From a request's headers to its answer.", unit="s", width=6, low=0),
            Query(quantile(RECEIVE_DURATION, 0.5, "signal"), "{{signal}} p50"),
            Query(quantile(RECEIVE_DURATION, 0.99, "signal"), "{{signal}} p99"),
        ),
        lines(
            Look("Bytes in", "After decompression.", unit="Bps", low=0),
            Query(rate(RECEIVED_BYTES, "source, signal"), "{{source}} {{signal}}"),
        ),
        lines(
            Look("Read but not yet durable", "What senders wait for now.", unit="bytes", width=6, low=0),
            Query(f"sum by (instance) ({RECEIVE_PENDING_BYTES.name})", "{{instance}}"),
        ),
    ]


def _assemble() -> list[object]:
    return [
        lines(
            Look("Assembly", "Spans read and turns made by dialect, and why some cannot be judged.", unit="cps"),
            Query(rate(ASSEMBLED, "dialect, what"), "{{dialect}}: {{what}}"),
        ),
        lines(
            Look("Open traces", "Waited for until they are quiet.", low=0),
            Query(f"sum by (instance) ({OPEN_TRACES.name})", "{{instance}}"),
        ),
    ]


def _evaluate() -> list[object]:
    return [
        lines(
            Look("Turns", "What monitors did with them.", unit="cps", width=8),
            Query(rate(TURNS, "monitor, outcome"), "{{monitor}} {{outcome}}"),
            stacked=True,
        ),
        lines(
            Look("Open conversations", "Kept until they are over.", width=8, low=0),
            Query(f"sum by (instance) ({OPEN_CONVERSATIONS.name})", "{{instance}}"),
        ),
        lines(
            Look("Evaluations under way", "At its bound the judges are what everything waits for.", width=8, low=0),
            Query(f"sum by (instance) ({EVALUATIONS_IN_FLIGHT.name})", "{{instance}}"),
        ),
        lines(
            Look("Evaluations", "By outcome.", unit="cps", width=8),
            Query(rate(EVALUATIONS, "evaluator, outcome", WATCHED), "{{evaluator}} {{outcome}}"),
        ),
        lines(
            Look("Time of an evaluation", "Judge calls and their retries included.", unit="s", width=8, low=0),
            Query(quantile(EVALUATION_DURATION, 0.5, "evaluator", WATCHED), "{{evaluator}} p50"),
            Query(quantile(EVALUATION_DURATION, 0.95, "evaluator", WATCHED), "{{evaluator}} p95"),
        ),
        lines(
            Look("Losses", "Everything that was lost or left out has a reason.", unit="cps", width=8, low=0),
            Query(rate(DROPS, "stage, reason"), "{{stage}}: {{reason}}"),
        ),
    ]


def _judges() -> list[object]:
    return [
        lines(
            Look("Requests to judges", "By result; retries count one by one.", unit="reqps", width=8),
            Query(rate(JUDGE_REQUESTS, "judge, result"), "{{judge}} {{result}}"),
        ),
        lines(
            Look("Time of a request", "From the request to the answer.", unit="s", width=8, low=0),
            Query(quantile(JUDGE_REQUEST_DURATION, 0.5, "judge"), "{{judge}} p50"),
            Query(quantile(JUDGE_REQUEST_DURATION, 0.95, "judge"), "{{judge}} p95"),
        ),
        lines(
            Look("Requests under way", "At the judge's `concurrency`, the others wait.", width=8, low=0),
            Query(f"sum by (judge) ({JUDGE_IN_FLIGHT.name})", "{{judge}}"),
        ),
    ]


def _export() -> list[object]:
    return [
        lines(
            Look("Exported", "Evaluations that exporters dealt with.", unit="cps", width=8),
            Query(rate(EXPORTED, "exporter, result"), "{{exporter}} {{result}}"),
        ),
        lines(
            Look("Export lag", "Age of the newest evaluation that is out.", unit="s", width=8, low=0),
            Query(f"max by (exporter) ({EXPORT_LAG.name})", "{{exporter}}"),
        ),
        lines(
            Look("Failed attempts", "Made again until they succeed.", unit="cps", width=8),
            Query(rate(EXPORT_FAILURES, "exporter, reason"), "{{exporter}}: {{reason}}"),
        ),
    ]
