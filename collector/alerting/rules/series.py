"""Names of the series that the recording rules write.

Every one of them has the labels `BY`, and `segment` where the configuration alerts by segment; further labels are named
beside it. A series exists only where there is data: no scores give no mean, never a zero.
"""

from __future__ import annotations

BY = ("evaluator", "evaluator_version", "monitor")

WINDOWS = ("15m", "1h", "6h", "24h")
"""The values of the label `window` of means, errors and counts."""

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
SCORE_STDERR = "evalstream:score_stderr"
"""Standard error of that mean, conversations as clusters. Label `window`."""
SCORE_N_EFF = "evalstream:score_n_eff"
"""How many equally weighted conversations would tell as much (Kish). Label `window`."""
SCORE_CLIPPED = "evalstream:score_clipped_share"
"""Share of the weight that is left out of that mean, as no conversation may outweigh the others. Label `window`."""
SCORE_TARGET = "evalstream:score_target"
"""The mean that alerts hold a monitor's evaluator to. Labels `evaluator`, `monitor` only."""

SCORE_DOUBT = "evalstream:score_doubt"
"""How far off that mean may be by what firing warnings explain; 0 without them. Labels `evaluator`, `monitor` only."""

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
"""The drop detector's state, one for each bet. Label `lambda`."""
DROP_EVIDENCE = "evalstream:drop_evidence"
"""Logarithm of the evidence that the mean has left its target."""
DROP_THRESHOLD = "evalstream:drop_threshold"
"""What that evidence has to pass. Labels `evaluator`, `monitor` only."""

UNSCORED_SHARE = "evalstream:unscored_share"
"""Share of sampled subjects that got no score although they should have, over an hour."""
WEIGHT_CHECK = "evalstream:weight_check"
"""Sum of the weights over the turns or conversations they stand for, over six hours; 1 if sampling is right."""
