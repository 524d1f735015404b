"""Names of the series that the recording rules write.

Every one of them has the labels `BY`, and `segment` where the configuration alerts by segment; further labels are named
beside it. A series exists only where there is data: no scores give no mean, never a zero.
"""

BY = ("evaluator", "evaluator_version", "monitor")

WINDOWS = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0}
"""The values of the label `window` of means, errors and counts, and their lengths in seconds."""

WEEK = "7d"
"""That of means by people's labels, and of the means by audits that they correct: no alert looks at it."""

ESTIMATOR_INCREASES = {
    "w": "evalstream:estimator_w:increase",
    "wy": "evalstream:estimator_wy:increase",
    "w2": "evalstream:estimator_w2:increase",
    "w2y": "evalstream:estimator_w2y:increase",
    "w2y2": "evalstream:estimator_w2y2:increase",
}
"""Growth of the five sums over a window. Label `window`."""
ESTIMATOR_CLIPPED_INCREASE = "evalstream:estimator_clipped:increase"
"""Growth of the weight that is left out of them. Label `window`."""

SCORES_INCREASE = "evalstream:scores:increase"
"""How many scores there were. Label `window`."""
SCORE_MEAN = "evalstream:score_mean"
"""Weighted, unbiased mean score. Label `window`."""
SCORE_SQUARES = "evalstream:score_squares"
"""Weighted squares by which a window's conversations differ from that mean. Label `window`."""
SCORE_STDERR = "evalstream:score_stderr"
"""Standard error of that mean, conversations as clusters; no less than the day lets expect. Label `window`."""
CORRECTED_INCREASES = {
    "wy": "evalstream:corrected_wy:increase",
    "w2y": "evalstream:corrected_w2y:increase",
    "w2y2": "evalstream:corrected_w2y2:increase",
}
"""Growth of the corrected sums of cascades over a window. Label `window`."""
CORRECTED_MEAN = "evalstream:score_corrected_mean"
"""Mean that the second judge of a cascade would have given everything. Label `window`."""
CORRECTED_STDERR = "evalstream:score_corrected_stderr"
"""Standard error of that mean, conversations as clusters. Label `window`."""

SCORE_N_EFF = "evalstream:score_n_eff"
"""How many equally weighted conversations would tell as much (Kish). Label `window`."""
SCORE_TRIALS = "evalstream:score_trials"
"""How many passes and failures would tell as much, as `collector.statistics.intervals` has it. Label `window`."""
SCORE_MARGIN = "evalstream:score_margin"
"""How far the farther end of the 95 % interval is from that mean. Label `window`."""
SCORE_CLIPPED = "evalstream:score_clipped_share"
"""Share of the weight that is left out of that mean, as no conversation may outweigh the others. Label `window`."""
WINDOW_OVERLAPS = "evalstream:window_overlaps_incident"
"""There while a window holds scores of an incident that is over; seconds since its end. Label `window`."""
SCORE_TARGET = "evalstream:score_target"
"""The mean that alerts hold a monitor's evaluator to. Labels `evaluator`, `monitor` only."""

SCORE_MISS = "evalstream:score_miss"
"""By how many standard errors a mean is beyond its target and the doubt, with enough conversations. Label `window`."""
SCORE_FALL = "evalstream:score_fall"
"""There while EvalstreamScoreDropped fires: the number of the fall within its incident."""
SCORE_DOUBT = "evalstream:score_doubt"
"""How far off that mean may be by what firing warnings explain; 0 without them. Labels `evaluator`, `monitor` only."""

AUDITED_INCREASE = "evalstream:audited_sums:increase"
"""Growth of the sums by which audits correct a mean. Labels `window`, `sum`; the evaluator is that of the audits."""
AUDIT_NUMBER = "evalstream:audits"
"""How many equally weighted audited conversations would tell as much, from 30 on. Label `window`, as all of these."""
AUDIT_DEAR = "evalstream:audit_mean"
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
"""How much of the cheap scores goes into the corrected mean."""
BASE = "base"
"""The sum, beside those of `collector.statistics.audited_sums`, that is the variance of a mean by audits."""
AUDIT_GAIN = "evalstream:audit_gain"
"""How many times as many audits would be as sure without the cheap scores."""

PASS_SHARE = "evalstream:pass_share"  # noqa: S105 - no password
"""Weighted share of scores that pass their threshold. Label `window`."""
PASS_OBJECTIVE = "evalstream:pass_objective"  # noqa: S105 - no password
"""The share that must pass, where one is configured. Labels `evaluator`, `monitor` only."""

EVIDENCE_DELTAS = {
    "w": "evalstream:evidence_w:delta",
    "wy": "evalstream:evidence_wy:delta",
    "w2": "evalstream:evidence_w2:delta",
    "w2y": "evalstream:evidence_w2y:delta",
    "w2y2": "evalstream:evidence_w2y2:delta",
}
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
DROP_SINCE = "evalstream:drop_since"
"""Since when the mean has fallen, in seconds since the epoch. Only within an incident, as are the next two."""
DROP_BEFORE = "evalstream:drop_before"
"""The mean before the fall."""
DROP_LEVEL = "evalstream:drop_level"
"""The mean from the fall to the alert."""
FURTHER_LOG_E = "evalstream:drop_further_log_e"
"""The states of the test for a further fall, one for each bet. Label `stake`."""
RECOVERY_NULL = "evalstream:recovery_null"
"""The mean above which an incident's mean has recovered."""
RECOVERY_LOG_E = "evalstream:recovery_log_e"
"""The states of the test for a recovery, one for each bet. Label `stake`."""
RECOVERY_EVIDENCE = "evalstream:recovery_evidence"
"""Logarithm of the evidence that the mean has recovered."""
DROP_RECOVERED = "evalstream:drop_recovered"
"""When an incident ended last, in seconds since the epoch: windows that reach further back say nothing of now."""

FEEDBACK_MEAN = "evalstream:feedback_mean"
"""Mean of those who gave feedback. Labels `feedback`, `source`, `monitor`, `window` (24h, week before), as the next."""
FEEDBACK_STDERR = "evalstream:feedback_stderr"
"""Standard error of that mean, conversations as clusters."""
FEEDBACK_N_EFF = "evalstream:feedback_n_eff"
"""How many equally weighted conversations would tell as much."""
UNSCORED_SHARE = "evalstream:unscored_share"
"""Share of sampled subjects that got no score although they should have, over an hour."""
UNCOVERED_SHARE = "evalstream:uncovered_share"
"""The same with the parts of scored subjects that their judges were not shown."""
WEIGHT_CHECK = "evalstream:weight_check"
"""Sum of the weights over the turns or conversations they stand for, over six hours; 1 if sampling is right."""
SCORE_LOWEST, SCORE_HIGHEST = "evalstream:score_lowest", "evalstream:score_highest"
"""The bounds of the mean of all over an hour, with what has no score: failures may depend on the answer."""
VERSION_REPLACED = "evalstream:version_replaced"
"""There for a version of an evaluator that another one has replaced: alerts on its scores are over."""
