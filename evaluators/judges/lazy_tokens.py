"""The tokens of an answer, read from its JSON when they are looked at: of hundreds, only those of a verdict ever are.

Twenty alternatives for each token are nearly all of an answer's bytes. A decoder that knows the form passes over them,
and remembers where they stand in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast, overload

import msgspec
import orjson

from evaluators.judge import Token
from evaluators.texts.exact_json import parse_json

_NEVER = -9999.0  # what servers report for a token that could not have been
NULL = msgspec.Raw(b"null")
"""What a form has where a body has nothing."""

Entry = TypeVar("Entry")


class TokenEntry(msgspec.Struct, gc=False):
    """A token of an answer: its text, and all else as it stands in the body. Not its bytes, which nobody needs."""

    token: str
    logprob: msgspec.Raw = NULL
    top_logprobs: msgspec.Raw = NULL


class _Alternative(msgspec.Struct, gc=False):
    token: str
    logprob: float


_ALTERNATIVES = msgspec.json.Decoder(list[_Alternative])


class LazyTokens(Sequence[Token], Generic[Entry]):
    """Tokens that are made of their entries when they are looked at."""

    def __init__(self, texts: Sequence[str], entries: Sequence[Entry], read: Callable[[Entry], Token]) -> None:
        self.texts = texts
        """What the tokens spell, one by one, without making them."""
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
    """The tokens of a list of entries, as either decoder has read it; none of anything else."""
    if not isinstance(entries, list) or not entries:
        return ()
    every = cast("list[Any]", entries)
    if isinstance(every[0], TokenEntry):
        return LazyTokens([each.token for each in every], cast("list[TokenEntry]", every), _token_of_entry)
    try:
        texts = [each["token"] for each in every]
        "".join(texts)
    except (KeyError, TypeError):  # some are not as they should be
        texts = [_text(_mapping(each).get("token")) or "" for each in every]
    # One object a token instead of sixty, through all of which a garbage collection would go.
    return LazyTokens(texts, [*map(_json_of, every)], _token_of_json)


def read_passing_over(body: bytes, decoder: msgspec.json.Decoder[Any]) -> dict[str, Any] | None:
    """A JSON body by the names of a form that the decoder knows, the tokens in it as `TokenEntry`; None where the body
    has another form, or is no JSON.

    What is passed over has to be JSON, too: but for numbers like 1e999 it is looked at as closely as what is read.
    """
    try:
        if not body.isascii():
            str(body, "utf-8")
        return _value_of(decoder.decode(body))
    except (ValueError, RecursionError):  # msgspec's own errors are such, too
        return None


def _value_of(part: Any) -> Any:
    """What a part of a form stands for: objects as dictionaries, values of any kind parsed."""
    if isinstance(part, msgspec.Raw):
        return parse_json(bytes(part))
    if isinstance(part, list):
        every = cast("list[Any]", part)
        return every if every and isinstance(every[0], TokenEntry) else [_value_of(each) for each in every]
    if isinstance(part, msgspec.Struct):
        return {name: _value_of(getattr(part, name)) for name in part.__struct_fields__}
    return part


def _json_of(entry: Any) -> bytes:
    try:
        return orjson.dumps(entry)
    except TypeError:  # nested more deeply than it writes: no alternatives
        return orjson.dumps({"token": _text(_mapping(entry).get("token"))})


def _token_of_json(entry: bytes) -> Token:
    fields = _mapping(orjson.loads(entry))
    return _token(_text(fields.get("token")) or "", fields.get("logprob"), fields.get("top_logprobs"))


def _token_of_entry(entry: TokenEntry) -> Token:
    try:
        alternatives = tuple(
            [(alternative.token, alternative.logprob) for alternative in _ALTERNATIVES.decode(entry.top_logprobs)]
        )
        return Token(entry.token, _logprob(_value_of(entry.logprob)), alternatives)
    except (ValueError, RecursionError):  # some are not as they should be
        return _odd_token(entry)


def _odd_token(entry: TokenEntry) -> Token:
    try:
        return _token(entry.token, _value_of(entry.logprob), _value_of(entry.top_logprobs))
    except ValueError:  # a number like 1e999, the one thing that is passed over and no JSON to the other decoder
        return Token(entry.token, _NEVER)


def _token(token: str, logprob: Any, listed: Any) -> Token:
    weighed = [_mapping(each) for each in cast("list[Any]", listed)] if isinstance(listed, list) else []
    alternatives = tuple((_text(each.get("token")) or "", _logprob(each.get("logprob"))) for each in weighed)
    return Token(token, _logprob(logprob), alternatives)


def _logprob(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _NEVER


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
