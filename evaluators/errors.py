"""Errors of an evaluation, as one tree.

EvaluationError                  the case has no score; becomes a Failure with `type` as its error type
├── JudgeError                   the judge gave no usable answer
│   ├── JudgeUnavailable         down, overloaded, rate limited, timed out: the same question may succeed later
│   │   ├── JudgeUnreachable     nobody listens there: connection refused, unknown host, no TLS
│   │   └── NoCompletion         an answer of status 200 that is not a completion: a page of a proxy, an error inside
│   ├── JudgeRejected            refused for good: request too large, context too long
│   │   └── JudgeDenied          refused whatever the request: wrong key, no credit, unknown model, wrong address
│   └── JudgeReplyInvalid        answered, but not in the asked form, not on the scale, or cut off
├── TooExpensive                 computing it would stall everything else: too long a text for work that is not linear
├── MethodUnavailable            the judge cannot be asked the way the definition demands, like with token probabilities
└── (anything else)              a bug in an evaluator; becomes a Failure of type `internal_error`
BrokenPromise                    an evaluator's code breaks the contract; becomes `internal_error` with the message
NotApplicable                    the case lacks what the evaluator needs; becomes Skipped, not a failure
"""

from typing import Literal, Self

from evaluators.results import Usage


class EvaluationError(Exception):
    """The case has no score. `type` is a short snake_case name out of a closed set, fit for a metric label."""

    type = "evaluation_error"


class JudgeError(EvaluationError):
    """The judge gave no usable answer.

    `usage` and `cost_usd` are the bill of the failed attempts; the cost is None if no price is known.
    """

    type = "judge_error"
    usage: Usage = Usage()
    cost_usd: float | None = None
    isolated: bool = False
    """Whether a circuit breaker saw the endpoint answer well just before this error."""
    sent: int = 0
    """A hash of the headers that were read from files: with a replaced key it is another one."""

    def with_bill(self, usage: Usage, cost_usd: float | None) -> Self:
        """A copy for another question, with its own bill: one error that is raised twice would gather tracebacks."""
        own = type(self).__new__(type(self), *self.args)  # `copy` would call __init__ without what it requires
        own.__dict__.update(self.__dict__)
        own.usage, own.cost_usd = usage, cost_usd
        return own


class JudgeUnavailable(JudgeError):
    """The judge cannot answer now; asking again may help.

    `retry_after` is the wait in seconds that the judge asked for, None if it named none. `type` tells apart
    `judge_unavailable` (no connection, 5xx), `judge_rate_limited` (429) and `judge_timeout`.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, type: str = "judge_unavailable") -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.type = type


class JudgeUnreachable(JudgeUnavailable):
    """No judge listens at the address: connection refused, no such host, or TLS fails."""


class NoCompletion(JudgeUnavailable):
    """The endpoint answered with status 200, but not with a completion, as gateways do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type="judge_no_completion")


class JudgeRejected(JudgeError):
    """The judge refuses this question for good (400, 413, 422)."""

    type = "judge_rejected"


Remedy = Literal["key", "credit", "model or address", "address"]


class JudgeDenied(JudgeRejected):
    """The endpoint refuses every question with this key, for this model, at this address (401, 402, 403, 404).

    It is an outage that an operator has to mend; until then asking again is useless. `remedy` says where to look.
    """

    type = "judge_denied"

    def __init__(self, message: str, *, remedy: Remedy) -> None:
        super().__init__(message)
        self.remedy: Remedy = remedy


ENDPOINT_ERRORS = (JudgeUnavailable, JudgeDenied)
"""Errors that concern the endpoint, not one question."""


class JudgeReplyInvalid(JudgeError):
    """The judge's text is not an answer to the question.

    `type` tells apart `judge_reply_invalid`, `judge_reply_truncated` (finish reason length) and `judge_refused`.
    """

    type = "judge_reply_invalid"

    def __init__(self, message: str, *, type: str = "judge_reply_invalid") -> None:
        super().__init__(message)
        self.type = type


class MethodUnavailable(EvaluationError):
    """The definition demands a way of scoring that the judge lacks, like token probabilities."""

    type = "method_unavailable"


class TooExpensive(EvaluationError):
    """The case is too large for work whose time grows faster than the case: it would stall everything else."""

    type = "too_expensive"


class BrokenPromise(Exception):
    """An evaluator's code breaks its contract. The message holds no judged text, and says what to write."""


class NotApplicable(Exception):
    """The case lacks what the evaluator needs. The message is the reason, like `missing_field: expected_output`."""
