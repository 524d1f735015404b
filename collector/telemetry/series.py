"""The service's own Prometheus metrics, declared once as data.

Every series is a constant of this module: the registry, the documentation's table and the checks that something feeds
each of them are made from these. A metric's values may be summed over all its labels: what must not be added up has
another name. Label values come from closed sets in the configuration, never from ids, texts or free attributes of the
traffic; if a set proves open after all, the registry's cap turns the rest into `other` and counts it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
OTHER = "other"
"""The label value that stands for all values beyond the cap."""


@dataclass(frozen=True, slots=True)
class Series:
    """One Prometheus metric. `buckets` are a histogram's upper bounds, without infinity.

    The docstring below its constant is its help, as it is for keys of the configuration.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def help(self) -> str:
        """The meaning, in a sentence."""
        return _helps()[self.name]

    @property
    def awaits_reading(self) -> bool:
        """Whether the Prometheus exporter counts it, so that it stays 0 until it was read (see `FirstScrape`)."""
        return self.kind != "gauge" and self.labels[:1] in (("evaluator",), ("feedback",)) and "monitor" in self.labels


@cache
def _helps() -> Mapping[str, str]:
    """The docstrings below the series of this module, by the names of the metrics."""
    parts = files("collector.telemetry").joinpath("series.py").read_text(encoding="utf-8").split('"' * 3)
    declared = [(_NAME.findall(code), text) for code, text in zip(parts[::2], parts[1::2], strict=False)]
    return {names[-1]: " ".join(text.split()) for names, text in declared if names}


_NAME = re.compile(r'^[A-Z0-9_]+ = [a-z]+\(\s*"(\w+)"', re.MULTILINE)


def counter(name: str, labels: tuple[str, ...] = ()) -> Series:
    """A counter."""
    return Series(name, "counter", labels)


def gauge(name: str, labels: tuple[str, ...] = ()) -> Series:
    """A gauge."""
    return Series(name, "gauge", labels)


def histogram(name: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = ()) -> Series:
    """A histogram."""
    return Series(name, "histogram", labels, buckets)


_EVALUATION = ("evaluator", "evaluator_version", "monitor", "segment")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG_SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_AGES = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
_LEVELS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0)  # tenths, and the quarters of 1..5 scales


