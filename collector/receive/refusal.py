"""Why a request is not taken."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping

from collector.errors import BadInput, Overloaded
from collector.logs.log import LogUnavailable, RecordTooLarge

logger = logging.getLogger(__name__)


class TooLarge(BadInput):
    """More than may be taken at once."""


class NotRedacted(BadInput):
    """What has to be taken out of the texts could not be: nothing of it may be stored, not even as a dead letter."""

    secret = True


class Refused(Exception):
    """A request is answered with this HTTP status. `retry_after` (s) asks the sender to come again then."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.headers = headers or {}


def refusal(error: Exception, retry_after: float) -> Refused | None:
    """What to answer on an error, None if it is none that a request or the log can cause.

    OTLP senders give up at 400 and 413 and come again after 503; `retry_after` (s) is for errors that name no wait.
    """
    match error:
        case Refused():
            return error
        case TooLarge():
            return Refused(413, str(error))
        case RecordTooLarge():
            return Refused(413, "a trace in the request is larger than the log takes")
        case BadInput():
            return Refused(400, str(error))
        case Overloaded():
            return Refused(503, str(error), retry_after=error.retry_after)
        case LogUnavailable():
            return Refused(503, "the log cannot be written now", retry_after=retry_after)
        case TimeoutError():
            return Refused(503, "the log did not take the request in time", retry_after=retry_after)
        case _:
            return None


def bug(error: Exception) -> Refused:
    """What to answer on an error that nobody can cause but ourselves; logs where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    logger.error("receiving failed: %s at %s:%s", type(error).__name__, frame.filename, frame.lineno)
    return Refused(500, "internal error")
