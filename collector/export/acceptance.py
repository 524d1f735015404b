"""Requests of exporters, and what their answers mean.

An answer with a status of success may be no acceptance: a login page, or one that says no in its body.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import aiohttp

from collector.dialects.decode import as_dict
from collector.export.exporter import ExportUnavailable
from evaluators.judges.connection import connection_problem
from evaluators.judges.error_mapping import seconds_to_wait
from evaluators.wire.http_client import HttpClient, HttpResponse
from evaluators.wire.outside_json import outside_or_none

_OTLP = frozenset({"application/x-protobuf", "application/json"})
_PARTLY = 207
"""Some are taken, and the body says which: Langfuse."""
_IN_WORDS = (b"Webhook message delivery failed",)
"""Beginnings of texts with which services say no and answer 200: Microsoft Teams."""
PAGE = "a page for people answers there, such as that of a login: correct the endpoint, or what stands in between"


def _is_false(value: Any) -> bool:
    return value is False


def _failed(value: Any) -> bool:
    return value in ("error", "fail", "failed", "failure") or (_number(value) and value >= 400)


def _not_zero(value: Any) -> bool:
    return _number(value) and value != 0 and not 200 <= value < 300


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_SAYS_NO: Mapping[str, Callable[[Any], bool]] = {
    "error": bool,  # not empty: Phoenix, Braintrust, Telegram
    "errors": bool,  # Datadog, LangSmith, Opik
    "error_code": bool,  # MLflow
    "errcode": _not_zero,  # WeCom, DingTalk
    "code": _not_zero,  # Feishu, Opik
    "ok": _is_false,  # Slack's methods, Telegram
    "success": _is_false,  # Weave's proxies, Mattermost
    "status": _failed,  # Alertmanager
    "statusCode": _failed,  # gateways in front of functions
}
"""The fields of a response body that mean a refusal although its status means success, with their refusing values."""


class Refused(ExportUnavailable):
    """The endpoint answered with a status that is neither a success nor one to wait for, or with no acceptance.

    Only a few statuses are about the request; an operator mends the causes of the others: a token, an address, a broken
    backend. `key` and `place` say what to correct if it refuses the credentials, and that nobody takes requests there.
    """

    def __init__(self, status: int, why: str | None, *, key: str, place: str) -> None:
        remedy = ""
        if status in (401, 403, 407):
            remedy = f": it refuses the credentials; correct the exporter's {key}"
        elif status in (404, 405, 410) or 300 <= status < 400:
            remedy = f": {place}; correct the exporter's endpoint"
        super().__init__(why or f"status {status}{remedy}", reason=f"http_{status}" if why is None else "not_accepted")
        self.status = status


async def answer_to(
    client: HttpClient, method: str, url: str, *, again: Collection[int], headers: Mapping[str, str], data: Any
) -> HttpResponse:
    """The answer to a request.

    Raises:
        ExportUnavailable: there is none, or its status is one of `again`: the same request may be taken later.
    """
    try:
        answer = await client.request(method, url, headers=headers, data=data)
    except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError
        raise ExportUnavailable(f"no answer: {connection_problem(error)}", reason="no_connection") from error
    status = answer.status_code
    if status in again:
        wait = seconds_to_wait(answer.headers.get("Retry-After"), time.time())
        raise ExportUnavailable(f"status {status}", reason=f"http_{status}", retry_after=wait)
    return answer


def no_acceptance(answer: HttpResponse) -> str | None:
    """Why a successful answer is none; None if it is one. The text has no words of the destination."""
    start = answer.content[:200].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<head", b"<body", b"<?xml", b"<script")):
        return PAGE
    if answer.content.startswith(_IN_WORDS):
        return f"status {answer.status_code}, but its text says that it failed"
    if start[:1] != b"{" or answer.status_code == _PARTLY:
        return None
    document = as_dict(outside_or_none(answer.content))
    field = next((name for name, says_no in _SAYS_NO.items() if says_no(document.get(name))), None)
    return None if field is None else f"status {answer.status_code}, but the answer's `{field}` says that it failed"


def no_otlp(answer: HttpResponse) -> str | None:
    """The same of an OTLP endpoint, whose answers are empty or of OTLP's types."""
    if answer.content and answer.content_type not in _OTLP:
        kind = "HTML" if answer.content_type == "text/html" else "something else"
        return f"{kind} answers there instead of OTLP: correct the exporter's endpoint, or what stands in between"
    return no_acceptance(answer) if answer.content_type == "application/json" else None
