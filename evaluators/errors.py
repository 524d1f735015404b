"""Everything that can go wrong while judging, as one tree.

EvaluationError                  the case has no score; becomes a Failure with `type` as its error type
├── JudgeError                   the judge gave no usable answer
│   ├── JudgeUnavailable         down, overloaded, rate limited, timed out: the same question may succeed later
│   │   └── JudgeUnreachable     nobody listens there: connection refused, unknown host, no TLS
│   ├── JudgeRejected            refused for good: wrong key, unknown model, request too large
│   └── JudgeReplyInvalid        answered, but not in the asked form, not on the scale, or cut off
├── MethodUnavailable            the judge cannot be asked the way the definition demands, like with token probabilities
└── (anything else)              a bug in an evaluator; becomes a Failure of type `internal_error`
NotApplicable                    the case lacks what the evaluator needs; becomes Skipped, not a failure
"""

from __future__ import annotations

from evaluators.outcome import Usage


class EvaluationError(Exception):
    """The case has no score. `type` is a short snake_case name out of a closed set, fit for a metric label."""

    type = "evaluation_error"


class JudgeError(EvaluationError):
    """The judge gave no usable answer.

    `usage` and `cost_usd` are what the attempts were paid for all the same; the cost is None where no price is known.
    """

    type = "judge_error"
    usage: Usage = Usage()
    cost_usd: float | None = None


class JudgeUnavailable(JudgeError):
    """The judge cannot answer now; asking again may help.

    `retry_after` is the wait in seconds that the judge asked for, None where it said nothing. `type` tells apart
    `judge_unavailable` (no connection, 5xx), `judge_rate_limited` (429) and `judge_timeout`.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, type: str = "judge_unavailable") -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.type = type


class JudgeUnreachable(JudgeUnavailable):
    """Nobody listens where the judge should be: connection refused, no such host, or TLS fails."""


class JudgeRejected(JudgeError):
    """The judge refuses this question for good (401, 403, 404, 400)."""

    type = "judge_rejected"


class JudgeReplyInvalid(JudgeError):
    """The judge answered something that is not an answer to the question.

    `type` tells apart `judge_reply_invalid`, `judge_reply_truncated` (finish reason length) and `judge_refused`.
    """

    type = "judge_reply_invalid"

    def __init__(self, message: str, *, type: str = "judge_reply_invalid") -> None:
        super().__init__(message)
        self.type = type


class MethodUnavailable(EvaluationError):
    """The definition demands a way of scoring that the judge does not offer, like token probabilities."""

    type = "method_unavailable"


class NotApplicable(Exception):
    """The case lacks what the evaluator needs. The message is the reason, like `missing_field: expected_output`."""
