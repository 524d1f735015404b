"""Rejections: why a request is not accepted, as an HTTP status and one sentence."""

import logging
from collections.abc import Mapping

from collector.admission.fair_limit import LimitReached
from collector.errors import BadInput, Overloaded, TooLarge
from collector.logs.log import LogUnavailable, RecordTooLarge
from collector.telemetry.plain import fault_of

logger = logging.getLogger(__name__)


class NotRedacted(BadInput):
    """Redaction failed: nothing of the input may be stored, not even as a dead letter."""

    secret = True


_REASONS = {
    400: "unreadable",
    401: "unauthenticated",
    403: "forbidden",
    404: "unknown_path",
    408: "slow_body",
    413: "too_large",
    415: "unsupported_type",
    500: "internal_error",
    503: "log_unavailable",
}


class Rejected(Exception):
    """A request is answered with this HTTP status. `retry_after` (s) asks the sender to retry then."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.headers = headers or {}
        self.reason = reason or _REASONS.get(status, "error")


def rejection_of(error: Exception, retry_after: float) -> Rejected | None:
    """The answer to an error; None for one that neither a request nor the log can cause.

    OTLP senders give up at 400 and 413 and try again after 503, in `retry_after` seconds.
    """
    match error:
        case Rejected():
            return error
        case TooLarge():
            return Rejected(413, str(error))
        case RecordTooLarge():
            return Rejected(413, "a trace in the request is larger than the log accepts")
        case BadInput():
            return Rejected(400, str(error))
        case LimitReached():
            return Rejected(503, str(error), retry_after=retry_after, reason=error.reason.replace(" ", "_"))
        case Overloaded():
            return Rejected(503, str(error), retry_after=retry_after)
        case LogUnavailable():
            return Rejected(503, "the log cannot be written now", retry_after=retry_after)
        case TimeoutError():
            return Rejected(503, "the log did not accept the request in time", retry_after=retry_after)
        case _:
            return None


def internal_error(error: Exception) -> Rejected:
    """The answer to an error of our own; logs where it was raised, not its message: it may quote texts."""
    logger.error("receiving failed: %s", fault_of(error))
    return Rejected(500, "internal error")
