"""The plumbing dashboard: does everything arrive, move on and go out, and how fast?"""

from grafana_foundation_sdk.builders import dashboard as boards

from collector.telemetry.series import (
    BATCH_CALLS_FAILED,
    BATCH_REQUESTS,
    BATCHES,
    BATCHES_OPEN,
    CONSUMER_LAG_RECORDS,
    CONSUMER_LAG_SECONDS,
    DEFERRED_OLDEST,
    DROPS,
    EVALUATION_DURATION,
    EVALUATIONS,
    EVALUATIONS_DEFERRED,
    EVALUATIONS_RUNNING,
    EXPORT_EVALUATIONS,
    EXPORT_FAILURES,
    EXPORT_LAG,
    INGEST_LAG,
    JUDGE_REQUEST_DURATION,
    JUDGE_REQUESTS,
    JUDGE_REQUESTS_IN_FLIGHT,
    NOTED,
    OPEN_CONVERSATIONS,
    OPEN_TRACES,
    RECEIVE_BYTES,
    RECEIVE_DURATION,
    RECEIVE_ITEMS,
    RECEIVE_PENDING_BYTES,
    RECEIVE_REQUESTS,
    SPANS_READ,
    TURNS,
    TURNS_ASSEMBLED,
    UNMATCHED_TURNS,
)
from deploy.dashboards.frame import filled, frame
from deploy.dashboards.panels import Look, Query, lines
from deploy.dashboards.queries import WATCHED, quantile, rate


def plumbing() -> boards.Dashboard:
    """The dashboard."""
    board = frame("plumbing", "From the first span to the last exporter: rates, durations, lag and losses.")
    parts = {
        "Consumer lag": _consumer_lag(),
        "In": _receive(),
        "From spans to turns": _assemble(),
        "Turns and evaluations": _evaluate(),
        "Judges": _judges(),
        "Evaluations that wait for batches": _deferred(),
        "Out": _export(),
    }
    return filled(board, parts)


def _consumer_lag() -> list[object]:
    return [
        lines(
            Look("Consumer lag in records", "Records of its log that a consumer has not received yet.", low=0),
            Query(f"sum by (consumer) ({CONSUMER_LAG_RECORDS.name})", "{{consumer}}"),
        ),
        lines(
            Look("Consumer lag in seconds", "Age of the record that a consumer has reached.", unit="s", low=0),
            Query(f"max by (consumer) ({CONSUMER_LAG_SECONDS.name})", "{{consumer}}"),
        ),
    ]


def _receive() -> list[object]:
    return [
        lines(
            Look(
                "Spans and log records",
                "Accepted (durable in the spans log), rejected, or ignored; noted: traces that no monitor can want.",
                unit="cps",
            ),
            Query(rate(RECEIVE_ITEMS, "source, signal, result"), "{{source}} {{signal}} {{result}}"),
            Query(rate(NOTED, "source"), "{{source}} noted"),
        ),
        lines(
            Look(
                "Lag",
                "Age of a request's last span once durable: senders' batching, and the time in Kafka.",
                unit="s",
                width=6,
                low=0,
            ),
            Query(quantile(INGEST_LAG, 0.5, "source"), "{{source}} p50"),
            Query(quantile(INGEST_LAG, 0.95, "source"), "{{source}} p95"),
        ),
        lines(
            Look(
                "Requests", "OTLP requests by status; 503 and UNAVAILABLE ask senders to retry.", unit="reqps", width=6
            ),
            Query(rate(RECEIVE_REQUESTS, "source, signal, status"), "{{source}} {{signal}} {{status}}"),
        ),
        lines(
            Look("Time to durable", "From a request's headers to its answer.", unit="s", width=6, low=0),
            Query(quantile(RECEIVE_DURATION, 0.5, "signal"), "{{signal}} p50"),
            Query(quantile(RECEIVE_DURATION, 0.99, "signal"), "{{signal}} p99"),
        ),
        lines(
            Look("Bytes in", "After decompression.", unit="Bps", low=0),
            Query(rate(RECEIVE_BYTES, "source, signal"), "{{source}} {{signal}}"),
        ),
        lines(
            Look(
                "Read but not yet durable", "Requests whose senders wait for an answer.", unit="bytes", width=6, low=0
            ),
            Query(f"sum by (instance) ({RECEIVE_PENDING_BYTES.name})", "{{instance}}"),
        ),
    ]


def _assemble() -> list[object]:
    return [
        lines(
            Look("Spans", "By the dialect that read them; without one: spans that are not calls.", unit="cps", width=8),
            Query(rate(SPANS_READ, "dialect"), "{{dialect}}"),
        ),
        lines(
            Look(
                "Turns assembled",
                "By dialect and outcome; an incomplete turn cannot be evaluated, for the reason shown.",
                unit="cps",
                width=8,
            ),
            Query(rate(TURNS_ASSEMBLED, "dialect, outcome, reason"), "{{dialect}}: {{outcome}} {{reason}}"),
        ),
        lines(
            Look("Open traces", "They wait for further spans until they are quiet.", width=8, low=0),
            Query(f"sum by (instance) ({OPEN_TRACES.name})", "{{instance}}"),
        ),
    ]


