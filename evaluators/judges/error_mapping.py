"""The error of ours for each refusal of an endpoint: which reaction each asks for."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

from evaluators.errors import (
    JudgeDenied,
    JudgeError,
    JudgeRejected,
    JudgeReplyInvalid,
    JudgeUnavailable,
    NoCompletion,
    Remedy,
)
from evaluators.wire.outside_json import read_outside

_REDIRECTS, _BAD_REQUEST, _FORBIDDEN, _RATE_LIMITED = 300, 400, 403, 429
_ERROR_STATUS = range(400, 600)
_PASSING = frozenset({408, 409, 425})
_REFUSALS = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
_TOO_LONG = frozenset({"context_length_exceeded", "string_above_max_length", "request_too_large"})
_MODERATION = ("moderation", "flagged", "content policy", "safety")
_REMEDIES: Mapping[int, Remedy] = {
    401: "key", 402: "credit", 403: "key", 404: "model or address", 405: "address", 407: "key", 410: "model or address",
}  # fmt: skip
_REMEDIES_BY_CODE: Mapping[str, Remedy] = {
    "insufficient_quota": "credit",
    "billing_hard_limit_reached": "credit",
    "billing_not_active": "credit",
    "budget_exceeded": "credit",
    "invalid_api_key": "key",
    "authentication_error": "key",
    "permission_error": "key",
    "permission_denied": "key",
    "model_not_found": "model or address",
    "model_decommissioned": "model or address",
    "deploymentnotfound": "model or address",
    "not_supported_error": "model or address",  # decisions of a model that makes none
}
_WORDED_STATUSES = frozenset({200, 400})  # statuses with which some providers refuse a key, an account or a model
_REMEDIES_BY_WORDS: Mapping[str, Remedy] = {
    "credit balance": "credit",
    "api key not valid": "key",
    "api_key_invalid": "key",
    "not a valid model": "model or address",
    "invalid model": "model or address",
    "model identifier is invalid": "model or address",
}
_WORDS = 1 << 16
"""Bytes of an error that are read."""
_CODE = re.compile(r"[\w.\-]{1,64}")


class HttpStatusError(Exception):
    """A response with an error. `body` is its `error`, or all of it, where it is JSON; else its text."""

    def __init__(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.body = _body_of(content)


def _body_of(content: bytes) -> object:
    try:
        body: object = read_outside(content[:_WORDS])
    except ValueError:
        return content[:_WORDS].decode(errors="replace").strip()
    return cast("dict[str, object]", body).get("error", cast("object", body)) if isinstance(body, dict) else body


def error_inside(content: bytes) -> HttpStatusError:
    """The error in a response of status 200, with the status that it names where it does, as gateways do."""
    error = HttpStatusError(200, {}, content)
    body = error.body
    if isinstance(body, Mapping):
        for key in ("code", "status", "status_code"):
            value = cast("Mapping[str, Any]", body).get(key)
            if str(value).isdecimal() and _ERROR_STATUS.start <= int(str(value)) < _ERROR_STATUS.stop:
                return HttpStatusError(int(str(value)), {}, content)
    return error


def to_judge_error(error: HttpStatusError) -> JudgeError:
    """The meaning of an error response. The message holds the status and the error's code, no free text."""
    status = error.status
    code = _code(error.body)
    inside = " with an error inside" if status < _REDIRECTS else ""
    message = f"the judge answered HTTP {status}{inside}" + (f" ({code})" if code else "")
    if _about_question(code, error):
        if code is not None and code.lower() in _TOO_LONG:
            return JudgeRejected(message)
        return JudgeReplyInvalid(message, type="judge_refused")
    if (remedy := _remedy(status, code, error)) is not None:
        return JudgeDenied(message, remedy=remedy)
    if status == _RATE_LIMITED:
        return JudgeUnavailable(message, retry_after=retry_after(error.headers), type="judge_rate_limited")
    if status >= 500 or status in _PASSING:
        return JudgeUnavailable(message, retry_after=retry_after(error.headers))
    return NoCompletion(message) if status < _REDIRECTS else JudgeRejected(message)


def _about_question(code: str | None, error: HttpStatusError) -> bool:
    """Whether the refusal concerns this one question, whatever its status: filtered, moderated, too long."""
    if code is not None and code.lower() in _REFUSALS | _TOO_LONG:
        return True
    return error.status == _FORBIDDEN and any(word in complaint_text(error).lower() for word in _MODERATION)


def _remedy(status: int, code: str | None, error: HttpStatusError) -> Remedy | None:
    """The correction that an operator has to make before the endpoint takes any request; None for other errors."""
    if code is not None and (remedy := _REMEDIES_BY_CODE.get(code.lower())) is not None:
        return remedy
    if (remedy := _REMEDIES.get(status)) is not None:
        return remedy
    if _REDIRECTS <= status < _BAD_REQUEST:
        return "address"
    if status in _WORDED_STATUSES:
        complaint = complaint_text(error).lower()
        return next((remedy for words, remedy in _REMEDIES_BY_WORDS.items() if words in complaint), None)
    return None


def complaint_text(error: HttpStatusError) -> str:
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
