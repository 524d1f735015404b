"""Names of the series that the recording rules write.

Each series has the labels `BY`, and `segment` if the configuration alerts by segment; further labels are named beside
it. A series exists only where there is data: no scores give no mean, never a zero.
"""

from collector.telemetry import series as metrics

BY = ("evaluator", "evaluator_version", "monitor")

WINDOWS = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0}
"""The values of the label `window` of means, errors and counts, and their lengths in seconds."""

WEEK = "7d"
"""The window of means by people's labels, and of the means by audits that labels correct. No alert uses it."""

SUMS = ("w", "wy", "w2", "w2y", "w2y2")
"""The five sums of a mean and its error, as `collector.statistics.bounded_sums.Sums` names them."""
CORRECTED = ("wy", "w2y", "w2y2")
"""The sums that differ for the corrected mean of a cascade."""

PROCESS = "instance, job, worker"
"""The labels that tell processes apart, in all counters."""
PROCESS_AGE = "evalstream:process_age"
"""Seconds since the start of a process. Labels as of all that is scraped of it."""
PROCESS_FRESH = "evalstream:process_fresh"
"""Exists for a process all of whose counters without a sample before the window began at 0 within it. Labels `PROCESS`
and `window`. Its value is the start of the process."""

NEW_SCORES = "evalstream:new_scores"
"""Exists for the first minutes of an evaluator's series that a process began at 0. Labels as of the scores."""
_SUMS = (*metrics.ESTIMATOR_SUMS, metrics.ESTIMATOR_CLIPPED, *metrics.CORRECTED_SUMS, metrics.AUDITED_SUMS)
EARLY = {
    name: f"evalstream:early_{name.removeprefix('evalstream_').removesuffix('_total')}"
    for name in (f"{metrics.SCORE.name}_count", metrics.VERDICT_WEIGHT.name, *(counter.name for counter in _SUMS))
}
"""The value of a counter at its first scrape, by the counter's name: where it is above 0, as long as a window may
include it. Labels as of the counter, and `early`."""
GAP = "1h"
"""For so long Prometheus may be down without losing `EARLY`, or counting it again."""

ESTIMATOR_INCREASES = {key: f"evalstream:estimator_{key}:increase" for key in SUMS}
"""Growth of the five sums over a window. Label `window`."""
ESTIMATOR_CLIPPED_INCREASE = "evalstream:estimator_clipped:increase"
"""Growth of the weight left out of the sums. Label `window`."""

SCORES_INCREASE = "evalstream:scores:increase"
"""How many scores there were. Label `window`."""
SCORE_MEAN = "evalstream:score_mean"
"""Weighted, unbiased mean score. Label `window`."""
SCORE_SQUARES = "evalstream:score_squares"
"""Weighted squares of the differences between a window's conversations and that mean. Label `window`."""
SCORE_STDERR = "evalstream:score_stderr"
"""Standard error of that mean, conversations as clusters; no less than the day lets expect. Label `window`."""
CORRECTED_INCREASES = {key: f"evalstream:corrected_{key}:increase" for key in CORRECTED}
"""Growth of the corrected sums of cascades over a window. Label `window`."""
CORRECTED_MEAN = "evalstream:score_corrected_mean"
"""Mean that the second judge of a cascade would have given everything. Label `window`."""
CORRECTED_STDERR = "evalstream:score_corrected_stderr"
"""Standard error of that mean, conversations as clusters. Label `window`."""

SCORE_N_EFF = "evalstream:score_n_eff"
"""The number of equally weighted conversations with the same information (Kish). Label `window`."""
SCORE_TRIALS = "evalstream:score_trials"
"""The number of passes and failures with the same information (`collector.statistics.intervals`). Label `window`."""
SCORE_MARGIN = "evalstream:score_margin"
"""The distance from that mean to the farther end of its 95 % interval. Label `window`."""
SCORE_CLIPPED = "evalstream:score_clipped_share"
"""Share of the weight left out of that mean, so that no conversation outweighs the others. Label `window`."""
WINDOW_OVERLAPS = "evalstream:window_overlaps_incident"
"""There while a window holds scores of an incident that is over; seconds since its end. Label `window`."""
SCORE_TARGET = "evalstream:score_target"
"""The mean that alerts hold a monitor's evaluator to. Labels `evaluator`, `monitor` only."""

