"""From an endpoint's refusals to our errors: which reaction each asks for."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

import orjson

from evaluators.errors import JudgeError, JudgeRejected, JudgeReplyInvalid, JudgeUnavailable

_RATE_LIMITED = 429
_PASSING = frozenset({408, 409, 425})
_REFUSALS = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
_CODE = re.compile(r"[\w.\-]{1,64}")


class Refused(Exception):
    """A response of status 300 or above. `body` is its `error`, or all of it, where it is JSON; else its text."""

    def __init__(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.body = _body_of(content)


def _body_of(content: bytes) -> object:
    try:
        body: object = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content.decode(errors="replace").strip()
    return cast("dict[str, object]", body).get("error", cast("object", body)) if isinstance(body, dict) else body


def error_of(error: Refused) -> JudgeError:
    """What a response of status 300 or above means. The message holds the status and the error's code, no free text."""
    status = error.status
    code = _code(error.body)
    message = f"the judge answered HTTP {status}" + (f" ({code})" if code else "")
    if status == _RATE_LIMITED:
        return JudgeUnavailable(message, retry_after=retry_after(error.headers), type="judge_rate_limited")
    if status >= 500 or status in _PASSING:
        return JudgeUnavailable(message, retry_after=retry_after(error.headers))
    if code is not None and code.lower() in _REFUSALS:
        return JudgeReplyInvalid(message, type="judge_refused")
    return JudgeRejected(message)


def complaint_of(error: Refused) -> str:
    """All that the endpoint says about a refusal, for finding out which feature it lacks. Not for people to read."""
    body = error.body
    if isinstance(body, Mapping):
        parts = cast("Mapping[str, Any]", body)
        return " ".join(str(parts.get(key) or "") for key in ("param", "code", "message", "detail"))
    return str(body or "")


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a response asks to wait: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - (time.time() if now is None else now))


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _code(body: object) -> str | None:
    """The error's own short name, if it is one."""
    if not isinstance(body, Mapping):
        return None
    for key in ("code", "type"):
        value = cast("Mapping[str, Any]", body).get(key)
        if isinstance(value, str) and _CODE.fullmatch(value):
            return value
    return None
