"""Chat completions as any OpenAI-compatible endpoint sends them: from bytes to choices, tokens and usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

import orjson

from evaluators.errors import NoCompletion
from evaluators.judge import Token
from evaluators.judges.error_mapping import error_inside, to_judge_error
from evaluators.judges.large_json import read_large
from evaluators.results import Usage
from evaluators.texts.exact_json import parse_json

_NEVER = -9999.0  # what servers report for a token that could not have been


class LazyTokens(Sequence[Token]):
    """The tokens of an answer, made when they are looked at: of hundreds, only those of the score ever are.

    Until then each is JSON once more: one object instead of sixty, through all of which a garbage collection would go.
    """

    def __init__(self, texts: Sequence[str], entries: Sequence[bytes]) -> None:
        self.texts = texts
        """What the tokens spell, one by one, without making them."""
        self._entries = entries

    @classmethod
    def of(cls, entries: Sequence[Any]) -> LazyTokens:
        """The tokens of a parsed list."""
        try:
            texts = [each["token"] for each in entries]
            "".join(texts)
        except (KeyError, TypeError):  # some are not as they should be
            texts = [_text(_mapping(each).get("token")) or "" for each in entries]
        return cls(texts, [*map(orjson.dumps, entries)])

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | Sequence[Token]:
        if isinstance(index, slice):
            return LazyTokens(self.texts[index], self._entries[index])
        return _token(orjson.loads(self._entries[index]))


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
    return read_large(body, _completion)


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
    used = _mapping(payload.get("usage"))
    details = _mapping(used.get("prompt_tokens_details"))
    return Completion(
        choices=[_choice(_mapping(choice)) for choice in cast("list[Any]", choices)],
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
    entries = _mapping(choice.get("logprobs")).get("content")
    return Choice(
        text=_content(message.get("content")),
        finish_reason=_text(choice.get("finish_reason")),
        refused=bool(message.get("refusal")) or choice.get("finish_reason") == "content_filter",
        tokens=LazyTokens.of(cast("list[Any]", entries)) if isinstance(entries, list) else (),
    )


def _content(content: Any) -> str:
    """A message's text; some endpoints send it in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [_mapping(part) for part in cast("list[Any]", content)]
        return "".join(_text(part.get("text")) or "" for part in parts if part.get("type") == "text")
    return ""


def _token(entry: Any) -> Token:
    entry = _mapping(entry)
    listed = entry.get("top_logprobs")
    weighed = [_mapping(each) for each in cast("list[Any]", listed)] if isinstance(listed, list) else []
    return Token(
        text=_text(entry.get("token")) or "",
        logprob=_logprob(entry.get("logprob")),
        alternatives=tuple((_text(each.get("token")) or "", _logprob(each.get("logprob"))) for each in weighed),
    )


def _logprob(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _NEVER


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
