"""Limits on the attachments of a turn: how many, and how much of their content."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from collector.otlp.inline_media import parse_content
from evaluators.cases import Attachment

MOST_ATTACHMENTS = 32
"""Attachments of a turn; those beyond are left out."""


def within_limits(attachments: Sequence[Attachment], stored_bytes: int) -> tuple[Attachment, ...]:
    """The first of the attachments; with the content of small ones, at most twice `stored_bytes` in all."""
    return tuple(_bounded(map(_described, attachments[:MOST_ATTACHMENTS]), stored_bytes))


def _described(attachment: Attachment) -> Attachment:
    """The attachment with the size and hash of its content, whatever was said of it; without what is no content."""
    if attachment.data is None:
        return attachment
    content = parse_content(attachment.data)
    if content is None:
        return replace(attachment, data=None)
    data = attachment.data if content.data is not None else None
    return replace(attachment, size=content.size, sha256=content.sha256, data=data)


def _bounded(attachments: Iterable[Attachment], longest: int) -> Iterator[Attachment]:
    remaining = 2 * longest
    for attachment in attachments:
        size = attachment.size or 0
        if attachment.data is None:
            yield attachment
        elif size > longest or size > remaining:
            yield replace(attachment, data=None)
        else:
            remaining -= size
            yield attachment
