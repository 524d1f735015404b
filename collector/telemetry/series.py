"""The service's own Prometheus metrics, declared once as data.

Every series is a constant of this module: the registry, the documentation's table and the checks that something feeds
each of them are made from these. A metric's values may be summed over all its labels: what must not be added up has
another name. Label values come from closed sets in the configuration, never from ids, texts or free attributes of the
traffic; if a set proves open after all, the registry's cap turns the rest into `other` and counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
OTHER = "other"
"""The label value that stands for all values beyond the cap."""


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


# --- scores ---
SCORE = Series(
    "gen_ai_evaluation_score",
    "histogram",
    "Scores on 0..1, unweighted; exemplars carry the trace id. For means use the sums of `evalstream_estimator_…`.",
    _EVALUATION,
    _LEVELS,
)
ESTIMATOR_W = Series(
    "evalstream_estimator_w_total",
    "counter",
    "Sum of the weights w = 1 / sampling probability over the scored subjects, as far as they are not clipped.",
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
AUDITED_SUMS = Series(
    "evalstream_audited_sums_total",
    "counter",
    "The twenty sums by which audits correct a mean: totals, and products of two of them, over conversations.",
    (*_EVALUATION, "sum"),
)
AUDITS = Series(
    "evalstream_audits_total",
    "counter",
    "Audits by what came of them: scored, or the reason why the expensive judge gave no score.",
    ("evaluator", "monitor", "outcome"),
)
ESTIMATOR_CLIPPED = Series(
    "evalstream_estimator_clipped_total",
    "counter",
    "Weight left out of the sum of w, as its conversation would weigh more than 20 times the mean of the last 1,000.",
    _EVALUATION,
)
CORRECTED_WY = Series(
    "evalstream_corrected_wy_total",
    "counter",
    "Of cascades: sum of w times (corrected score + shift). Over the estimator's w, less shift: the corrected mean.",
    _EVALUATION,
)
CORRECTED_W2Y = Series(
    "evalstream_corrected_w2y_total",
    "counter",
    "Of cascades: sum over conversations of (sum of w) times (sum of w times (corrected score + shift)).",
    _EVALUATION,
)
CORRECTED_W2Y2 = Series(
    "evalstream_corrected_w2y2_total",
    "counter",
    "Of cascades: sum over conversations of (sum of w times (corrected score + shift)) squared.",
    _EVALUATION,
)
CORRECTED_SHIFT = Series(
    "evalstream_corrected_shift",
    "gauge",
    "What is added to the corrected scores of a cascade, so that their sums never fall: 1 / share - 1.",
    ("evaluator", "evaluator_version", "monitor"),
)
ESCALATIONS = Series(
    "evalstream_escalations_total",
    "counter",
    "Evaluations by a cascade, by why its second judge was asked: share, doubt, unknown, unreadable; sure: it was not.",
    ("evaluator", "monitor", "reason"),
)
EVIDENCE_W = Series(
    "evalstream_evidence_w_total",
    "counter",
    "Sum of v, the weights as shares of the drop detector's scale, so that no conversation's sum is above 1.",
    _EVALUATION,
)
EVIDENCE_WY = Series(
    "evalstream_evidence_wy_total",
    "counter",
    "Sum of v times score.",
    _EVALUATION,
)
EVIDENCE_W2 = Series(
    "evalstream_evidence_w2_total",
    "counter",
    "Sum over conversations of (sum of v) squared.",
    _EVALUATION,
)
EVIDENCE_W2Y = Series(
    "evalstream_evidence_w2y_total",
    "counter",
    "Sum over conversations of (sum of v) times (sum of v times score).",
    _EVALUATION,
)
EVIDENCE_W2Y2 = Series(
    "evalstream_evidence_w2y2_total",
    "counter",
    "Sum over conversations of (sum of v times score) squared.",
    _EVALUATION,
)
VERDICTS = Series(
    "evalstream_verdicts_total",
    "counter",
    "Scores by verdict on their threshold, pass or fail; exemplars on failures carry the trace id.",
    (*_EVALUATION, "verdict"),
)
VERDICT_WEIGHT = Series(
    "evalstream_verdict_weight_total",
    "counter",
    "Sum of 1 / sampling probability by verdict; the share of `pass` estimates the pass rate of all traffic.",
    (*_EVALUATION, "verdict"),
)
LABELS = Series(
    "evalstream_labels_total",
    "counter",
    "Scored evaluations by the label that a classifier chose; of evaluators with labels of their own.",
    (*_EVALUATION, "label"),
)
LABEL_WEIGHT = Series(
    "evalstream_label_weight_total",
    "counter",
    "Sum of 1 / sampling probability by label; a label's share of it estimates that of all traffic.",
    (*_EVALUATION, "label"),
)
EVALUATIONS = Series(
    "evalstream_evaluations_total",
    "counter",
    "Evaluations that were exported, each once, by outcome (scored, skipped, failed) and, without a score, by reason.",
    (*_EVALUATION, "outcome", "reason"),
)
EVALUATIONS_RETRIED = Series(
    "evalstream_evaluations_retried_total",
    "counter",
    "Failed evaluations that were made again, by the reason of the failure. `evalstream_evaluations_total` has each as "
    "a failure and under its new outcome: subtract this to count it once. Weights and means have it once.",
    (*_EVALUATION, "reason"),
)
EVALUATIONS_BACKFILLED = Series(
    "evalstream_evaluations_backfilled_total",
    "counter",
    "Evaluations of the past that `evalstream rejudge` requested, by outcome. No other metric of scores, weights and "
    "verdicts has them; tokens, calls, seconds and cost do.",
    ("evaluator", "evaluator_version", "monitor", "outcome"),
)
EVALUATION_WEIGHT = Series(
    "evalstream_evaluation_weight_total",
    "counter",
    "Sum of 1 / this service's sampling probability over all evaluations, whatever their outcome: an estimate of "
    "the traffic received. Traffic that upstream samplers removed is not in it.",
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
    "Time of the newest score, in seconds since the epoch; absent before the first.",
    ("evaluator", "monitor"),
)
TARGET_SCORE = Series(
    "evalstream_target_score",
    "gauge",
    "The configured threshold of an evaluator, on 0..1.",
    ("evaluator", "evaluator_version", "monitor"),
)
EVALUATOR_INFO = Series(
    "evalstream_evaluator_info",
    "gauge",
    "Always 1. What an evaluator judges (scope: turn or conversation), and which scores are better: higher or lower.",
    ("evaluator", "evaluator_version", "monitor", "scope", "better"),
)
INJECTION_SIGNS = Series(
    "evalstream_injection_signs_total",
    "counter",
    "Signs of an attempt to instruct the judge, detected in scored texts, by sign; one score may show several.",
    ("evaluator", "monitor", "sign"),
)
# --- tokens, money and sampling ---
JUDGE_TOKENS = Series(
    "evalstream_judge_tokens_total",
    "counter",
    "Tokens that evaluations used, by direction: input or output.",
    ("evaluator", "monitor", "direction"),
)
JUDGE_CACHED_TOKENS = Series(
    "evalstream_judge_cached_tokens_total",
    "counter",
    "Input tokens that providers' prompt caches had (cache: read) or were given (write); part of those of `input`.",
    ("evaluator", "monitor", "cache"),
)
JUDGE_CALLS = Series(
    "evalstream_judge_calls_total",
    "counter",
    "Judge answers that evaluations used, cached ones included.",
    ("evaluator", "monitor"),
)
JUDGE_COST = Series(
    "evalstream_judge_cost_usd_total",
    "counter",
    "Cost of evaluations in US dollars, by the prices in the configuration.",
    ("evaluator", "monitor"),
)
JUDGE_CACHE_REQUESTS = Series(
    "evalstream_judge_cache_requests_total",
    "counter",
    "Look-ups in a judge's cache by result: hit or miss.",
    ("judge", "result"),
)
JUDGE_MODEL_CHANGES = Series(
    "evalstream_judge_model_changes_total",
    "counter",
    "Further model names or fingerprints that a judge reported to this process: its provider changed the model.",
    ("evaluator", "monitor"),
)
SAMPLING_PROBABILITY = Series(
    "evalstream_sampling_probability",
    "gauge",
    "Sampling probability of the newest evaluated subject of a stratum, upstream samplers included.",
    ("monitor", "evaluator", "stratum"),
)
BUDGET_USD = Series(
    "evalstream_budget_usd",
    "gauge",
    "The configured budget of a monitor in US dollars, by period: hour or day. The same in every process.",
    ("monitor", "period"),
)
BUDGET_FACTOR = Series(
    "evalstream_budget_factor",
    "gauge",
    "Factor on a monitor's sampling rates that its budget leaves, from 0 to 1; the newest decision.",
    ("monitor",),
)
BUDGET_SPENT = Series(
    "evalstream_budget_spent_ratio",
    "gauge",
    "The largest share of a monitor's hard caps that this process has spent or reserved.",
    ("monitor",),
)
TOTAL_BUDGET_USD = Series(
    "evalstream_total_budget_usd",
    "gauge",
    "The configured budget of all monitors together in US dollars, by period: hour or day.",
    ("period",),
)
TOTAL_BUDGET_SPENT = Series(
    "evalstream_total_budget_spent_ratio",
    "gauge",
    "The largest share of the hard caps of all monitors together that this process has spent or reserved.",
)
# --- judges ---
JUDGE_REQUESTS = Series(
    "evalstream_judge_requests_total",
    "counter",
    "Requests to a judge by result: ok, or the type of the error; retries count one by one.",
    ("judge", "result"),
)
JUDGE_REQUEST_DURATION = Series(
    "evalstream_judge_request_duration_seconds",
    "histogram",
    "Time from a request to a judge to its answer, without the wait for a free slot.",
    ("judge",),
    _LONG_SECONDS,
)
JUDGE_REQUESTS_IN_FLIGHT = Series(
    "evalstream_judge_requests_in_flight",
    "gauge",
    "Requests to a judge that await their answer.",
    ("judge",),
)
BREAKER_STATE = Series(
    "evalstream_judge_breaker_state",
    "gauge",
    "1 for the state that the circuit breaker of a judge's endpoint is in, 0 for the others: closed (requests "
    "pass), half_open (one request probes), open (none pass).",
    ("judge", "state"),
)
BREAKER_OPENED = Series(
    "evalstream_judge_breaker_opened_total",
    "counter",
    "Times that the circuit breaker of a judge's endpoint opened.",
    ("judge",),
)
JUDGE_PAUSED_REQUESTS = Series(
    "evalstream_judge_paused_requests",
    "gauge",
    "Requests that wait because the circuit breaker of the judge's endpoint is open.",
    ("judge",),
)
JUDGE_ABANDONED_REQUESTS = Series(
    "evalstream_judge_abandoned_requests_total",
    "counter",
    "Requests given up because the circuit breaker of the judge's endpoint stayed open: their evaluations failed.",
    ("judge",),
)
CANARIES = Series(
    "evalstream_judge_canaries_total",
    "counter",
    "Canary runs (an evaluation repeated with an injected instruction) by result: resisted, shifted (the score "
    "moved as instructed), failed, skipped (no free slot, or over budget).",
    ("evaluator", "judge", "result"),
)
CANARY_COST = Series(
    "evalstream_judge_canary_cost_usd_total",
    "counter",
    "Cost of canary runs in US dollars.",
    ("evaluator", "judge"),
)
GOLDEN_SHIFT = Series(
    "evalstream_golden_shift",
    "gauge",
    "Mean difference between the judge's newest scores of the golden set and their references.",
    ("evaluator", "evaluator_version", "judge"),
)
GOLDEN_SHIFT_STDERR = Series(
    "evalstream_golden_shift_stderr",
    "gauge",
    "Standard error of that mean difference.",
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
    "Time of the newest run of the golden set, in seconds since the epoch.",
    ("evaluator", "evaluator_version", "judge"),
)
AGREEMENT = Series(
    "evalstream_judge_agreement",
    "gauge",
    "Agreement of scores with people's labels on the page, by statistic (spearman, kendall_tau_b, weighted_kappa, "
    "krippendorff_alpha, cohen_kappa, sensitivity, specificity); absent below 10 labels.",
    ("evaluator", "evaluator_version", "statistic"),
)
AGREEMENT_BOUND = Series(
    "evalstream_judge_agreement_bound",
    "gauge",
    "Bounds of that agreement's 95 % interval: low or high; too narrow below 200 labels.",
    ("evaluator", "evaluator_version", "statistic", "bound"),
)
AGREEMENT_LABELS = Series(
    "evalstream_judge_agreement_labels",
    "gauge",
    "Labelled evaluations that the agreement is computed from, 1000 at most.",
    ("evaluator", "evaluator_version"),
)
PEOPLE_AGREEMENT = Series(
    "evalstream_people_agreement",
    "gauge",
    "Agreement of verdicts with people's by drawn labels, weighted: statistic share, kappa or youden_j, bound value, "
    "low or high (95 %).",
    ("evaluator", "evaluator_version", "statistic", "bound"),
)
PEOPLE_SEGMENT_AGREEMENT = Series(
    "evalstream_people_segment_agreement",
    "gauge",
    "The same by segment of the traffic, from 10 labelled conversations on.",
    ("evaluator", "evaluator_version", "segment", "statistic", "bound"),
)
PEOPLE_LABELS = Series(
    "evalstream_people_labels",
    "gauge",
    "Effective number of labelled conversations behind the agreement with people.",
    ("evaluator", "evaluator_version"),
)
PEOPLE_SUMS = Series(
    "evalstream_people_sums",
    "gauge",
    "Sums over the drawn labels of seven days, by which people correct a mean (helpful:people).",
    ("evaluator", "evaluator_version", "monitor", "segment", "sum"),
)
PEOPLE_WITHHELD = Series(
    "evalstream_people_withheld",
    "gauge",
    "1 where the mean by people is withheld: reason few labels, weak (sensitivity + specificity - 1 is small), drift.",
    ("evaluator", "evaluator_version", "monitor", "reason"),
)
# --- receiving ---
RECEIVE_REQUESTS = Series(
    "evalstream_receive_requests_total",
    "counter",
    "OTLP requests by status of the answer: a code over HTTP (source otlp_http), a name over gRPC (source otlp_grpc).",
    ("source", "signal", "status"),
)
RECEIVE_DURATION = Series(
    "evalstream_receive_duration_seconds",
    "histogram",
    "Time from an OTLP request's headers to its answer: body, decoding and the durable append.",
    ("source", "signal"),
    _SECONDS,
)
INGEST_LAG = Series(
    "evalstream_ingest_lag_seconds",
    "histogram",
    "Age of the last span of an OTLP request, or of ready-made turns, once durable: the sender's batching, and "
    "the time in a queue.",
    ("source",),
    _AGES,
)
RECEIVE_PENDING_BYTES = Series(
    "evalstream_receive_pending_bytes",
    "gauge",
    "Bytes in memory for OTLP requests that are not yet durable: bodies, decompressed and not, and records.",
)
RECEIVE_REJECTED = Series(
    "evalstream_receive_rejected_total",
    "counter",
    "OTLP requests that were not accepted, and connections over HTTP that were refused (reason connections). "
    "By reason and by the tenant of their credential (`unnamed` without one).",
    ("source", "reason", "tenant"),
)
REFUSED_CONNECTIONS = Series(
    "evalstream_refused_connections_total",
    "counter",
    "Connections that were refused because too many were open, by listener: otlp_http, page, metrics.",
    ("source",),
)
WRONG_TOKENS = Series(
    "evalstream_wrong_tokens_total",
    "counter",
    "Bearer tokens that are not valid, by where they were sent: otlp_http, otlp_grpc, page.",
    ("source",),
)
RECEIVE_BYTES = Series(
    "evalstream_receive_bytes_total",
    "counter",
    "Bytes that became durable: OTLP requests after decompression, and ready-made turns.",
    ("source", "signal"),
)
RECEIVE_ITEMS = Series(
    "evalstream_receive_items_total",
    "counter",
    "Spans, log records and ready-made turns by result: accepted (durable in their log), rejected, ignored.",
    ("source", "signal", "result"),
)
MEDIA_OMITTED = Series(
    "evalstream_media_omitted_total",
    "counter",
    "Pictures, recordings and files of which only hash and size are stored.",
    ("source",),
)
NOTED = Series(
    "evalstream_thin_pieces_total",
    "counter",
    "Pieces of traces whose only turn nobody can want: receivers note it, so that no other stage reads the piece.",
    ("source",),
)
REDACTIONS = Series(
    "evalstream_redactions_total",
    "counter",
    "Pieces of text masked before storage and evaluation, by kind.",
    ("kind",),
)
REDACTION_FAILURES = Series(
    "evalstream_redaction_failures_total",
    "counter",
    "Texts that redaction could not process; they were neither stored nor sent to a judge.",
)
# --- from spans to turns and conversations ---
SPANS_READ = Series(
    "evalstream_spans_read_total",
    "counter",
    "Spans of closed traces by the dialect that read them; none: not a call that a dialect knows. A trace that "
    "closes again is read again.",
    ("dialect",),
)
UNREAD_TEXT = Series(
    "evalstream_unread_text_total",
    "counter",
    "Spans with text like questions and answers that no dialect reads, in the traces without a turn that are looked at "
    "(one a second at most).",
    ("scope",),
)
UNREPEATED_IDS = Series(
    "evalstream_unrepeated_conversation_ids_total",
    "counter",
    "Services whose ids under this attribute name another conversation in each trace while another attribute's "
    "repeat; the log says which setting helps.",
    ("attribute",),
)
TRACES_CLOSED = Series(
    "evalstream_traces_closed_total",
    "counter",
    "Traces closed and assembled, by reason; a trace that late spans reopen closes again.",
    ("reason",),
)
TURNS_ASSEMBLED = Series(
    "evalstream_turns_assembled_total",
    "counter",
    "Turns by dialect (`readymade`: received as turns) and outcome: complete, failed (the application's call "
    "ended in an error), incomplete (cannot be evaluated: `reason` says what is missing), agent_run (of an "
    "agent inside a turn, no turn more).",
    ("dialect", "outcome", "reason"),
)
LATE_FEEDBACK = Series(
    "evalstream_late_feedback_total",
    "counter",
    "Feedback in traces that came after its turn was made: not part of the turn, but joined by its ids.",
)
OPEN_TRACES = Series(
    "evalstream_open_traces",
    "gauge",
    "Traces that wait for further spans.",
)
TURNS = Series(
    "evalstream_turns_total",
    "counter",
    "Turns that matched a monitor, once for each, by outcome: sampled, sampled_out, duplicate, late (its "
    "conversation is no longer remembered).",
    ("monitor", "outcome"),
)
UNMATCHED_TURNS = Series(
    "evalstream_unmatched_turns_total",
    "counter",
    "Turns that no monitor matched.",
)
UPSTREAM_IGNORED = Series(
    "evalstream_upstream_ignored_total",
    "counter",
    "Matched turns whose tracestate names an earlier sampling rate that `receive.trust_tracestate` does not believe.",
    ("monitor",),
)
CONVERSATIONS = Series(
    "evalstream_conversations_total",
    "counter",
    "Conversations that became idle, sampled or not: the population of conversation evaluators. One that "
    "continues afterwards counts again, as it is evaluated again.",
    ("monitor",),
)
CONVERSATIONS_CLOSED = Series(
    "evalstream_conversations_closed_total",
    "counter",
    "Sampled conversations that closed, by reason: idle, explicit, max_age, max_turns, max_bytes, evicted (early, "
    "to bound memory).",
    ("monitor", "reason"),
)
INCOMPLETE_CONVERSATIONS = Series(
    "evalstream_incomplete_conversations_total",
    "counter",
    "Conversations that closed without some of the user's messages: a later prompt's history has them, but their "
    "turns never came.",
    ("monitor",),
)
OPEN_CONVERSATIONS = Series(
    "evalstream_open_conversations",
    "gauge",
    "Sampled conversations that are still open, over all monitors.",
)
# --- evaluations: due = ended + in flight ---
EVALUATIONS_DUE = Series(
    "evalstream_evaluations_due_total",
    "counter",
    "Evaluations that became due in this process, by origin: matched (a turn came, or a conversation closed), "
    "resumed (left unfinished by an earlier owner of the partition), retried (it had failed, and was requested again), "
    "backfilled (`evalstream rejudge` requested it).",
    ("monitor", "evaluator", "origin"),
)
EVALUATIONS_STARTED = Series(
    "evalstream_evaluations_started_total",
    "counter",
    "Evaluations due that went to their judge's queue: neither sampled out nor duplicates. Those resumed after a "
    "restart count again.",
    ("monitor", "evaluator"),
)
EVALUATIONS_ENDED = Series(
    "evalstream_evaluations_ended_total",
    "counter",
    "Evaluations by outcome: scored, skipped, failed (recorded, with the reason), sampled_out, duplicate, "
    "superseded, reassigned (unfinished; resumed by the partition's next owner), removed (unfinished; a changed "
    "configuration has its evaluator no more). Due = ended + in flight.",
    ("monitor", "evaluator", "outcome", "reason"),
)
FEEDBACK = Series(
    "evalstream_feedback_total",
    "counter",
    "Feedback by what became of it: joined, unmatched (nothing judged came within the wait), crowded_out, duplicate.",
    ("outcome",),
)
FEEDBACK_WAITING = Series(
    "evalstream_feedback_waiting",
    "gauge",
    "Feedback that waits in this process for an evaluation of what it is about.",
)
FEEDBACK_VERDICTS = Series(
    "evalstream_feedback_verdicts_total",
    "counter",
    "Joined feedback by verdict: good (from the middle of its scale on), bad, or none for words alone.",
    ("feedback", "source", "monitor", "verdict"),
)
FEEDBACK_W = Series(
    "evalstream_feedback_w_total",
    "counter",
    "Sum of the weights w = 1 / sampling probability over joined feedback with a number.",
    ("feedback", "source", "monitor"),
)
FEEDBACK_WY = Series(
    "evalstream_feedback_wy_total",
    "counter",
    "Sum of w times the feedback on 0..1; divided by the sum of w it is the mean of those who gave some.",
    ("feedback", "source", "monitor"),
)
FEEDBACK_W2 = Series(
    "evalstream_feedback_w2_total",
    "counter",
    "Sum over conversations of (sum of w) squared, for that mean's standard error.",
    ("feedback", "source", "monitor"),
)
FEEDBACK_W2Y = Series(
    "evalstream_feedback_w2y_total",
    "counter",
    "Sum over conversations of (sum of w) times (sum of w times feedback), for that mean's error.",
    ("feedback", "source", "monitor"),
)
FEEDBACK_W2Y2 = Series(
    "evalstream_feedback_w2y2_total",
    "counter",
    "Sum over conversations of (sum of w times feedback) squared, for that mean's error.",
    ("feedback", "source", "monitor"),
)
REFERENCES = Series(
    "evalstream_references_total",
    "counter",
    "References by outcome: received (each once), duplicate (again), joined (with the first evaluation that needed "
    "it). What was received and not joined within the wait came for nobody, or for what was not sampled.",
    ("outcome",),
)
REFERENCES_MISSING = Series(
    "evalstream_references_missing_total",
    "counter",
    "Evaluations that were skipped as no reference had come within the wait.",
    ("monitor", "evaluator"),
)
REFERENCES_AWAITED = Series(
    "evalstream_references_awaited",
    "gauge",
    "Evaluations that wait for a reference in this process; they are not due yet.",
)
EVALUATIONS_IN_FLIGHT = Series(
    "evalstream_evaluations_in_flight",
    "gauge",
    "Evaluations that are due and have not ended: they wait or run.",
)
EVALUATIONS_RUNNING = Series(
    "evalstream_evaluations_running",
    "gauge",
    "Evaluations in flight that have a slot at their judge.",
)
EVALUATIONS_WAITING = Series(
    "evalstream_evaluations_waiting",
    "gauge",
    "Evaluations in flight that wait for a slot at their judge; each judge has its own (none: evaluators without "
    "a judge).",
    ("judge",),
)
EVALUATIONS_DEFERRED = Series(
    "evalstream_evaluations_deferred",
    "gauge",
    "Evaluations in flight that wait for batches, by state: gathering or submitted.",
    ("state",),
)
DEFERRED_OLDEST = Series(
    "evalstream_deferred_oldest_seconds",
    "gauge",
    "Age of the oldest evaluation that waits for batches; 0 if none does.",
)
BATCH_REQUESTS = Series(
    "evalstream_batch_requests_total",
    "counter",
    "Requests of deferred evaluations: answered or unanswered (sent once more) in a batch that has ended, or asked "
    "at_once, at the full price.",
    ("judge", "outcome"),
)
BATCHES_OPEN = Series(
    "evalstream_batches_open",
    "gauge",
    "Judges' batches that are submitted, or may be, and have not ended.",
    ("judge",),
)
BATCHES = Series(
    "evalstream_batches_total",
    "counter",
    "Judges' batches that have ended: completed, expired, cancelled, failed (refused as a whole) or gone.",
    ("judge", "outcome"),
)
BATCH_CALLS_FAILED = Series(
    "evalstream_batch_calls_failed_total",
    "counter",
    "Calls to a provider about batches that failed and are tried again, by the error's type.",
    ("judge", "reason"),
)
BATCHES_ABSENT = Series(
    "evalstream_batches_absent",
    "gauge",
    "1 while a judge's endpoint takes no batches: evaluations that may wait are made at once; 0 where it takes some.",
    ("judge",),
)
UNDEFERRED = Series(
    "evalstream_evaluations_undeferred_total",
    "counter",
    "Evaluations that may wait and were made at once, at the full price, as their judge takes no batches.",
    ("monitor",),
)
PAUSED_PARTITIONS = Series(
    "evalstream_paused_partitions",
    "gauge",
    "Partitions of the turns log that are paused because too many evaluations wait for this judge (none: for "
    "evaluators without a judge).",
    ("judge",),
)
# --- out ---
EXPORT_EVALUATIONS = Series(
    "evalstream_export_evaluations_total",
    "counter",
    "Evaluation records that an exporter consumed, by result: exported, rejected (refused by the destination for good, "
    "or until the exporter gave up), duplicate, unreadable, void (written by a former owner of its partition).",
    ("exporter", "result"),
)
EXPORT_FAILURES = Series(
    "evalstream_export_failed_attempts_total",
    "counter",
    "Failed attempts to export, by reason; each is retried.",
    ("exporter", "reason"),
)
EXPORT_LAG = Series(
    "evalstream_export_lag_seconds",
    "gauge",
    "Age of the newest evaluation that an exporter has exported, at the time of export.",
    ("exporter",),
)
DROP_EXPLAINED = Series(
    "evalstream_drop_explained_ratio",
    "gauge",
    "Share of a drop that a part of the traffic (`slice`) explains; 0 when it is over.",
    ("evaluator", "monitor", "slice"),
)
DROP_LOG_EVIDENCE = Series(
    "evalstream_watch_drop_log_evidence",
    "gauge",
    "Drop detection of the watch stage: logarithm of the evidence that the mean has fallen below its target.",
    _EVALUATION,
)
WATCH_NOTIFICATIONS = Series(
    "evalstream_watch_notifications_total",
    "counter",
    "Notifications of the watch stage to Alertmanager or a webhook, by result: ok or failed.",
    ("result",),
)
_RELEASE = ("monitor", "attribute", "within", "baseline", "version")
RELEASE_STARTED = Series(
    "evalstream_release_started_timestamp_seconds",
    "gauge",
    "When a version came that is compared with its baseline, to the hour, in seconds since the epoch.",
    _RELEASE,
)
RELEASE_DIFFERENCE = Series(
    "evalstream_release_difference",
    "gauge",
    "Mean score of a version less that of its baseline, side by side or, if it replaced it at once, before and after.",
    ("evaluator", "evaluator_version", *_RELEASE),
)
RELEASE_BOUND = Series(
    "evalstream_release_difference_bound",
    "gauge",
    "Bounds of that difference's 95 % interval, which holds at all times at once: low or high.",
    ("evaluator", "evaluator_version", *_RELEASE, "bound"),
)
RELEASE_WORSE = Series(
    "evalstream_release_worse",
    "gauge",
    "1 for a version that is worse than its baseline for sure (alerts.release_error_rate), else 0.",
    ("evaluator", "evaluator_version", *_RELEASE),
)
# --- the service ---
CONSUMER_LAG_RECORDS = Series(
    "evalstream_consumer_lag_records",
    "gauge",
    "Records of its log that a consumer has not received yet, over the partitions this process owns.",
    ("consumer", "log"),
)
CONSUMER_LAG_SECONDS = Series(
    "evalstream_consumer_lag_seconds",
    "gauge",
    "Age of the last record that a consumer received while others wait behind it; 0 without lag.",
    ("consumer", "log"),
)
RECORDS_LOST = Series(
    "evalstream_records_lost_total",
    "counter",
    "Records that a log's retention deleted although a consumer needed them, by reason: `retention` (before"
    " the consumer read them), `retention_replay` (read before, but needed for the open state of a restart) or"
    " `topic_replaced` (one for each partition of a source topic that was deleted and made again).",
    ("consumer", "log", "reason"),
)
LOG_RETENTION = Series(
    "evalstream_log_retention_seconds",
    "gauge",
    "Age at which a log deletes a record whether it was read or not (a topic's `retention.ms`); +Inf if it never does.",
    ("log",),
)
OLDEST_NEEDED = Series(
    "evalstream_oldest_needed_seconds",
    "gauge",
    "Age of the oldest record that a consumer still needs, unread or for its open state; 0 if it needs none.",
    ("consumer", "log"),
)
DEAD_LETTERS = Series(
    "evalstream_dead_letters_total",
    "counter",
    "Records that could not be processed and were dead-lettered, by stage and reason.",
    ("stage", "reason"),
)
DROPS = Series(
    "evalstream_drops_total",
    "counter",
    "Lost or left out; what one is goes by the reason: runbook EvalstreamDrops.",
    ("stage", "reason"),
)
LABEL_OVERFLOW = Series(
    "evalstream_label_overflow_total",
    "counter",
    "Uses of a label value beyond the cap, counted under `other` instead.",
    ("label",),
)
HEALTH_CHECK = Series(
    "evalstream_health_check_ok",
    "gauge",
    "1 while a health check of the process finds nothing wrong, else 0: log (it can be written), consumers (none is "
    "stalled), judges (each can be reached), exporters (each can export), disk (it has room), "
    "configuration (no changed one is refused).",
    ("check",),
)
BUILD_INFO = Series(
    "evalstream_build_info",
    "gauge",
    "Always 1; its label is the running version.",
    ("version",),
)
CONFIG_INFO = Series(
    "evalstream_config_info",
    "gauge",
    "Always 1; its label is a hash of the running configuration.",
    ("hash",),
)
CONFIG_SECTION_INFO = Series(
    "evalstream_config_section_info",
    "gauge",
    "1 for each section of the running configuration, with a hash of it.",
    ("section", "hash"),
)
RULES_INFO = Series(
    "evalstream_rules_info",
    "gauge",
    "Always 1; its label is a hash of the alert rules that `evalstream rules` writes for the running configuration.",
    ("hash",),
)
CONFIGURATION_NUMBER = Series(
    "evalstream_configuration_number",
    "gauge",
    "The number of the configuration that the process runs; all processes have the same, but for seconds after a "
    "change. 0: none has been taken yet.",
)
CONFIGURATION_SINCE = Series(
    "evalstream_configuration_taken_timestamp_seconds",
    "gauge",
    "When the process took the configuration that it runs, in seconds since the epoch.",
)
CONFIGURATION_REFUSED = Series(
    "evalstream_configuration_refused",
    "gauge",
    "1 while a changed configuration is refused and the one of before runs on, else 0.",
)
CONFIGURATION_CHANGES = Series(
    "evalstream_configuration_changes_total",
    "counter",
    "Changed configurations while the process ran, by result: taken or refused.",
    ("result",),
)
STAGE_UP = Series(
    "evalstream_stage_up",
    "gauge",
    "Always 1, for each stage that the process runs.",
    ("stage",),
)


def all_series() -> Iterator[Series]:
    """Every declared series, in the order of this file."""
    return (value for value in globals().values() if isinstance(value, Series))


def table() -> str:
    """The series as a Markdown table, for deploy/docs/metrics.md."""
    rows = [f"| `{series.name}` | {series.kind} | {_code(series.labels)} | {series.help} |" for series in all_series()]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _code(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{label}`" for label in labels) or "–"
