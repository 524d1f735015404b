"""Our own Prometheus metrics, declared once as data.

Every series is a constant of this module: the registry, the table in the README and the checks that something feeds
each of them are made from these. Label values come from closed sets in the configuration, never from ids, texts or
free attributes of the traffic; should a set prove open after all, a cap turns the rest into `other` and counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

Kind = Literal["counter", "gauge", "histogram"]
OTHER = "other"
"""What a label value becomes beyond the cap."""


@dataclass(frozen=True, slots=True)
class Series:
    """One Prometheus metric. `buckets` are a histogram's upper bounds, without infinity."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_EVALUATION = ("evaluator", "evaluator_version", "monitor", "segment")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG_SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_AGES = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
_LEVELS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0)  # tenths, and the quarters of 1..5 scales

SCORE = Series(
    "gen_ai_evaluation_score",
    "histogram",
    "Scores on 0..1 as they came, unweighted; exemplars hold the trace id. For means use the estimator's sums.",
    _EVALUATION,
    _LEVELS,
)
ESTIMATOR_W = Series(
    "evalstream_estimator_w_total",
    "counter",
    "Sum of w = 1 / sampling probability over the scored subjects.",
    _EVALUATION,
)
ESTIMATOR_WY = Series(
    "evalstream_estimator_wy_total",
    "counter",
    "Sum of w times score; divided by the sum of w it is the unbiased mean score.",
    _EVALUATION,
)
ESTIMATOR_W2 = Series(
    "evalstream_estimator_w2_total",
    "counter",
    "Sum over conversations of (sum of w) squared, for the mean's standard error.",
    _EVALUATION,
)
ESTIMATOR_W2Y = Series(
    "evalstream_estimator_w2y_total",
    "counter",
    "Sum over conversations of (sum of w) times (sum of w times score), for the mean's standard error.",
    _EVALUATION,
)
ESTIMATOR_W2Y2 = Series(
    "evalstream_estimator_w2y2_total",
    "counter",
    "Sum over conversations of (sum of w times score) squared, for the mean's standard error.",
    _EVALUATION,
)
VERDICTS = Series(
    "evalstream_verdicts_total",
    "counter",
    "Scores that pass or fail their threshold; exemplars on failures hold the trace id.",
    (*_EVALUATION, "verdict"),
)
VERDICT_WEIGHT = Series(
    "evalstream_verdict_weight_total",
    "counter",
    "Sum of 1 / sampling probability over the verdicts: the share of all traffic that passes.",
    (*_EVALUATION, "verdict"),
)
ASSEMBLED = Series(
    "evalstream_assemble_total",
    "counter",
    "By dialect (`readymade`: none was needed): spans read, turns, failed calls, turns that cannot be judged by why, "
    "traces closed by why; late_feedback came when its turn was made, and reaches nobody.",
    ("dialect", "what"),
)
OPEN_TRACES = Series("evalstream_open_traces", "gauge", "Traces that are waited for.")
EVALUATIONS = Series(
    "evalstream_evaluations_total",
    "counter",
    "Evaluations by outcome (scored, skipped, failed) and, where there is no score, why.",
    (*_EVALUATION, "outcome", "reason"),
)
EVALUATION_WEIGHT = Series(
    "evalstream_evaluation_weight_total",
    "counter",
    "Sum of 1 / our own sampling probability over all evaluations, whatever their outcome: the traffic that came and "
    "that they stand for. What samplers before us left out did not come.",
    _EVALUATION,
)
EVALUATION_DURATION = Series(
    "evalstream_evaluation_duration_seconds",
    "histogram",
    "Time from the start to the end of an evaluation, judge calls included.",
    ("evaluator", "monitor"),
    _LONG_SECONDS,
)
LAST_SUCCESS = Series(
    "evalstream_last_success_timestamp_seconds",
    "gauge",
    "When the newest score was made, in seconds since the epoch; absent before the first.",
    ("evaluator", "monitor"),
)
TARGET_SCORE = Series(
    "evalstream_target_score",
    "gauge",
    "The configured threshold of an evaluator, on 0..1.",
    ("evaluator", "evaluator_version", "monitor"),
)
JUDGE_TOKENS = Series(
    "evalstream_judge_tokens_total",
    "counter",
    "Tokens that evaluations used at their judge.",
    ("evaluator", "monitor", "direction"),
)
JUDGE_CALLS = Series(
    "evalstream_judge_calls_total",
    "counter",
    "Answers that evaluations got from their judge.",
    ("evaluator", "monitor"),
)
JUDGE_COST = Series(
    "evalstream_judge_cost_usd_total", "counter", "What evaluations cost at their judge.", ("evaluator", "monitor")
)
JUDGE_CACHE = Series(
    "evalstream_judge_cache_total",
    "counter",
    "Questions that a judge's cache was asked, by result: hit or miss.",
    ("judge", "result"),
)
SAMPLING_PROBABILITY = Series(
    "evalstream_sampling_probability",
    "gauge",
    "With what probability the newest evaluated subject of a stratum was sampled, by samplers before us and by us.",
    ("monitor", "evaluator", "stratum"),
)
BUDGET_USD = Series(
    "evalstream_budget_usd",
    "gauge",
    "The configured budget in US dollars, by period: hour or day; of one monitor, or `all`. The same in every process.",
    ("monitor", "period"),
)
BUDGET_FACTOR = Series(
    "evalstream_budget_factor",
    "gauge",
    "What budgets leave of a monitor's sampling rates, from 0 to 1; the last that was decided.",
    ("monitor",),
)
BUDGET_SPENT = Series(
    "evalstream_budget_spent_ratio",
    "gauge",
    "The largest share of a monitor's hard caps, or of those of all, that is spent or on its way in this process.",
    ("monitor",),
)
JUDGE_MODELS = Series(
    "evalstream_judge_models_total",
    "counter",
    "Further models or fingerprints that a judge named as its own, in this process: its model was changed.",
    ("evaluator", "monitor"),
)
JUDGE_REQUESTS = Series(
    "evalstream_judge_requests_total",
    "counter",
    "Requests to a judge by result: ok, or the type of the error; retries count one by one.",
    ("judge", "result"),
)
JUDGE_REQUEST_DURATION = Series(
    "evalstream_judge_request_duration_seconds",
    "histogram",
    "Time from a request to a judge to its answer, its wait for a free place not included.",
    ("judge",),
    _LONG_SECONDS,
)
JUDGE_IN_FLIGHT = Series("evalstream_judge_in_flight", "gauge", "Requests to a judge that are under way.", ("judge",))
GOLDEN_SHIFT = Series(
    "evalstream_golden_shift",
    "gauge",
    "How far the judge's scores of the golden set have moved from their references, mean of the paired differences.",
    ("evaluator", "evaluator_version", "judge"),
)
GOLDEN_SHIFT_STDERR = Series(
    "evalstream_golden_shift_stderr",
    "gauge",
    "Standard error of that shift.",
    ("evaluator", "evaluator_version", "judge"),
)
GOLDEN_CASES = Series(
    "evalstream_golden_cases",
    "gauge",
    "Cases of the golden set by outcome of the newest run: scored or unscored.",
    ("evaluator", "evaluator_version", "judge", "outcome"),
)
GOLDEN_LAST_RUN = Series(
    "evalstream_golden_last_run_timestamp_seconds",
    "gauge",
    "When the golden set was judged last, in seconds since the epoch.",
    ("evaluator", "evaluator_version", "judge"),
)
AGREEMENT = Series(
    "evalstream_judge_agreement",
    "gauge",
    "How far scores agree with people's labels on the page, by statistic (spearman, kendall_tau_b, weighted_kappa, "
    "krippendorff_alpha, cohen_kappa, sensitivity, specificity); absent below 10 labels.",
    ("evaluator", "evaluator_version", "statistic"),
)
AGREEMENT_BOUND = Series(
    "evalstream_judge_agreement_bound",
    "gauge",
    "Ends of the 95 % interval of that agreement, by bound: low or high; too narrow below 200 labels.",
    ("evaluator", "evaluator_version", "statistic", "bound"),
)
AGREEMENT_LABELS = Series(
    "evalstream_judge_agreement_labels",
    "gauge",
    "Labelled evaluations that the agreement was computed from, 1000 at most.",
    ("evaluator", "evaluator_version"),
)
DROP_LOG_EVIDENCE = Series(
    "evalstream_watch_drop_log_evidence",
    "gauge",
    "The watcher's own drop detector: logarithm of the evidence that the mean has left its target.",
    _EVALUATION,
)
WATCH_POSTS = Series(
    "evalstream_watch_posts_total",
    "counter",
    "Messages of the watcher to Alertmanager or a webhook, by result: ok or failed.",
    ("result",),
)
EXPORTED = Series(
    "evalstream_export_evaluations_total",
    "counter",
    "Evaluations that an exporter dealt with: exported, duplicate, or unreadable.",
    ("exporter", "result"),
)
EXPORT_FAILURES = Series(
    "evalstream_export_failed_attempts_total",
    "counter",
    "Attempts to export that failed and are made again, by reason.",
    ("exporter", "reason"),
)
EXPORT_LAG = Series(
    "evalstream_export_lag_seconds",
    "gauge",
    "Age of the newest evaluation an exporter has dealt with, when it had; what is behind it waits longer.",
    ("exporter",),
)
RECEIVED_REQUESTS = Series(
    "evalstream_receive_requests_total",
    "counter",
    "OTLP requests by the status they were answered with: a number over HTTP, a name over gRPC.",
    ("signal", "status"),
)
RECEIVE_DURATION = Series(
    "evalstream_receive_duration_seconds",
    "histogram",
    "Time from an OTLP request's headers to the answer: body, decoding and the log's durability.",
    ("signal",),
    _SECONDS,
)
INGEST_LAG = Series(
    "evalstream_ingest_lag_seconds",
    "histogram",
    "Age of the last span of an OTLP request, or of ready-made turns, when it is durable: batching and what waited.",
    ("source",),
    _AGES,
)
RECEIVE_PENDING_BYTES = Series(
    "evalstream_receive_pending_bytes", "gauge", "Bytes of OTLP requests that are read but not yet durable."
)
RECEIVED_BYTES = Series(
    "evalstream_receive_bytes_total",
    "counter",
    "Bytes of OTLP requests after decompression, and of ready-made turns, durable in their log.",
    ("source", "signal"),
)
RECEIVED_ITEMS = Series(
    "evalstream_receive_items_total",
    "counter",
    "Spans, log records, ready-made turns, by what became of them: accepted (durable in their log), rejected, ignored.",
    ("source", "signal", "result"),
)
REDACTIONS = Series(
    "evalstream_redactions_total",
    "counter",
    "What was taken out of texts before they were stored or judged, by kind.",
    ("kind",),
)
REDACTION_FAILURES = Series(
    "evalstream_redaction_failures_total",
    "counter",
    "Texts that could not be looked through; they were neither stored nor sent.",
)
SUSPICIOUS = Series(
    "evalstream_suspicious_evaluations_total",
    "counter",
    "Scores of texts that speak to the judge, by the sign of it; one score may show several.",
    ("evaluator", "monitor", "sign"),
)
CANARIES = Series(
    "evalstream_judge_canaries_total",
    "counter",
    "Evaluations repeated with a planted instruction: held, shifted (obeyed), failed, or left_out (busy, over budget).",
    ("evaluator", "judge", "result"),
)
CANARY_COST = Series(
    "evalstream_judge_canary_cost_usd_total", "counter", "What canaries cost at their judge.", ("evaluator", "judge")
)
BREAKER_STATE = Series(
    "evalstream_judge_breaker_state",
    "gauge",
    "Of each judge's endpoint: 0 closed (asked as usual), 1 half open (one question probes), 2 open (not asked).",
    ("judge",),
)
BREAKER_OPENED = Series(
    "evalstream_judge_breaker_opened_total", "counter", "How often a judge's endpoint was found to be out.", ("judge",)
)
JUDGE_PAUSED = Series(
    "evalstream_judge_paused_questions", "gauge", "Questions that wait for a judge's endpoint to come back.", ("judge",)
)
JUDGE_SHED = Series(
    "evalstream_judge_shed_total",
    "counter",
    "Questions given up because the judge's endpoint was out: their evaluations failed.",
    ("judge",),
)
DEAD_LETTERS = Series(
    "evalstream_dead_letters_total",
    "counter",
    "Records that could not be processed and were put aside, by stage and reason.",
    ("stage", "reason"),
)
TURNS = Series(
    "evalstream_turns_total",
    "counter",
    "Turns by what a monitor did with them: sampled, sampled_out, duplicate, late (its conversation was forgotten); "
    "unmatched (no monitor) where none watches them.",
    ("monitor", "outcome"),
)
CONVERSATIONS = Series(
    "evalstream_conversations_total",
    "counter",
    "Conversations that fell silent, judged or not: the population of evaluators of conversations. One that goes on "
    "after that counts again, as it is evaluated again.",
    ("monitor",),
)
LEDGER = Series(
    "evalstream_ledger_total",
    "counter",
    "Where evaluations went: matched and resumed are those that fell due; each ends as one of scored, skipped, failed, "
    "sampled_out, over_budget, shed, superseded, duplicate; or is handed_over to its partition's next owner.",
    ("monitor", "evaluator", "what", "reason"),
)
BEGUN = Series(
    "evalstream_evaluations_begun_total",
    "counter",
    "Evaluations that were taken up, also again after a restart: neither sampled out nor made before.",
    ("monitor", "evaluator"),
)
CONVERSATIONS_CLOSED = Series(
    "evalstream_conversations_closed_total",
    "counter",
    "Conversations that closed, by what: idle, explicit, max_age, max_turns, max_bytes, evicted (early, for memory).",
    ("monitor", "closed_by"),
)
GAPS = Series(
    "evalstream_incomplete_conversations_total",
    "counter",
    "Conversations that closed although histories tell of messages of the user that never came in a turn.",
    ("monitor",),
)
OPEN_CONVERSATIONS = Series(
    "evalstream_open_conversations", "gauge", "Conversations that are not over yet, over all monitors."
)
EVALUATIONS_IN_FLIGHT = Series("evalstream_evaluations_in_flight", "gauge", "Evaluations that are under way.")
EVALUATIONS_WAITING = Series(
    "evalstream_evaluations_waiting",
    "gauge",
    "Evaluations that wait for a free place of their judge's; each judge has places of its own.",
    ("judge",),
)
HELD_BACK = Series(
    "evalstream_held_back_partitions",
    "gauge",
    "Partitions of the turns log not read on, for no more evaluations of this judge (none: of no judge) may wait.",
    ("judge",),
)
STAGE_BACKLOG = Series(
    "evalstream_stage_backlog_records",
    "gauge",
    "Records of its log that a reader has not been given yet, over the partitions this process owns.",
    ("reader", "log"),
)
STAGE_AGE = Series(
    "evalstream_stage_oldest_seconds",
    "gauge",
    "Age of the record that a reader has been given last while others wait behind it; 0 when it is at the end.",
    ("reader", "log"),
)
BUILD_INFO = Series("evalstream_build_info", "gauge", "Always 1; says which version runs.", ("version",))
CONFIG_INFO = Series(
    "evalstream_config_info", "gauge", "Always 1; says which configuration runs, by a hash of it.", ("hash",)
)
DROPS = Series(
    "evalstream_drops_total",
    "counter",
    "What was lost or left out, by stage and reason; every loss is here.",
    ("stage", "reason"),
)
LABEL_OVERFLOW = Series(
    "evalstream_label_overflow_total",
    "counter",
    "Uses of a label value beyond the cap, counted under `other` instead.",
    ("label",),
)


