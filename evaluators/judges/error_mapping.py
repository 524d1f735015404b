"""The error of ours for each refusal of an endpoint: the small interpreter of `endpoint_meanings`."""

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

from evaluators.errors import JudgeDenied, JudgeError, JudgeRejected, JudgeReplyInvalid, JudgeUnavailable, NoCompletion
from evaluators.judges import endpoint_meanings
from evaluators.judges.answer_places import mapping
from evaluators.judges.own_words import own_words, without_question
from evaluators.wire.outside_json import read_outside

ABOUT_QUESTION = frozenset({"too long", "failed generation"})
"""Meanings of refusals that concern one question, and may pass without a feature."""
_REDIRECTS = 300
_ERROR_STATUS = range(400, 600)
_WORDS = 1 << 16
"""The most bytes that are read of an error that is no JSON."""
_LONGEST_DOCUMENT = 1 << 20
"""The longest error, in bytes, that is read as JSON; a longer error is read as text."""
_MOST_READ = 4000
"""The most characters that are read of a complaint."""
_MOMENT = 1e9
"""Seconds beyond which a number is no wait and names a moment, in Unix time."""
_CODE = re.compile(r"[\w.\-]{1,64}")
_UNITS = {"milli": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s?(milli|ms|min|[smhd])[a-z]*")


class HttpStatusError(Exception):
    """A response with an error. `body` is its `error`, or all of it, where it is JSON; else its text."""

    def __init__(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.headers = headers
        self.body = _body_of(content)


def _body_of(content: bytes) -> object:
    try:
        body: object = read_outside(content) if len(content) <= _LONGEST_DOCUMENT else content
    except ValueError:
        body = content
    if body is content:
        return content[:_WORDS].decode(errors="replace").strip()
    if isinstance(body, list) and body:  # as Gemini's endpoints answer
        body = cast("list[object]", body)[0]
    if not isinstance(body, dict):
        return cast("object", body)
    fields = cast("dict[str, object]", body)
    return fields.get("error") or fields


def error_inside(content: bytes) -> HttpStatusError:
    """The error in a response of status 200, with the status that it names where it does, as gateways do."""
    error = HttpStatusError(200, {}, content)
    body: Any = error.body
    if isinstance(body, dict):
        fields = cast("dict[str, Any]", body)
        for key in ("code", "status", "status_code"):
            value = fields.get(key)
            if str(value).isdecimal() and int(str(value)) in _ERROR_STATUS:
                error.status = int(str(value))
                break
    return error


def meaning_of(error: HttpStatusError, question: str = "") -> endpoint_meanings.Meaning | None:
    """The meaning of a refusal, by its code, else its words, else its status; None for an unknown error inside 200.

    Words of the `question` that the endpoint quotes mean nothing.
    """
    for code in _codes(error.body):
        if (meaning := endpoint_meanings.CODES.get(code.lower())) is not None:
            return meaning
    complaint = without_question(complaint_text(error), question).lower()
    for words, statuses, meaning in endpoint_meanings.WORDS:
        if error.status in statuses and words.search(complaint):
            return meaning
    unknown: endpoint_meanings.Meaning | None = "unsupported" if error.status in _ERROR_STATUS else None
    return endpoint_meanings.STATUSES.get(error.status) or unknown


def to_judge_error(error: HttpStatusError, question: str = "", keys: Iterable[str] = ()) -> JudgeError:
    """The judge's error for an error response, in the endpoint's own words without the words of the `question` and the
    `keys` that were sent.
    """
    status, meaning = error.status, meaning_of(error, question)
    code = next((code for code in _codes(error.body) if not code.isdecimal() and _CODE.fullmatch(code)), None)
    inside = " with an error inside" if status < _REDIRECTS else ""
    words = own_words(_message(error.body), question, keys) if question else ""
    message = f"the judge answered HTTP {status}{inside}" + (f" ({code})" if code else "")
    message += f": {words}" if words else ""
    match meaning:
        case "filtered":
            return JudgeReplyInvalid(message, type="judge_refused")
        case "key" | "credit" | "model or address" | "address":
            return JudgeDenied(message, remedy=meaning)
        case "rate limited":
            return JudgeUnavailable(message, retry_after=retry_after(error), type="judge_rate_limited")
        case "transient":
            return JudgeUnavailable(message, retry_after=retry_after(error))
        case "too long":
            return JudgeRejected(message)
        case _:
            return NoCompletion(message) if status < _REDIRECTS else JudgeRejected(message)


def complaint_text(error: HttpStatusError) -> str:
    """All that the endpoint says about a refusal, for finding out its meaning. Not for people to read."""
    body = error.body
    if not isinstance(body, Mapping):
        return str(body or "")[:_MOST_READ]
    parts = cast("Mapping[str, Any]", body)
    fields = [str(parts.get(key) or "") for key in ("param", "code", "type", "status")]
    return " ".join([*fields, _message(parts), *_delays(parts)])[:_MOST_READ]


def _message(body: object) -> str:
    """The sentences of a refusal, without what some servers repeat of a request beside them."""
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body[:_MOST_READ]
    if not isinstance(body, Mapping):
        return ""
    parts = cast("Mapping[str, Any]", body)
    sentences = [parts.get(key) for key in ("message", "msg", "detail", "error_description", "error")]
    metadata = parts.get("metadata")
    if isinstance(metadata, Mapping):  # the message that a router got from the provider behind it
        sentences.append(cast("Mapping[str, Any]", metadata).get("raw"))
    return " ".join(filter(None, map(_sentence, sentences)))[:_MOST_READ]


def _sentence(value: Any) -> str:
    if isinstance(value, list):  # FastAPI's: the place of the fault, and its reason; `input` has the text itself
        return " ".join(_sentence(entry) for entry in cast("list[Any]", value)[:20])
    if isinstance(value, Mapping):
        entry = cast("Mapping[str, Any]", value)
        where = entry.get("loc")
        path = ".".join(map(str, cast("list[Any]", where))) if isinstance(where, list) else ""
        return f"{path} {entry.get('msg') or entry.get('message') or ''}".strip()
    return value if isinstance(value, str) else ""


def _delays(body: Mapping[str, Any]) -> Iterator[str]:
    details = body.get("details")
    for detail in cast("list[Any]", details)[:20] if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and "retryDelay" in detail:
            yield f"retryDelay {cast('Mapping[str, Any]', detail)['retryDelay']}"


def retry_after(error: HttpStatusError, now: float | None = None) -> float | None:
    """Seconds that a response asks to wait: by a header, as a number, a duration or a moment, or in words.

    A gateway repeats a provider's headers inside the error.
    """
    now = time.time() if now is None else now
    for headers in (error.headers, _headers_inside(error.body)):
        resets = {endpoint_meanings.RESET_HEADER: 1.0} if headers.get(endpoint_meanings.REMAINING_HEADER) == "0" else {}
        for name, unit in {**endpoint_meanings.WAIT_HEADERS, **resets}.items():
            if (seconds := seconds_to_wait(headers.get(name), now, unit)) is not None:
                return seconds
    match = endpoint_meanings.WAIT_WORDS.search(complaint_text(error).lower())
    return duration(match[1].strip()) if match else None


def _headers_inside(body: object) -> Mapping[str, str]:
    if not isinstance(body, Mapping):
        return {}
    fields = cast("Mapping[str, Any]", body)
    passed_on = mapping(mapping(fields.get("metadata")).get("headers"))
    return {name.lower().replace("_", "-"): str(value) for name, value in {**fields, **passed_on}.items()}


def seconds_to_wait(value: str | None, now: float, unit: float = 1.0) -> float | None:
    """The wait that a header's value names: as a number of `unit` seconds, a duration, or a moment; None if none."""
    number = _number(value)
    if number is None:
        if value and (seconds := duration(value)) is not None:
            return seconds
        try:
            return max(0.0, parsedate_to_datetime(value or "").timestamp() - now)
        except (ValueError, OverflowError):
            return None
    number *= 0.001 if number > 1000 * _MOMENT else unit
    return max(0.0, number - now) if number > _MOMENT else number


def duration(text: str | None) -> float | None:
    """Seconds of a duration as endpoints write them: `20ms`, `6m0s`, `1.5`, `2 minutes`; None if it is none."""
    text = (text or "").strip().lower()
    if not text or text.replace(".", "", 1).isdecimal():
        return _number(text)
    if _PART.sub("", text).strip():
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _codes(body: object) -> Iterator[str]:
    """The error's own short names."""
    if isinstance(body, Mapping):
        for key in ("code", "type", "status"):
            value = cast("Mapping[str, Any]", body).get(key)
            if isinstance(value, str | int) and not isinstance(value, bool):
                yield str(value)