# --- scores ---
SCORE = histogram("gen_ai_evaluation_score", _EVALUATION, _LEVELS)
"""Scores on 0..1, unweighted; exemplars carry the trace id. For means use the sums of `evalstream_estimator_…`."""
ESTIMATOR_W = counter("evalstream_estimator_w_total", _EVALUATION)
"""Sum of the weights w = 1 / sampling probability over the scored subjects, without clipped weight."""
ESTIMATOR_WY = counter("evalstream_estimator_wy_total", _EVALUATION)
"""Sum of w times score; divided by the sum of w it is the unbiased mean score."""
ESTIMATOR_W2 = counter("evalstream_estimator_w2_total", _EVALUATION)
"""Sum over conversations of (Σ w)², for the standard error; products of weights h hours apart count e^(-h/12) times.
Without `alerts.by_segment`, a segment's sum includes products with weights of the conversation in other segments."""
ESTIMATOR_W2Y = counter("evalstream_estimator_w2y_total", _EVALUATION)
"""Sum over conversations of (Σ w)(Σ w·score)."""
ESTIMATOR_W2Y2 = counter("evalstream_estimator_w2y2_total", _EVALUATION)
"""Sum over conversations of (Σ w·score)²."""
ESTIMATOR_SUMS = (ESTIMATOR_W, ESTIMATOR_WY, ESTIMATOR_W2, ESTIMATOR_W2Y, ESTIMATOR_W2Y2)
"""The counters of the sums of scores, in the order of `collector.statistics.bounded_sums.Sums`."""
AUDITED_SUMS = counter("evalstream_audited_sums_total", (*_EVALUATION, "sum"))
"""The twenty sums by which audits correct a mean."""
AUDITS = counter("evalstream_audits_total", ("evaluator", "monitor", "outcome"))
"""Audits by their outcome: scored, or the reason why the expensive judge gave no score."""
ESTIMATOR_CLIPPED = counter("evalstream_estimator_clipped_total", _EVALUATION)
"""Clipped weight, which `evalstream_estimator_w_total` leaves out: a conversation's weight in an hour above its limit,
usually 20 times the mean of the last 1,000 conversations."""
UNSHOWN = counter("evalstream_unshown_total", _EVALUATION)
"""Shares of cases that scores do not cover, added up: steps that the judge was not shown, items that it could not
decide on."""
CORRECTED_WY = counter("evalstream_corrected_wy_total", _EVALUATION)
"""For the corrected mean of a cascade: sum of w times (corrected score + `evalstream_corrected_shift`). Divided by
`evalstream_estimator_w_total`, minus the shift, it is that mean."""
CORRECTED_W2Y = counter("evalstream_corrected_w2y_total", _EVALUATION)
"""For the standard error of a cascade's corrected mean: sum over conversations of weight times weighted score."""
CORRECTED_W2Y2 = counter("evalstream_corrected_w2y2_total", _EVALUATION)
"""For the standard error of a cascade's corrected mean: sum over conversations of the squared weighted score."""
CORRECTED_SUMS = (CORRECTED_WY, CORRECTED_W2Y, CORRECTED_W2Y2)
"""The counters of the corrected sums of cascades, in the same order."""
CORRECTED_SHIFT = gauge("evalstream_corrected_shift", ("evaluator", "evaluator_version", "monitor"))
"""The amount added to the corrected scores of a cascade, so their sums never fall: 1 / `share` - 1."""
ESCALATIONS = counter("evalstream_escalations_total", ("evaluator", "monitor", "reason"))
"""Evaluations by a cascade, by the reason why its second judge was asked (share, doubt, unknown, unreadable) or not
(sure)."""
EVIDENCE_W = counter("evalstream_evidence_w_total", _EVALUATION)
"""Sum of v, the drop detector's weights: w divided by a weight that few conversations exceed; one conversation adds at
most 1."""
EVIDENCE_WY = counter("evalstream_evidence_wy_total", _EVALUATION)
"""Sum of v times score."""
EVIDENCE_W2 = counter("evalstream_evidence_w2_total", _EVALUATION)
"""Sum over conversations of (Σ v)²."""
EVIDENCE_W2Y = counter("evalstream_evidence_w2y_total", _EVALUATION)
"""Sum over conversations of (Σ v)(Σ v·score)."""
EVIDENCE_W2Y2 = counter("evalstream_evidence_w2y2_total", _EVALUATION)
"""Sum over conversations of (Σ v·score)²."""
EVIDENCE_SUMS = (EVIDENCE_W, EVIDENCE_WY, EVIDENCE_W2, EVIDENCE_W2Y, EVIDENCE_W2Y2)
"""The counters of the drop detector's sums, in the same order."""
VERDICTS = counter("evalstream_verdicts_total", (*_EVALUATION, "verdict"))
"""Scores by verdict: pass or fail by the threshold of that time; exemplars on failures carry the trace id."""
VERDICT_WEIGHT = counter("evalstream_verdict_weight_total", (*_EVALUATION, "verdict"))
"""Sum of 1 / sampling probability by verdict; the share of `pass` estimates the pass rate of all traffic."""
LABELS = counter("evalstream_labels_total", (*_EVALUATION, "label"))
"""Scored evaluations by the label that a classifier chose; only for evaluators that define labels."""
LABEL_WEIGHT = counter("evalstream_label_weight_total", (*_EVALUATION, "label"))
"""Sum of 1 / sampling probability by label; a label's share of this sum estimates its share of all traffic."""
EVALUATIONS = counter("evalstream_evaluations_total", (*_EVALUATION, "outcome", "reason"))
"""Exported evaluations, each once, by outcome (scored, skipped, failed) and, without a score, by reason."""
EVALUATIONS_RETRIED = counter("evalstream_evaluations_retried_total", (*_EVALUATION, "reason"))
"""Failures that the page's *Make it again* replaced, by reason of the failure. `evalstream_evaluations_total` counts
both failure and replacement. Replacements by `rejudge` count in `evalstream_evaluations_backfilled_total`."""
EVALUATIONS_BACKFILLED = counter(
    "evalstream_evaluations_backfilled_total", ("evaluator", "evaluator_version", "monitor", "outcome")
)
"""Evaluations that `evalstream rejudge` requested, by outcome. Metrics of scores, weights and verdicts leave them
out; those of tokens, calls, seconds and cost do not."""
QUARTER, REPLACED_AGES = 900.0, ("0m", "15m", "30m", "45m")
"""Quarters of an hour (s), and the ages of replaced failures, rounded down to them."""
EVALUATIONS_REPLACED = counter("evalstream_evaluations_replaced_total", ("evaluator", "monitor", "age"))
"""Failures and losses that were replaced within an hour, by their age then, rounded down to quarters of an hour.
EvalstreamUnscored leaves them out."""
EVALUATION_WEIGHT = counter("evalstream_evaluation_weight_total", _EVALUATION)
"""Sum of 1 / this service's sampling probability (without a gate's `share`) over all evaluations, whatever their
outcome: an estimate of the traffic received, without what upstream samplers removed."""
EVALUATION_DURATION = histogram("evalstream_evaluation_duration_seconds", ("evaluator", "monitor"), _LONG_SECONDS)
"""Duration of an evaluation, judge calls included."""
LAST_SUCCESS = gauge("evalstream_last_success_timestamp_seconds", ("evaluator", "monitor"))
"""Time of the newest score, as Unix time; absent before the first."""
TARGET_SCORE = gauge("evalstream_target_score", ("evaluator", "evaluator_version", "monitor"))
"""The `threshold` of an evaluator, on 0..1 (not its target)."""
EVALUATOR_INFO = gauge("evalstream_evaluator_info", ("evaluator", "evaluator_version", "monitor", "scope", "better"))
"""1; 0 once another version is in its place. The labels say what an evaluator judges (turn or conversation), and which
scores are better: higher or lower."""
INJECTION_SIGNS = counter("evalstream_injection_signs_total", ("evaluator", "monitor", "sign"))
"""Signs of an attempt to instruct the judge, detected in scored texts, by sign; one score may show several."""
# --- tokens, money and sampling ---
JUDGE_TOKENS = counter("evalstream_judge_tokens_total", ("evaluator", "monitor", "direction"))
"""Tokens that evaluations used, by direction: input or output."""
JUDGE_CACHED_TOKENS = counter("evalstream_judge_cached_tokens_total", ("evaluator", "monitor", "cache"))
"""Input tokens that providers' prompt caches had (cache: read) or were given (write); a part of the `input` tokens."""
JUDGE_CALLS = counter("evalstream_judge_calls_total", ("evaluator", "monitor"))
"""Judge answers that evaluations got, cached and unusable ones included."""
JUDGE_ESTIMATED_CALLS = counter("evalstream_judge_estimated_calls_total", ("evaluator", "monitor"))
"""Judge answers without a usable number of tokens: their tokens and cost are estimated from the texts."""
JUDGE_UNPRICED_CALLS = counter("evalstream_judge_unpriced_calls_total", ("evaluator", "monitor"))
"""Judge answers of evaluations whose cost is unknown."""
JUDGE_COST = counter("evalstream_judge_cost_usd_total", ("evaluator", "monitor"))
"""Cost of evaluations in US dollars, by configured or list prices; absent while unknown. Like calls and tokens, it
includes golden sets and what alerts score again, but no canaries."""
JUDGE_CACHE_REQUESTS = counter("evalstream_judge_cache_requests_total", ("judge", "result"))
"""Look-ups in a judge's cache by result: hit or miss."""
JUDGE_MODEL_CHANGES = counter("evalstream_judge_model_changes_total", ("evaluator", "monitor"))
"""New model names or fingerprints that a judge reported to this process after the first: its provider changed the
model."""
SAMPLING_PROBABILITY = gauge("evalstream_sampling_probability", ("monitor", "evaluator", "stratum"))
"""Sampling probability of a stratum's newest evaluated subject, with upstream samplers, without a gate's `share`."""
BUDGET_USD = gauge("evalstream_budget_usd", ("monitor", "period"))
"""The configured budget of a monitor in US dollars, by period: hour or day."""
BUDGET_FACTOR = gauge("evalstream_budget_factor", ("monitor",))
"""Factor from 0 to 1 on a monitor's sampling rates, as budgets last set it; NaN if the process has no partition."""
BUDGET_SPENT = gauge("evalstream_budget_spent_ratio", ("monitor",))
"""The largest share of a monitor's hard caps (not budgets) that this process has spent or reserved."""
TOTAL_BUDGET_USD = gauge("evalstream_total_budget_usd", ("period",))
"""The configured budget of all monitors together in US dollars, by period: hour or day."""
TOTAL_BUDGET_SPENT = gauge("evalstream_total_budget_spent_ratio")
"""The largest share of the hard caps of all monitors together that this process has spent or reserved."""
# --- judges ---
JUDGE_REQUESTS = counter("evalstream_judge_requests_total", ("judge", "result"))
"""Requests to a judge by result: ok, or the type of the error. Each attempt counts. If an answer is unusable, the
request and its repetition count as one."""
JUDGE_REQUEST_DURATION = histogram("evalstream_judge_request_duration_seconds", ("judge",), _LONG_SECONDS)
"""Time from a request to a judge to its answer, without the wait for a free slot."""
JUDGE_REQUESTS_IN_FLIGHT = gauge("evalstream_judge_requests_in_flight", ("judge",))
"""Requests to a judge that await their answer."""
BREAKER_STATE = gauge("evalstream_judge_breaker_state", ("judge", "state"))
"""1 for the state that the circuit breaker of a judge's endpoint is in, 0 for the others: closed (requests pass),
half_open (one request probes), open (none pass)."""
BREAKER_OPENED = counter("evalstream_judge_breaker_opened_total", ("judge",))
"""Times that the circuit breaker of a judge's endpoint opened."""
JUDGE_PAUSED_REQUESTS = gauge("evalstream_judge_paused_requests", ("judge",))
"""Requests that wait because the circuit breaker of the judge's endpoint is open."""
JUDGE_ABANDONED_REQUESTS = counter("evalstream_judge_abandoned_requests_total", ("judge",))
"""Requests given up because the circuit breaker of the judge's endpoint stayed open: their evaluations failed."""
CANARIES = counter("evalstream_judge_canaries_total", ("evaluator", "judge", "result"))
"""Canary runs (an evaluation repeated with an injected instruction) by result: resisted, shifted (the score moved as
instructed), failed, skipped (no free slot, or over budget)."""
CANARY_COST = counter("evalstream_judge_canary_cost_usd_total", ("evaluator", "judge"))
"""Cost of canary runs in US dollars."""
GOLDEN_SHIFT = gauge("evalstream_golden_shift", ("evaluator", "evaluator_version", "judge"))
"""Mean difference between the judge's newest scores of the golden set and their references: the file's `scores`, or the
evaluator's first scores where the file has none."""
GOLDEN_SHIFT_STDERR = gauge("evalstream_golden_shift_stderr", ("evaluator", "evaluator_version", "judge"))
"""Standard error of that mean difference."""
GOLDEN_CASES = gauge("evalstream_golden_cases", ("evaluator", "evaluator_version", "judge", "outcome"))
"""Cases of the golden set by outcome of the newest run: scored or unscored."""
GOLDEN_LAST_RUN = gauge("evalstream_golden_last_run_timestamp_seconds", ("evaluator", "evaluator_version", "judge"))
"""Time of the newest run of the golden set, as Unix time."""
JUDGE_MOVED = gauge("evalstream_judge_moved", ("evaluator", "evaluator_version", "monitor", "verdict"))
"""While scores are low: how far the judge's scores of the same cases have moved since the fall began. By verdict:
changed, better (changed, but no cause of low scores), later (changed after the fall, so no cause), or
unchanged (the value is then the most that they can have moved)."""
AGREEMENT = gauge("evalstream_judge_agreement", ("evaluator", "evaluator_version", "statistic"))
"""Agreement of scores with people's labels on the page, by statistic (spearman, kendall_tau_b, weighted_kappa,
krippendorff_alpha, equal_verdicts, cohen_kappa, sensitivity, specificity, youden_j); absent below 10 labels."""
AGREEMENT_BOUND = gauge("evalstream_judge_agreement_bound", ("evaluator", "evaluator_version", "statistic", "bound"))
"""Bounds of that agreement's 95 % interval: low or high; too narrow below 200 labels."""
AGREEMENT_LABELS = gauge("evalstream_judge_agreement_labels", ("evaluator", "evaluator_version"))
"""Labelled evaluations behind the agreement, 1000 at most."""
PEOPLE_AGREEMENT = gauge("evalstream_people_agreement", ("evaluator", "evaluator_version", "statistic", "bound"))
"""Weighted agreement between the judge's verdicts and people's, from the queue's labels. Label `statistic`: share,
kappa or youden_j; label `bound`: value, low or high (95 %)."""
PEOPLE_SEGMENT_AGREEMENT = gauge(
    "evalstream_people_segment_agreement", ("evaluator", "evaluator_version", "segment", "statistic", "bound")
)
"""`evalstream_people_agreement` by segment of the traffic, from 10 labelled conversations on."""
PEOPLE_LABELS = gauge("evalstream_people_labels", ("evaluator", "evaluator_version"))
"""Effective number of labelled conversations behind the agreement with people."""
PEOPLE_SUMS = gauge("evalstream_people_sums", ("evaluator", "evaluator_version", "monitor", "segment", "sum"))
"""Sums over the queue's labels of seven days, from which the mean by people (helpful:people) is computed. The sum
`logged` is the weight of all scores of these days, of every version."""
PEOPLE_WITHHELD = gauge("evalstream_people_withheld", ("evaluator", "evaluator_version", "monitor", "reason"))
"""1 if the mean by people is withheld, by reason: few (effective number below 30), undecided (few with a verdict), weak
(sensitivity + specificity - 1 is small) or drift."""
# --- receiving ---
RECEIVE_REQUESTS = counter("evalstream_receive_requests_total", ("source", "signal", "status"))
"""OTLP requests by status of the answer: a code over HTTP (source otlp_http), a name over gRPC (source otlp_grpc)."""
RECEIVE_DURATION = histogram("evalstream_receive_duration_seconds", ("source", "signal"), _SECONDS)
"""Time from an OTLP request's headers to its answer: body, decoding and the durable append."""
INGEST_LAG = histogram("evalstream_ingest_lag_seconds", ("source",), _AGES)
"""Time from the end of an OTLP request's last span, or of ready-made turns, until they are durable. It includes the
sender's batching and the time in queues."""
RECEIVE_PENDING_BYTES = gauge("evalstream_receive_pending_bytes")
"""Bytes in memory for OTLP requests that are not yet durable: bodies, decompressed and not, and records."""
RECEIVE_REJECTED = counter("evalstream_receive_rejected_total", ("source", "reason", "tenant"))
"""OTLP requests not accepted, and connections over HTTP refused (reason connections). By reason and
by the tenant of their credential (`unnamed` without one)."""
REFUSED_CONNECTIONS = counter("evalstream_refused_connections_total", ("source",))
"""Connections refused because too many were open, by listener: otlp_http, page, metrics."""
WRONG_TOKENS = counter("evalstream_wrong_tokens_total", ("source",))
"""Invalid bearer tokens, by where they were sent: otlp_http, otlp_grpc, page."""
RECEIVE_BYTES = counter("evalstream_receive_bytes_total", ("source", "signal"))
"""Bytes that became durable: OTLP requests after decompression, and ready-made turns."""
RECEIVE_ITEMS = counter("evalstream_receive_items_total", ("source", "signal", "result"))
"""Spans, log records and ready-made turns by result: accepted (durable in their log), rejected, ignored."""
MEDIA_OMITTED = counter("evalstream_media_omitted_total", ("source",))
"""Pictures, recordings and files of which only hash and size are stored."""
NOTED = counter("evalstream_thin_pieces_total", ("source",))
"""Pieces of traces whose one turn no monitor can select: no stage after the receiver reads them."""
REDACTIONS = counter("evalstream_redactions_total", ("kind",))
"""Pieces of text masked before storage and evaluation, by kind."""
REDACTION_FAILURES = counter("evalstream_redaction_failures_total")
"""Texts that redaction could not process; they were neither stored nor sent to a judge."""
# --- from spans to turns and conversations ---
SPANS_READ = counter("evalstream_spans_read_total", ("dialect",))
"""Spans of closed traces by the dialect that read them; none: not a call that a dialect knows. A trace that closes
again is read again."""
UNREAD_TEXT = counter("evalstream_unread_text_total", ("scope",))
"""Spans with text that looks like questions and answers, but that no dialect reads. Only traces without a turn are
examined, one a second at most."""
UNREPEATED_IDS = counter("evalstream_unrepeated_conversation_ids_total", ("attribute",))
"""Services in which this attribute has a new conversation id in every trace, while the ids in another attribute repeat;
the log says which setting helps."""
TRACES_CLOSED = counter("evalstream_traces_closed_total", ("reason",))
"""Traces closed and assembled, by reason; a trace that late spans reopen closes again."""
TURNS_ASSEMBLED = counter("evalstream_turns_assembled_total", ("dialect", "outcome", "reason"))
"""Turns by dialect (`readymade`: received as turns) and outcome: complete, failed, incomplete or agent_run. failed: the
application's call ended in an error. incomplete: cannot be evaluated; `reason` says what is missing. agent_run: the run
of an agent inside a turn, not one more turn."""
LATE_FEEDBACK = counter("evalstream_late_feedback_total")
"""Feedback in traces that came after its turn was made: not part of the turn, but joined by its ids."""
OPEN_TRACES = gauge("evalstream_open_traces")
"""Traces that wait for further spans."""
TURNS = counter("evalstream_turns_total", ("monitor", "outcome"))
"""Matched turns, once for each monitor, by outcome: sampled (for at least one evaluator, also of conversations),
sampled_out, duplicate. Turns from before a boost of their conversation stay sampled_out. After a kill or an outage,
turns since the last commit count again."""
UNMATCHED_TURNS = counter("evalstream_unmatched_turns_total")
"""Turns that no monitor matched."""
UPSTREAM_IGNORED = counter("evalstream_upstream_ignored_total", ("monitor",))
"""Matched turns whose tracestate names an earlier sampling rate that `receive.trust_tracestate` does not believe."""
CONVERSATIONS = counter("evalstream_conversations_total", ("monitor",))
"""Conversations that became idle, sampled or not: the population of conversation evaluators. A conversation
that continues afterwards counts again."""
CONVERSATIONS_CLOSED = counter("evalstream_conversations_closed_total", ("monitor", "reason"))
"""Sampled conversations that closed, by reason: idle, explicit, max_age, max_turns, max_bytes, evicted (early, to bound
memory)."""
INCOMPLETE_CONVERSATIONS = counter("evalstream_incomplete_conversations_total", ("monitor",))
"""Sampled conversations that closed without some of the user's messages: a later prompt's history has them, but their
turns never came."""
OPEN_CONVERSATIONS = gauge("evalstream_open_conversations")
"""Open conversations that an evaluator of conversations will judge, or would after a boost, over all monitors."""
# --- evaluations: due = ended + in flight ---
EVALUATIONS_DUE = counter("evalstream_evaluations_due_total", ("monitor", "evaluator", "origin"))
"""Evaluations that became due, by origin. matched: a turn came, sampled or not, or a sampled conversation closed.
resumed: another process, or this one before its configuration changed, left it unfinished. retried: a replacement of a
failure or skip, by *Make it again* or `rejudge`. backfilled: others by `rejudge`."""
EVALUATIONS_STARTED = counter("evalstream_evaluations_started_total", ("monitor", "evaluator"))
"""Evaluations that went to their judge's queue: without those sampled out, duplicate, or requested by `rejudge`.
Resumed ones count again."""
EVALUATIONS_ENDED = counter("evalstream_evaluations_ended_total", ("monitor", "evaluator", "outcome", "reason"))
"""Evaluations by outcome: scored, skipped, failed (recorded, with the reason), sampled_out (turns only), duplicate,
superseded, reassigned (unfinished, then resumed), removed (unfinished; a changed configuration no longer has its
evaluator)."""
FEEDBACK = counter("evalstream_feedback_total", ("outcome",))
"""Feedback by what became of it: joined, unmatched (its subject was not judged within the
wait), crowded_out, duplicate."""
FEEDBACK_WAITING = gauge("evalstream_feedback_waiting")
"""Feedback that waits in this process for an evaluation of what it is about."""
FEEDBACK_VERDICTS = counter("evalstream_feedback_verdicts_total", ("feedback", "source", "monitor", "verdict"))
"""Joined feedback by verdict: good (from the middle of its scale on), bad, or none for words alone."""
FEEDBACK_W = counter("evalstream_feedback_w_total", ("feedback", "source", "monitor"))
"""Sum of the weights w = 1 / sampling probability over joined feedback with a number."""
FEEDBACK_WY = counter("evalstream_feedback_wy_total", ("feedback", "source", "monitor"))
"""Sum of w times the feedback on 0..1; divided by the sum of w it is the mean of those who gave feedback."""
FEEDBACK_W2 = counter("evalstream_feedback_w2_total", ("feedback", "source", "monitor"))
"""Sum over conversations of (Σ w)², for that mean's standard error."""
FEEDBACK_W2Y = counter("evalstream_feedback_w2y_total", ("feedback", "source", "monitor"))
"""Sum over conversations of (Σ w)(Σ w·feedback)."""
FEEDBACK_W2Y2 = counter("evalstream_feedback_w2y2_total", ("feedback", "source", "monitor"))
"""Sum over conversations of (Σ w·feedback)²."""
FEEDBACK_SUMS = (FEEDBACK_W, FEEDBACK_WY, FEEDBACK_W2, FEEDBACK_W2Y, FEEDBACK_W2Y2)
"""The counters of the sums of feedback, in the same order."""
REFERENCES = counter("evalstream_references_total", ("outcome",))
"""References and feedback by outcome: received (each once), duplicate (again), joined (with the first evaluation that
needed it). A reference that is never joined was for no known turn, or for one
that was not sampled."""
REFERENCES_MISSING = counter("evalstream_references_missing_total", ("monitor", "evaluator"))
"""Evaluations skipped as no reference came within the wait."""
REFERENCES_AWAITED = gauge("evalstream_references_awaited")
"""Evaluations that wait for a reference in this process; they are not due yet."""
WAITING_WEIGHT = gauge("evalstream_evaluations_waiting_weight", ("monitor", "evaluator"))
"""Sum of 1 / sampling probability over the evaluations that wait or run."""
EVALUATIONS_IN_FLIGHT = gauge("evalstream_evaluations_in_flight")
"""Due evaluations that have not ended. A restarted process adds older ones as it reads them back."""
EVALUATIONS_RUNNING = gauge("evalstream_evaluations_running")
"""Evaluations in flight with a slot at their judge."""
EVALUATIONS_WAITING = gauge("evalstream_evaluations_waiting", ("judge",))
"""Evaluations in flight that wait for a slot at their judge; each judge has its own (none: evaluators without a judge).
"""
EVALUATIONS_DEFERRED = gauge("evalstream_evaluations_deferred", ("state",))
"""Evaluations in flight that wait for batches, by state: gathering or submitted."""
DEFERRED_OLDEST = gauge("evalstream_deferred_oldest_seconds")
"""Age of the oldest evaluation that waits for batches; 0 if none does."""
BATCH_REQUESTS = counter("evalstream_batch_requests_total", ("judge", "outcome"))
"""Requests of deferred evaluations: answered or unanswered (sent once more) in a batch that has ended, or asked
at_once, at the full price."""
BATCHES_OPEN = gauge("evalstream_batches_open", ("judge",))
"""Judges' batches that were submitted (or perhaps were, before a crash) and have not ended."""
BATCHES = counter("evalstream_batches_total", ("judge", "outcome"))
"""Judges' batches that have ended: completed, expired, cancelled, failed (refused as a whole) or gone."""
BATCH_CALLS_FAILED = counter("evalstream_batch_calls_failed_total", ("judge", "reason"))
"""Calls to a provider about batches that failed and are tried again, by the error's type."""
BATCHES_ABSENT = gauge("evalstream_batches_absent", ("judge",))
"""1 while a judge's endpoint takes no batches, so evaluations that may wait are made at once; else 0."""
UNDEFERRED = counter("evalstream_evaluations_undeferred_total", ("monitor",))
"""Evaluations that might wait for a batch, but were made at once, at the full price: their judge takes no batches."""
PAUSED_PARTITIONS = gauge("evalstream_paused_partitions", ("judge",))
"""Partitions of the turns log paused until an evaluation of this judge ends (none: of evaluators without a
judge)."""
# --- out ---
EXPORT_EVALUATIONS = counter("evalstream_export_evaluations_total", ("exporter", "result"))
"""Evaluation records that an exporter consumed, by result: exported, rejected (refused by the destination for good, or
until the exporter gave up), duplicate, unreadable, void (written by a former owner of its partition)."""
EXPORT_FAILURES = counter("evalstream_export_failed_attempts_total", ("exporter", "reason"))
"""Failed attempts to export, by reason; each is retried."""
EXPORT_LAG = gauge("evalstream_export_lag_seconds", ("exporter",))
"""Age of the newest evaluation that an exporter has exported, at the time of export."""
DROP_EXPLAINED = gauge("evalstream_drop_explained_ratio", ("evaluator", "monitor", "slice"))
"""Share of a drop that a part of the traffic (`slice`) explains; 0 once the drop is over."""
DROP_LOG_EVIDENCE = gauge("evalstream_watch_drop_log_evidence", _EVALUATION)
"""Drop detection of the watch stage: natural logarithm of the evidence that the mean has fallen below its target."""
WATCH_NOTIFICATIONS = counter("evalstream_watch_notifications_total", ("result",))
"""Notifications of the watch stage to Alertmanager or a webhook, by result: ok or failed."""
_RELEASE = ("monitor", "attribute", "within", "baseline", "version")
RELEASE_STARTED = gauge("evalstream_release_started_timestamp_seconds", _RELEASE)
"""The hour in which a version that is compared with its baseline began, as Unix time."""
RELEASE_DIFFERENCE = gauge("evalstream_release_difference", ("evaluator", "evaluator_version", *_RELEASE))
"""Mean score of a version minus that of its baseline, side by side. If the version replaced the baseline at once: minus
the baseline's in the same hours a week before, or else on the day before (then without bounds)."""
RELEASE_BOUND = gauge("evalstream_release_difference_bound", ("evaluator", "evaluator_version", *_RELEASE, "bound"))
"""Bounds of that difference's 95 % interval, low or high: valid however often you look."""
RELEASE_WORSE = gauge("evalstream_release_worse", ("evaluator", "evaluator_version", *_RELEASE))
"""1 for a version surely worse than its baseline (alerts.release_error_rate), else 0."""
# --- the service ---
CONSUMER_LAG_RECORDS = gauge("evalstream_consumer_lag_records", ("consumer", "log"))
"""Records that a consumer has not received yet, in the partitions this process owns; absent while none can be
measured."""
CONSUMER_LAG_SECONDS = gauge("evalstream_consumer_lag_seconds", ("consumer", "log"))
"""Age of the last record that a consumer received while others wait behind it; 0 without lag."""
RECORDS_LOST = counter("evalstream_records_lost_total", ("consumer", "log", "reason"))
"""Records that a log's retention deleted although a consumer needed them, by reason: see the runbook
EvalstreamRecordsLost."""
LOG_RETENTION = gauge("evalstream_log_retention_seconds", ("log",))
"""Age at which a log deletes a record, read or not (a topic's `retention.ms`); +Inf if never, absent if the broker
hides it."""
OLDEST_NEEDED = gauge("evalstream_oldest_needed_seconds", ("consumer", "log"))
"""Age of the oldest record that a consumer still needs, unread or for its open state; 0 if it needs none."""
DEAD_LETTERS = counter("evalstream_dead_letters_total", ("stage", "reason"))
"""Dead-lettered records, by stage and reason."""
DROPS = counter("evalstream_drops_total", ("stage", "reason"))
"""Items lost or left out. The reason tells what kind of item: see the runbook EvalstreamDrops."""
LABEL_OVERFLOW = counter("evalstream_label_overflow_total", ("label",))
"""Uses of a label value beyond the cap, counted under `other`."""
ABSURD_VALUES = counter("evalstream_absurd_values_total", ("metric",))
"""Impossible values, left out of a metric: negative, too large, no number."""
TASK_FAILURES = counter("evalstream_task_failures_total", ("task",))
"""Unexpected failures of the service's background tasks, which were started again."""
HEALTH_CHECK = gauge("evalstream_health_check_ok", ("check",))
"""1 while a health check of the process finds nothing wrong, else 0: see the runbook EvalstreamHealthCheck."""
START = gauge("evalstream_start_timestamp_seconds")
"""When the process began, all counters at 0, as Unix time."""
BUILD_INFO = gauge("evalstream_build_info", ("version",))
"""Always 1; its label is the running version."""
PACKAGE_INFO = gauge("evalstream_package_info", ("package", "version"))
"""Always 1; an installed package with evaluators, and its version when the process began."""
CONFIG_INFO = gauge("evalstream_config_info", ("hash",))
"""Always 1; its label is a hash of the running configuration."""
CONFIG_SECTION_INFO = gauge("evalstream_config_section_info", ("section", "hash"))
"""1 for each section of the running configuration, with its hash."""
RULES_INFO = gauge("evalstream_rules_info", ("hash",))
"""Always 1; its label is a hash of the alert rules that `evalstream rules` writes for the running configuration."""
CONFIGURATION_NUMBER = gauge("evalstream_configuration_number")
"""The number of the configuration that the process runs; all processes have the same, except for seconds (or until a
restart) after a change. 0: none has been taken yet."""
CONFIGURATION_SINCE = gauge("evalstream_configuration_taken_timestamp_seconds")
"""When the process took the configuration that it runs, as Unix time."""
CONFIGURATION_REFUSED = gauge("evalstream_configuration_refused")
"""1 while a changed configuration is refused and the previous one runs on, else 0."""
CONFIGURATION_CHANGES = counter("evalstream_configuration_changes_total", ("result",))
"""Changed configurations while the process ran, by result: taken or refused."""
STAGE_UP = gauge("evalstream_stage_up", ("stage",))
"""Always 1, for each stage that the process runs."""


def all_series() -> Iterator[Series]:
    """Every declared series, in the order of this file."""
    return (value for value in globals().values() if isinstance(value, Series))


def table() -> str:
    """The series as a Markdown table, for deploy/docs/metrics.md."""
    marks = {"histogram": " histogram"}
    rows = (
        f"| `{series.name}`{marks.get(series.kind, '')} | {_code(series.labels)} | {series.help} |"
        for series in all_series()
    )
    return "\n".join(["| metric | labels | meaning |", "|---|---|---|", *rows]) + "\n"


def _code(labels: tuple[str, ...]) -> str:
    if labels[: len(_EVALUATION)] == _EVALUATION:
        return ", ".join(["*score*", *(f"`{label}`" for label in labels[len(_EVALUATION) :])])
    return ", ".join(f"`{label}`" for label in labels)
