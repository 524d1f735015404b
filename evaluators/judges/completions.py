"""Chat completions as any OpenAI-compatible endpoint sends them: from bytes to choices, tokens and usage.

Twenty alternatives for each token are nearly all of an answer's bytes, but only the few tokens of a verdict are ever
read. So a decoder that knows the form passes over them, and remembers where they stand in the body. Usage may have any
names and types. If it is missing or impossible, tokens are estimated from the texts, because an unknown cost is not
zero.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar, cast, overload

import msgspec
import orjson

from evaluators.errors import NoCompletion
from evaluators.judge import Token
from evaluators.judges.answer_places import answer_text, ending, mapping, text_in
from evaluators.judges.apis.payload import parsed
from evaluators.judges.error_mapping import error_inside
from evaluators.judges.large_json import read_large
from evaluators.results import Usage
from evaluators.wire.outside_json import may_be_unbounded, read_outside

_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details")
_CACHED = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens")
_REASONING = ("reasoning_tokens",)
_MOST = 1 << 24
"""The largest believable number of tokens in a request: more than any model reads or writes."""
_MOST_UNSEEN = 100_000
"""How far input tokens may exceed the bytes of a request: for pictures behind addresses and additions."""
_MOST_REASONING = 200_000
"""How far output tokens may exceed the bytes of an answer: for hidden reasoning."""
_BYTES_PER_TOKEN = 4
_FEWEST = 32
"""This many estimated tokens are at least one real token: no text has tokens of 128 bytes."""
_PICTURE_TOKENS = 1000


def usage_of(used: Any) -> Usage:
    """The billed usage of one request; an unknown number is 0.

    Reasoning that is reported beside the answer's tokens, or stands in the total alone, is output. Anthropic's input
    tokens exclude the tokens from the cache; so do another endpoint's if they are fewer than these.
    """
    reported = mapping(used)
    input_details = [reported, *map(mapping, map(reported.get, ("prompt_tokens_details", "input_tokens_details")))]
    output_details = [reported, *map(mapping, map(reported.get, _OUTPUT_DETAILS))]
    read, written = _first(reported, _INPUT), _first(reported, _OUTPUT)
    cached, stored = _highest(input_details, _CACHED), _highest(input_details, _WRITTEN)
    if cached > read or ("input_tokens" in reported and (_CACHED[1] in reported or _WRITTEN[1] in reported)):
        read += cached + stored
    reasoning, total = _highest(output_details, _REASONING), _tokens(reported.get("total_tokens"))
    if reasoning > written:
        written += reasoning
    if total and read:
        written = max(written, total - max(read, cached))
    return Usage(
        input_tokens=read,
        output_tokens=written,
        calls=1,
        cached_input_tokens=cached or None,
        cache_write_tokens=stored or None,
    )


def with_estimates(usage: Usage, question_tokens: int, answer_tokens: int) -> Usage:
    """The usage of one request; missing and impossible numbers are estimated.

    The texts of question and answer have about so many tokens, by four bytes a token. No question has a token for
    128 bytes, and no text has more tokens than bytes beside pictures behind addresses and reasoning.
    """
    enough = usage.input_tokens >= question_tokens // _FEWEST
    knows_input = enough and _may_be(usage.input_tokens, question_tokens, _MOST_UNSEEN)
    knows_output = _may_be(usage.output_tokens, answer_tokens, _MOST_REASONING)
    if knows_input and knows_output:
        return usage
    return replace(
        usage,
        input_tokens=usage.input_tokens if knows_input else question_tokens,
        cached_input_tokens=usage.cached_input_tokens if knows_input else None,
        cache_write_tokens=usage.cache_write_tokens if knows_input else None,
        output_tokens=usage.output_tokens if knows_output else answer_tokens,
        estimated_calls=1,
    )


def _may_be(reported: int, estimated: int, unseen: int) -> bool:
    """Whether a reported number of tokens is possible for a text with about `estimated` tokens."""
    return reported <= estimated * _BYTES_PER_TOKEN + unseen and (reported > 0 or not estimated)


def estimated_tokens(*parts: Any) -> int:
    """About how many tokens texts and pictures have, also within lists and objects: four bytes are a token."""
    size = 0
    for part in parts:
        if isinstance(part, str):
            size += len(part.encode(errors="replace"))
        elif isinstance(part, (dict, Mapping)):
            fields = cast("Mapping[str, Any]", part)
            picture = "image_url" in fields
            size += _PICTURE_TOKENS * _BYTES_PER_TOKEN if picture else estimated_tokens(*fields.values()) * 4
        elif isinstance(part, (list, Sequence)):
            size += estimated_tokens(*cast("Sequence[Any]", part)) * 4
    return -(-size // _BYTES_PER_TOKEN)


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> int:
    for name in names:
        if tokens := _tokens(fields.get(name)):
            return tokens
    return 0


def _highest(parts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    return max((_tokens(part[name]) for part in parts for name in names if name in part), default=0)


def _tokens(value: Any) -> int:
    """A number of tokens, from a number or text; 0 for any other value and for an impossible number."""
    if type(value) is int:
        return value if 0 < value <= _MOST else 0
    try:
        number = 0.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return int(number) if math.isfinite(number) and 0 < number <= _MOST else 0


_NEVER = -9999.0  # what servers report for a token that could not have been
_FAULT = 502
"""The status of a choice that ended by a fault without a code."""
_MOST_CHOICES = 1000
"""The most choices that are read: more than any question has samples."""
NULL = msgspec.Raw(b"null")
"""The placeholder of a form for a missing part of a body."""

Entry = TypeVar("Entry")


class TokenEntry(msgspec.Struct, gc=False):
    """A token of an answer: its text, and its probabilities as raw JSON; its bytes are not needed."""

    token: str
    logprob: msgspec.Raw = NULL
    top_logprobs: msgspec.Raw = NULL


class _Alternative(msgspec.Struct, gc=False):
    token: str
    logprob: float


_ALTERNATIVES = msgspec.json.Decoder(list[_Alternative])


class LazyTokens(Sequence[Token], Generic[Entry]):
    """Tokens that are made of their entries when they are read."""

    def __init__(self, texts: Sequence[str], entries: Sequence[Entry], read: Callable[[Entry], Token]) -> None:
        self.texts = texts
        """The texts of the tokens, one by one, without building token objects."""
        self._entries = entries
        self._read = read

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | Sequence[Token]:
        if isinstance(index, slice):
            return LazyTokens(self.texts[index], self._entries[index], self._read)
        return self._read(self._entries[index])


def tokens_of(entries: Any) -> Sequence[Token]:
    """The tokens of a list of entries, as either decoder has read it; no tokens for any other value."""
    if not isinstance(entries, list) or not entries:
        return ()
    every = cast("list[Any]", entries)
    if isinstance(every[0], TokenEntry):
        return LazyTokens([each.token for each in every], cast("list[TokenEntry]", every), _token_of_entry)
    try:
        texts = [each["token"] for each in every]
        "".join(texts)
    except (KeyError, TypeError):  # some are not as they should be
        texts = [_text(mapping(each).get("token")) or "" for each in every]
    # One object a token instead of sixty, which every garbage collection would visit; and a copy of its length, as what
    # orjson writes into has room for 1,024.
    return LazyTokens(texts, [bytes(bytearray(orjson.dumps(entry))) for entry in every], _token_of_json)


def read_passing_over(body: bytes, decoder: msgspec.json.Decoder[Any]) -> dict[str, Any] | None:
    """A JSON body by the names of a form that the decoder knows, the tokens in it as `TokenEntry`; None where the body
    has another form, or is no JSON.

    Skipped parts have to be JSON, too: except for numbers like 1e999 they are checked as strictly as the parts that are
    read.
    """
    if may_be_unbounded(body):  # the other decoder counts exactly, and says what is too much
        return None
    try:
        if not body.isascii():
            str(body, "utf-8")
        return _value_of(decoder.decode(body))
    except (ValueError, RecursionError):  # msgspec's own errors are of this type, too
        return None


def _value_of(part: Any) -> Any:
    """The value that a part of a form stands for: objects as dictionaries, values of any kind parsed."""
    if isinstance(part, msgspec.Raw):
        return None if part is NULL else read_outside(bytes(part))
    if isinstance(part, list):
        every = cast("list[Any]", part)
        return every if every and isinstance(every[0], TokenEntry) else list(map(_value_of, every))
    if isinstance(part, msgspec.Struct):
        values = msgspec.structs.asdict(part)
        return dict(zip(values, map(_value_of, values.values()), strict=True))
    return part


def _token_of_json(entry: bytes) -> Token:
    fields = mapping(orjson.loads(entry))
    return _token(_text(fields.get("token")) or "", fields.get("logprob"), fields.get("top_logprobs"))


def _token_of_entry(entry: TokenEntry) -> Token:
    try:
        alternatives: tuple[tuple[str, float], ...] = tuple(
            map(msgspec.structs.astuple, _ALTERNATIVES.decode(entry.top_logprobs))
        )
        return Token(entry.token, _logprob(_value_of(entry.logprob)), alternatives)
    except (ValueError, RecursionError):  # some are not as they should be
        return _odd_token(entry)


def _odd_token(entry: TokenEntry) -> Token:
    try:
        return _token(entry.token, _value_of(entry.logprob), _value_of(entry.top_logprobs))
    except ValueError:  # a number like 1e999: only this decoder accepts it
        return Token(entry.token, _NEVER)


def _token(token: str, logprob: Any, listed: Any) -> Token:
    weighed = [mapping(each) for each in cast("list[Any]", listed)] if isinstance(listed, list) else []
    alternatives = tuple((_text(each.get("token")) or "", _logprob(each.get("logprob"))) for each in weighed)
    return Token(token, _logprob(logprob), alternatives)


def _logprob(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _NEVER


def _text(value: Any) -> str | None:  # beside its callers, as each answer comes by here
    return value if isinstance(value, str) else None


class _Probabilities(msgspec.Struct):
    content: list[TokenEntry] | None = None


_Plain = str | int | float | bool | None
"""A value that costs nothing to read; a body with anything else in such a place has another form."""


class _ChoiceForm(msgspec.Struct):
    message: msgspec.Raw = NULL
    finish_reason: _Plain = None
    error: msgspec.Raw = NULL
    text: msgspec.Raw = NULL
    logprobs: _Probabilities | None = None


class _CompletionForm(msgspec.Struct):
    choices: list[_ChoiceForm]
    model: _Plain = None
    system_fingerprint: _Plain = None
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
    """The answer to one request."""

    choices: Sequence[Choice]
    model: str | None
    usage: Usage
    fingerprint: str | None = None

    @property
    def tokens(self) -> int:
        """About how many tokens the answers have."""
        return sum(len(choice.tokens) or estimated_tokens(choice.text) for choice in self.choices)

    def limited(self, most: int) -> Self:
        """The same reply, with its only answer marked as cut off if it has as many tokens as were allowed: some servers
        call that `stop`.
        """
        if len(self.choices) > 1 or self.usage.output_tokens < most:
            return self
        return replace(self, choices=[replace(self.choices[0], finish_reason="length")])


def completion_of(body: bytes) -> Completion:
    """Read the body of a response with status 200.

    Raises:
        NoCompletion: it is not a chat completion, for instance a page of a proxy.
        HttpStatusError: it is an error with a code or a status of its own, which says what it means.
    """
    form = read_passing_over(body, _DECODER)
    return read_large(body, _completion) if form is None or not form["choices"] else _made(form)


def _completion(body: bytes) -> Completion:
    payload = mapping(parsed(body))
    for envelope in ("result", "data", "response"):  # of gateways
        if not payload.get("choices") and mapping(payload.get(envelope)).get("choices"):
            payload = mapping(payload[envelope])
    choices = payload.get("choices")
    if not isinstance(choices, list) or not choices:
        if payload.get("error") or payload.get("errors"):
            raise error_inside(body)
        raise NoCompletion("the endpoint answered with no choices")
    return _made(payload)


def _made(payload: Mapping[str, Any]) -> Completion:
    if len(payload["choices"]) > _MOST_CHOICES:
        raise NoCompletion(f"the endpoint answered with more than {_MOST_CHOICES:,} choices")
    choices = list(map(mapping, payload["choices"]))
    good = [choice for choice in choices if not choice.get("error") and ending(choice.get("finish_reason")) != "failed"]
    if not good:
        raise error_inside(orjson.dumps({"error": choices[0].get("error") or {"code": _FAULT}}))
    return Completion(
        choices=list(map(_choice, good)),
        model=_text(payload.get("model")),
        fingerprint=_text(payload.get("system_fingerprint")),
        usage=usage_of(payload.get("usage")),
    )


def _choice(choice: dict[str, Any]) -> Choice:
    message, reason = choice.get("message"), choice.get("finish_reason")
    fields, probabilities, ended = mapping(message), mapping(choice.get("logprobs")), ending(reason)
    return Choice(
        text=answer_text(fields) or text_in(message if isinstance(message, str) else choice.get("text")),
        finish_reason="length" if ended == "length" else _text(reason),
        refused=bool(fields.get("refusal")) or ended == "filtered",
        tokens=tokens_of(probabilities.get("content")),
    )
