"""The declared form of messages of one text each, for `msgspec`, which does not take compiled classes."""

from typing import Annotated, Literal

import msgspec


class PlainText(msgspec.Struct, forbid_unknown_fields=True):
    """A part that is a text."""

    type: Literal["text"]
    content: str


class PlainMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message with its text as `content`, or as its only part."""

    role: Literal["user", "assistant", "system"]
    content: str | None = None
    parts: Annotated[list[PlainText], msgspec.Meta(min_length=1, max_length=1)] | None = None
    finish_reason: str | None = None


decode_plain_messages = msgspec.json.Decoder(list[PlainMessage]).decode
