"""From the openai client's exceptions to ours: which reaction each asks for."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpx2
import orjson
from openai import APIStatusError

from evaluators.errors import JudgeError, JudgeRejected, JudgeReplyInvalid, JudgeUnavailable

_RATE_LIMITED = 429
_PASSING = frozenset({408, 409, 425})
_REFUSALS = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
_CODE = re.compile(r"[\w.\-]{1,64}")


def status_error(response: httpx2.Response) -> APIStatusError:
    """A response of status 300 or above as the client's exception: with its `error`, where the body is JSON."""
    try:
        body: object = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        body = response.text.strip()
    if isinstance(body, dict):
        body = cast("dict[str, object]", body).get("error", cast("object", body))
    return APIStatusError(f"HTTP {response.status_code}", response=response, body=body)


def error_of(error: APIStatusError) -> JudgeError:
    """What a response of status 300 or above means. The message holds the status and the error's code, no free text."""
    status = error.status_code
    code = _code(error.body)
    message = f"the judge answered HTTP {status}" + (f" ({code})" if code else "")
    if status == _RATE_LIMITED:
        return JudgeUnavailable(message, retry_after=retry_after(error.response.headers), type="judge_rate_limited")
    if status >= 500 or status in _PASSING:
        return JudgeUnavailable(message, retry_after=retry_after(error.response.headers))
    if code is not None and code.lower() in _REFUSALS:
        return JudgeReplyInvalid(message, type="judge_refused")
    return JudgeRejected(message)


def complaint_of(error: APIStatusError) -> str:
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