def _evaluate() -> list[object]:
    return [
        lines(
            Look("Turns", "By monitor and outcome.", unit="cps", width=8),
            Query(rate(TURNS, "monitor, outcome"), "{{monitor}} {{outcome}}"),
            Query(rate(UNMATCHED_TURNS, ""), "no monitor"),
            stacked=True,
        ),
        lines(
            Look("Open conversations", "Remembered until they close.", width=8, low=0),
            Query(f"sum by (instance) ({OPEN_CONVERSATIONS.name})", "{{instance}}"),
        ),
        lines(
            Look("Evaluations running", "At the judges' `concurrency`, the judges are the bottleneck.", width=8, low=0),
            Query(f"sum by (instance) ({EVALUATIONS_RUNNING.name})", "{{instance}}"),
        ),
        lines(
            Look("Evaluations", "By outcome.", unit="cps", width=8),
            Query(rate(EVALUATIONS, "evaluator, outcome", WATCHED), "{{evaluator}} {{outcome}}"),
        ),
        lines(
            Look("Duration of an evaluation", "Judge calls and their retries included.", unit="s", width=8, low=0),
            Query(quantile(EVALUATION_DURATION, 0.5, "evaluator", WATCHED), "{{evaluator}} p50"),
            Query(quantile(EVALUATION_DURATION, 0.95, "evaluator", WATCHED), "{{evaluator}} p95"),
        ),
        lines(
            Look("Losses", "Every loss has a reason.", unit="cps", width=8, low=0),
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
            Look("Duration of a request", "From the request to the answer.", unit="s", width=8, low=0),
            Query(quantile(JUDGE_REQUEST_DURATION, 0.5, "judge"), "{{judge}} p50"),
            Query(quantile(JUDGE_REQUEST_DURATION, 0.95, "judge"), "{{judge}} p95"),
        ),
        lines(
            Look("Requests in flight", "At the judge's `concurrency`, further ones wait.", width=8, low=0),
            Query(f"sum by (judge) ({JUDGE_REQUESTS_IN_FLIGHT.name})", "{{judge}}"),
        ),
    ]


def _deferred() -> list[object]:
    """Empty where no monitor says `urgency: hours`."""
    return [
        lines(
            Look("Waiting for batches", "Gathering until their batch is submitted, or submitted.", width=6, low=0),
            Query(f"sum by (state) ({EVALUATIONS_DEFERRED.name})", "{{state}}"),
            stacked=True,
        ),
        lines(
            Look(
                "Age of the oldest that waits",
                "A batch is answered within a day. From 26 h on one has expired or is not followed; after 50 h a score"
                " or a failure should be there.",
                unit="s",
                width=6,
                low=0,
                steps=((26 * 3600.0, "orange"), (50 * 3600.0, "red")),
            ),
            Query(f"max({DEFERRED_OLDEST.name})", "oldest"),
        ),
        lines(
            Look("Batches", "Under way, and those that ended within the last hour.", width=6, low=0),
            Query(f"sum by (judge) ({BATCHES_OPEN.name})", "{{judge}} under way"),
            Query(f"sum by (judge, outcome) (increase({BATCHES.name}[1h]))", "{{judge}} {{outcome}}"),
        ),
        lines(
            Look(
                "Requests in batches",
                "Answered, unanswered (in the next batch, once) or asked at once, at the full price; and calls about"
                " batches that failed for now.",
                unit="reqps",
                width=6,
                low=0,
            ),
            Query(rate(BATCH_REQUESTS, "judge, outcome"), "{{judge}} {{outcome}}"),
            Query(rate(BATCH_CALLS_FAILED, "judge, reason"), "{{judge}} call failed: {{reason}}"),
        ),
    ]


def _export() -> list[object]:
    return [
        lines(
            Look("Exported", "Evaluation records that exporters consumed.", unit="cps", width=8),
            Query(rate(EXPORT_EVALUATIONS, "exporter, result"), "{{exporter}} {{result}}"),
        ),
        lines(
            Look("Export lag", "Age of the newest exported evaluation.", unit="s", width=8, low=0),
            Query(f"max by (exporter) ({EXPORT_LAG.name})", "{{exporter}}"),
        ),
        lines(
            Look("Failed attempts", "Each is retried until it succeeds.", unit="cps", width=8),
            Query(rate(EXPORT_FAILURES, "exporter, reason"), "{{exporter}}: {{reason}}"),
        ),
    ]