SCORE_MISS = "evalstream:score_miss"
"""The number of standard errors by which a mean is beyond its target and the doubt, with enough conversations. Label
`window`."""
SCORE_FALL = "evalstream:score_fall"
"""There while EvalstreamScoreDropped fires: the number of the fall within its incident."""
DROP_CAUSE = "evalstream:drop_cause"
"""The share of a fall that a part of the traffic explains; it stays until the alert ends. Labels `evaluator`,
`monitor`, `slice` only."""
JUDGE_VERDICT = "evalstream:judge_verdict"
"""How far the judge has moved, with the label `verdict`; it stays until the alert ends."""
SCORE_DOUBT = "evalstream:score_doubt"
"""The part of that mean's error that firing warnings explain; 0 without them. Labels `evaluator`, `monitor` only."""
JUDGE_DOUBT = "evalstream:judge_doubt"
"""The part of it by the judge's shift to the bad side. Labels `evaluator`, `monitor` only."""
FALL_SHIFT = "evalstream:fall_shift"
"""The largest such part since a fall began, as long as that is young: it explains a fall that is no larger."""
WINDOW_DOUBT = "evalstream:window_doubt"
"""That part in the scores of a window: now or, if it was larger, its mean over the window. With the label `window`."""

AUDITED_INCREASE = "evalstream:audited_sums:increase"
"""Growth of the sums by which audits correct a mean. Labels `window`, `sum`; the evaluator is that of the audits."""
AUDIT_NUMBER = "evalstream:audits"
"""The number of equally weighted audited conversations with the same information, from 30 on. With the label `window`,
like all of these."""
AUDIT_EXPENSIVE = "evalstream:audit_mean"
"""The mean of the audits' scores alone."""
AUDIT_CHEAP = "evalstream:audit_cheap_mean"
"""The mean of the cheap scores of what was audited."""
AUDIT_ALL = "evalstream:audit_all_mean"
"""The mean of all cheap scores."""
AUDIT_ALONE = "evalstream:audit_alone"
"""The variance of the mean of the audits alone."""
AUDIT_SHARED = "evalstream:audit_shared"
"""Its covariance with how far the audited differ from all, in their cheap scores."""
AUDIT_SPREAD = "evalstream:audit_spread"
"""The variance of that difference."""
AUDIT_POWER = "evalstream:audit_power"
"""The weight of the cheap scores in the corrected mean."""
BASE = "base"
"""The sum, beside those of `collector.statistics.audited_sums`, that is the variance of a mean by audits."""
AUDIT_GAIN = "evalstream:audit_gain"
"""How many times more audits this error would need without the cheap scores."""

PASS_SHARE = "evalstream:pass_share"  # noqa: S105 - no password
"""Weighted share of scores that pass their threshold. Label `window`."""
PASS_OBJECTIVE = "evalstream:pass_objective"  # noqa: S105 - no password
"""The share that must pass, where one is configured. Labels `evaluator`, `monitor` only."""

