"""Messages of one text each and nothing else, as nearly all lists have: read by their declared form, in one step.

A message with any other key or value is not of this form, and is left to `collector.dialects.messages`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from collector.dialects.call import ChatMessage, parse_finish_reason
from collector.dialects.plain_message_form import PlainMessage, decode_plain_messages


def read_plain_messages(text: str) -> tuple[ChatMessage, ...] | None:
    """Read the JSON of a list of plain messages; None if it is anything else.

    They hold no numbers and nothing nested, so they need no checks for either.
    """
    try:
        return _to_messages(decode_plain_messages(text))
    except ValueError:  # msgspec's own errors are ValueErrors
        return None


def _to_messages(items: list[PlainMessage]) -> tuple[ChatMessage, ...] | None:
    messages: list[ChatMessage] = []
    for message in items:
        text, parts = message.content, message.parts
        if (text is None) is (parts is None):
            return None
        if parts is not None:
            text = parts[0].content
        finish = parse_finish_reason(message.finish_reason) if message.finish_reason else None
        messages.append(_make(ChatMessage, (message.role, text or "", (), None, None, None, finish, (), False)))
    return tuple(messages)


def convert_plain_messages(items: Iterable[Mapping[str, Any]]) -> tuple[ChatMessage, ...] | None:
    """Convert plain messages with their texts as `content`; None if one of them is anything else."""
    messages: list[ChatMessage] = []
    for item in items:
        role, text = item.get("role"), item.get("content")
        if len(item) != len(_KEYS) or type(text) is not str or type(role) is not str or role not in _ROLES:
            return None
        messages.append(_make(ChatMessage, (role, text, (), None, None, None, None, (), False)))
    return tuple(messages)


_make = cast("Callable[[type[ChatMessage], tuple[Any, ...]], ChatMessage]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType] - generic
"""Makes a named tuple of all its fields in half of the time that its class takes."""


_KEYS = ("role", "content")
_ROLES = frozenset({"user", "assistant", "system"})