def series() -> Iterator[Series]:
    """Every declared series, in the order of this file."""
    return (value for value in globals().values() if isinstance(value, Series))


def table() -> str:
    """The series as a Markdown table, for the README."""
    rows = [f"| `{each.name}` | {each.kind} | {_code(each.labels)} | {each.help} |" for each in series()]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _code(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{label}`" for label in labels) or "–"


class Telemetry:
    """The series of one process, on a registry of their own.

    `label_values` is how many values a label may take over all series; those named to `reserve` always have a place.
    """

    def __init__(self, *, label_values: int = 200) -> None:
        disable_created_metrics()  # a switch of the library, not of a registry: saves a series per child
        self.registry = CollectorRegistry(auto_describe=True)
        self._cap = label_values
        self._values: dict[str, set[str]] = {}
        self._children: dict[tuple[str, ...], Counter | Gauge | Histogram] = {}
        self._parents = {each.name: self._declare(each) for each in series()}

    def counter(self, of: Series, *labels: str) -> Counter:
        """The counter of these label values, in the order the series declares them."""
        child = self._child(of, labels)
        assert isinstance(child, Counter), of.name
        return child

    def gauge(self, of: Series, *labels: str) -> Gauge:
        """The gauge of these label values."""
        child = self._child(of, labels)
        assert isinstance(child, Gauge), of.name
        return child

    def histogram(self, of: Series, *labels: str) -> Histogram:
        """The histogram of these label values."""
        child = self._child(of, labels)
        assert isinstance(child, Histogram), of.name
        return child

    def drop(self, stage: str, reason: str, count: float = 1) -> None:
        """Count a loss."""
        self.counter(DROPS, stage, reason).inc(count)

    def reserve(self, label: str, *values: str) -> None:
        """Give values out of the configuration their place before any traffic can take it."""
        self._values.setdefault(label, set()).update(values)

    def _declare(self, of: Series) -> Counter | Gauge | Histogram:
        match of.kind:
            case "counter":
                return Counter(of.name, of.help, of.labels, registry=self.registry)
            case "gauge":
                return Gauge(of.name, of.help, of.labels, registry=self.registry)
            case "histogram":
                return Histogram(of.name, of.help, of.labels, buckets=of.buckets, registry=self.registry)

    def _child(self, of: Series, labels: tuple[str, ...]) -> Counter | Gauge | Histogram:
        key = (of.name, *labels)
        child = self._children.get(key)
        if child is None:
            capped = self._within_caps(of, labels)
            parent = self._parents[of.name]
            child = parent.labels(*capped) if capped else parent
            if capped == labels:  # else values without end would be kept here
                self._children[key] = child
        return child

    def _within_caps(self, of: Series, labels: tuple[str, ...]) -> tuple[str, ...]:
        if of is LABEL_OVERFLOW:
            return labels
        return tuple(self._capped(label, value) for label, value in zip(of.labels, labels, strict=True))

    def _capped(self, label: str, value: str) -> str:
        known = self._values.setdefault(label, set())
        if value in known:
            return value
        if len(known) < self._cap:
            known.add(value)
            return value
        self.counter(LABEL_OVERFLOW, label).inc()
        return OTHER