EVIDENCE_DELTAS = {key: f"evalstream:evidence_{key}:delta" for key in SUMS}
"""Exact growth of the detector's five sums since the last evaluation of the rules, without replicas that restarted."""
DROP_LOG_E = "evalstream:drop_log_e"
"""The drop detector's state while no alert fires, one for each bet. Label `lambda`."""
DROP_EVIDENCE = "evalstream:drop_evidence"
"""Logarithm of the evidence that the mean has left its target; within an incident, that it has fallen further."""
DROP_THRESHOLD = "evalstream:drop_threshold"
"""The limit that this evidence has to pass. Labels `evaluator`, `monitor` only."""
DROP_STARTS_OVER = "evalstream:drop_starts_over"
"""Above 0 in the interval after an alert has begun or ended: then all evidence starts over."""
DROP_INCIDENT = "evalstream:drop_incident"
"""Above 0 where an alert fires since an earlier interval."""
DROP_IDLE = "evalstream:drop_idle"
"""How many intervals without scores there have been since the last one with some."""
DROP_INTERVALS = "evalstream:drop_intervals"
"""How many intervals count for the detector: none without scores, else also those before that had none."""
DROP_NULL = "evalstream:drop_null"
"""The mean that the evidence is against: the target, within an incident a level below the one it fell to."""
DROP_SHORTFALL = "evalstream:drop_shortfall"
"""Weight times how far scores lie on the bad side of that mean, since it was last 0."""
DROP_WEIGHT = "evalstream:drop_weight"
"""The weight of the scores since then."""
DROP_START = "evalstream:drop_start"
"""When that was, in seconds since the epoch: since then the mean is short, if it is."""
DROP_USUAL = "evalstream:drop_usual"
"""The mean over the 24 hours before that."""
DROP_FALLS = "evalstream:drop_falls"
"""The state of the alert: 0, or how many falls the incident has had."""
DROP_TARGET = "evalstream:drop_target"
"""The target of the interval before: where it changes, evidence starts over and the incident ends. Labels `evaluator`,
`monitor` only."""
DROP_LIKELIHOOD = "evalstream:drop_likelihood"
"""Shortfall² / weight since the likeliest begin of a fall."""
DROP_FIRST_BEGIN, DROP_LAST_BEGIN = "evalstream:drop_first_begin", "evalstream:drop_last_begin"
"""The earliest and the latest likely begin of a fall, while its evidence passes the limit; samples."""
DROP_SINCE = "evalstream:drop_since"
"""The likeliest begin of the fall, in seconds since the epoch. Only within an incident, as are the next five."""
DROP_EARLIEST, DROP_LATEST = "evalstream:drop_earliest", "evalstream:drop_latest"
"""The times between which it began."""
DROP_MEAN = "evalstream:drop_mean"
"""The mean from then to the alert's begin."""
DROP_BEFORE = "evalstream:drop_before"
"""The mean before the fall; not a number where it is unknown, as the target was changed since."""
DROP_LEVEL = "evalstream:drop_level"
"""The mean while it was short of its target; once it is settled, the mean after the alert began, if worse."""
DROP_AFTER = "evalstream:drop_after"
"""Growth from the alert's begin until the level was settled. Label `sum`: the five, and intervals with scores."""
DROP_SETTLED = "evalstream:drop_settled"
"""1 where the level is settled: a further fall is tested for from then on."""
FURTHER_LOG_E = "evalstream:drop_further_log_e"
"""The states of the test for a further fall, one for each bet. Label `stake`."""
RECOVERY_NULL = "evalstream:recovery_null"
"""The mean above which an incident's mean has recovered."""
RECOVERY_LOG_E = "evalstream:recovery_log_e"
"""The states of the test for a recovery, one for each bet. Label `stake`."""
RECOVERY_EVIDENCE = "evalstream:recovery_evidence"
"""Logarithm of the evidence that the mean has recovered."""
DROP_RECOVERED = "evalstream:drop_recovered"
"""When an incident last ended (s since the epoch). Windows that reach further back do not describe the present."""

FEEDBACK_MEAN = "evalstream:feedback_mean"
"""Mean of those who gave feedback. Labels `feedback`, `source`, `monitor`, `window` (24h, week before), as the next."""
FEEDBACK_STDERR = "evalstream:feedback_stderr"
"""Standard error of that mean, conversations as clusters."""
FEEDBACK_N_EFF = "evalstream:feedback_n_eff"
"""The number of equally weighted conversations with the same information."""
UNSCORED_SHARE = "evalstream:unscored_share"
"""Share of sampled subjects that got no score although they should have, over an hour."""
UNCOVERED_SHARE = "evalstream:uncovered_share"
"""The same with the parts of scored subjects that their judges were not shown."""
WEIGHT_CHECK = "evalstream:weight_check"
"""Sum of the weights over the turns or conversations they stand for, over six hours; 1 if sampling is right.
Absent while more than a twentieth of the evaluations, or of their weight, waits for the judge, and while the
evaluator was in use for less than 95 % of the time in which its monitor was."""
BUDGET_SPREAD = "evalstream:budget_spread"
"""How many times a budget's changes of the rates raise the variance of the sum of weights. Label `monitor`."""
JUDGE_RESULTS = "evalstream:judge_results"
"""How many requests to a judge ended with each result in a quarter of an hour. Labels `judge`, `result`."""
SCORE_LOWEST, SCORE_HIGHEST = "evalstream:score_lowest", "evalstream:score_highest"
"""The bounds of the mean of all over an hour, with what has no score: failures may depend on the answer."""
VERSION_REPLACED = "evalstream:version_replaced"
"""Exists for a replaced version of an evaluator: alerts on its scores are over."""
