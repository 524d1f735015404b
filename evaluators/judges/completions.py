"""Chat completions as any OpenAI-compatible endpoint sends them: from bytes to choices, tokens and usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from evaluators.errors import NoCompletion
from evaluators.judge import Token
from evaluators.judges.error_mapping import error_inside, to_judge_error
from evaluators.judges.large_json import read_large
from evaluators.judges.lazy_tokens import NULL, TokenEntry, read_passing_over, tokens_of
from evaluators.results import Usage
from evaluators.texts.exact_json import parse_json


class _Probabilities(msgspec.Struct):
    content: list[TokenEntry] | None = None


class _ChoiceForm(msgspec.Struct):
    message: msgspec.Raw = NULL
    finish_reason: msgspec.Raw = NULL
    logprobs: _Probabilities | None = None


class _CompletionForm(msgspec.Struct):
    choices: list[_ChoiceForm]
    model: msgspec.Raw = NULL
    system_fingerprint: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL


_DECODER = msgspec.json.Decoder(_CompletionForm)


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer of a completion."""

    text: str
    finish_reason: str | None = None
    refused: bool = False
    tokens: Sequence[Token] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """What came back from one request."""

    choices: Sequence[Choice]
    model: str | None
    fingerprint: str | None
    usage: Usage


def completion_of(body: bytes) -> Completion:
    """Read the body of a response with status 200.

    Raises:
        NoCompletion: it is not a chat completion, for instance a page of a proxy.
        JudgeError: it is an error with a code or a status of its own, which says what it means.
    """
    form = read_passing_over(body, _DECODER)
    return read_large(body, _completion) if form is None or not form["choices"] else _made(form)


def _completion(body: bytes) -> Completion:
    try:
        payload: Any = parse_json(body)
    except ValueError:
        raise NoCompletion("the endpoint answered with something that is not JSON") from None
    payload = _mapping(payload)
    choices = payload.get("choices")
    if not isinstance(choices, list) or not choices:
        if payload.get("error"):
            raise to_judge_error(error_inside(body))
        raise NoCompletion("the endpoint answered with no choices")
    return _made(payload)


def _made(payload: Mapping[str, Any]) -> Completion:
    used = _mapping(payload.get("usage"))
    details = _mapping(used.get("prompt_tokens_details"))
    return Completion(
        choices=[_choice(_mapping(choice)) for choice in payload["choices"]],
        model=_text(payload.get("model")),
        fingerprint=_text(payload.get("system_fingerprint")),
        usage=Usage(
            input_tokens=_count(used.get("prompt_tokens")),
            output_tokens=_count(used.get("completion_tokens")),
            calls=1,
            cached_input_tokens=_count(details.get("cached_tokens")) or None,
            cache_write_tokens=_count(details.get("cache_write_tokens")) or None,
        ),
    )


def _choice(choice: dict[str, Any]) -> Choice:
    message = _mapping(choice.get("message"))
    return Choice(
        text=_content(message.get("content")),
        finish_reason=_text(choice.get("finish_reason")),
        refused=bool(message.get("refusal")) or choice.get("finish_reason") == "content_filter",
        tokens=tokens_of(_mapping(choice.get("logprobs")).get("content")),
    )


def _content(content: Any) -> str:
    """A message's text; some endpoints send it in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [_mapping(part) for part in cast("list[Any]", content)]
        return "".join(_text(part.get("text")) or "" for part in parts if part.get("type") == "text")
    return ""


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
