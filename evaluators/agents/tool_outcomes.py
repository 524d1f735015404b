"""The outcomes of tool calls: the failed calls, and the failures that the agent recovered from."""

import re
from collections.abc import Mapping
from typing import cast

from evaluators.cases import Json, ToolCall
from evaluators.texts.paths import parse_json_or_text

_LONGEST = 20_000
"""The longest result, in characters, that is searched for a failure."""

_SAYS_ERROR = re.compile(
    r"[\s\"'*`\[(]{0,8}+(?:error\b(?! ?(?:rate|bar|margin|code 0\b))|traceback \(most recent"
    r"|[\w.]{0,80}?(?:error|exception):"
    r"|tool (?:call )?failed|failed to (?:call|execute|run)|http (?:error )?[45]\d\d\b|status(?: code)?:? [45]\d\d\b)",
    re.IGNORECASE,
)
_STATUSES = frozenset({"error", "failed", "failure", "exception"})


def failure_of(call: ToolCall) -> str | None:
    """Why a call failed, by the trace or by the result itself; None if it did not fail, or neither tells.

    A result says so by a field `error` that holds something, by `isError: true`, by `success: false` or `ok: false`, by
    a `status` of error or failed or of 400 and above, or by a text that begins with the words of an error.
    """
    if call.error:
        return call.error
    result: Json = call.result
    if isinstance(result, str):
        result = parse_json_or_text(result[:_LONGEST])
    if isinstance(result, str):
        return result[:200] if _SAYS_ERROR.match(result) else None
    return _failure_in(cast("Mapping[str, Json]", result)) if isinstance(result, Mapping) else None


def _failure_in(result: Mapping[str, Json]) -> str | None:
    for key in ("error", "errors", "exception", "error_message", "errorMessage"):
        if result.get(key) not in (None, "", False, [], {}, 0):
            return f"{key}: {result[key]}"[:200]
    if any(result.get(key) is True for key in ("isError", "is_error")):
        return "the result is marked as an error"
    if any(result.get(key) is False for key in ("success", "ok", "succeeded")):
        return "the result says that it did not succeed"
    for key in ("status", "status_code", "statusCode"):
        status = result.get(key)
        if isinstance(status, str) and status.casefold() in _STATUSES:
            return f"{key}: {status}"
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
            return f"{key}: {status}"
    return None
