"""Rejections: why a request is not accepted, as an HTTP status and one sentence."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from collector.admission.fair_limit import LimitReached
from collector.errors import BadInput, Overloaded, TooLarge
from collector.logs.log import LogUnavailable, RecordTooLarge
from collector.telemetry.plain import fault_of

logger = logging.getLogger(__name__)


class NotRedacted(BadInput):
    """Redaction failed: nothing of the input may be stored, not even as a dead letter."""

    secret = True


class StatusMeaning(NamedTuple):
    """The reason of a status in metrics, and its code in the body over HTTP and over gRPC, by Google's names."""

    reason: str = "error"
    over_http: str = "UNKNOWN"
    over_grpc: str = "INTERNAL"


MEANINGS = {
    400: StatusMeaning("unreadable", "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
    401: StatusMeaning("unauthenticated", "UNAUTHENTICATED", "UNAUTHENTICATED"),
    403: StatusMeaning("forbidden", "PERMISSION_DENIED", "PERMISSION_DENIED"),
    404: StatusMeaning("unknown_path", "NOT_FOUND", "UNIMPLEMENTED"),
    405: StatusMeaning("error", "UNIMPLEMENTED", "UNIMPLEMENTED"),
    408: StatusMeaning("slow_body", "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"),
    413: StatusMeaning("too_large", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"),
    415: StatusMeaning("unsupported_type", "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
    429: StatusMeaning("error", "UNAVAILABLE", "RESOURCE_EXHAUSTED"),
    500: StatusMeaning("internal_error", "INTERNAL", "INTERNAL"),
    503: StatusMeaning("log_unavailable", "UNAVAILABLE", "UNAVAILABLE"),
}
"""The meaning of each status of a rejection."""


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
        self.meaning = MEANINGS.get(status, StatusMeaning())
        self.reason = reason or self.meaning.reason


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
