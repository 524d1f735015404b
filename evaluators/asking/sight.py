"""The attachments of a case that a judge is shown, and the text that it reads about the others.

Addresses are never fetched here. A judge's endpoint gets content that the case itself holds, or the address of a
picture on a host that the configuration names: strangers write addresses into traces, and must not choose which hosts
are called.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlsplit

from evaluators.cases import Attachment, AttachmentKind, Conversation, Json, Turn
from evaluators.judge import Judge

MOST_LISTED = 64
"""The most attachments of a case that are listed for a judge; in a conversation the latest turns come first."""

_SHOWABLE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PLAIN_URL = re.compile(r"https://[A-Za-z0-9.-]{1,253}(?:/[A-Za-z0-9/._~%?&=+,;:!$'()*@-]{0,1700})?", re.ASCII)
_HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class Sight:
    """The attachments that a judge may be shown: `kinds`, up to `max_bytes` each and `max_count` in a question.

    `hosts` are the hosts whose addresses are given to the judge's endpoint, which may fetch them: `cdn.example.com`, or
    `*.example.com` for all below it.
    """

    kinds: frozenset[AttachmentKind] = frozenset()
    hosts: tuple[str, ...] = ()
    max_bytes: int = 1 << 20
    max_count: int = 4

    def shows(self, attachment: Attachment) -> bool:
        """Whether an attachment is shown, if it is among the first `max_count` of its case."""
        if attachment.kind not in self.kinds:
            return False
        if attachment.data is not None:
            return attachment.media_type in _SHOWABLE and len(attachment.data) * 3 // 4 <= self.max_bytes
        return attachment.url is not None and self.permits(attachment.url)

    def permits(self, url: str) -> bool:
        """Whether an address may be given to the judge's endpoint."""
        if not _PLAIN_URL.fullmatch(url):
            return False
        try:
            parts = urlsplit(url)
            plain = parts.username is None and parts.password is None and parts.port in (None, _HTTPS_PORT)
        except ValueError:
            return False
        host = (parts.hostname or "").rstrip(".")
        allowed = map(str.lower, self.hosts)
        return plain and any(host.endswith(name[1:]) if name[:2] == "*." else host == name for name in allowed)


BLIND = Sight()


def sight_of(judge: Judge) -> Sight:
    """The attachments that a judge accepts; none if it names none."""
    sight: object = getattr(judge, "sight", BLIND)
    return sight if isinstance(sight, Sight) else BLIND


@dataclass(frozen=True, slots=True)
class AttachmentView:
    """The attachments of a case as one judge gets them: `visible` to it, and `listed` in the material of its questions.

    `unseen` are the kinds of the attachments that are neither shown nor transcribed.
    """

    visible: tuple[Attachment, ...] = ()
    listed: tuple[Json, ...] = ()
    unseen: tuple[AttachmentKind, ...] = ()


NO_VIEW = AttachmentView()


def view_of(case: Turn | Conversation, judge: Judge) -> AttachmentView:
    """The attachments of a case that a judge is shown."""
    if isinstance(case, Turn) and not case.attachments:
        return NO_VIEW
    attachments = list(islice(_attachments_of(case), MOST_LISTED))
    if not attachments:
        return NO_VIEW
    sight = sight_of(judge)
    visible: list[Attachment] = []
    listed: list[Json] = []
    unseen: list[AttachmentKind] = []
    for number, (turn, attachment) in enumerate(attachments, 1):
        is_visible = len(visible) < sight.max_count and sight.shows(attachment)
        if is_visible:
            visible.append(attachment)
        elif not attachment.transcript:
            unseen.append(attachment.kind)
        listed.append(_described(number, turn, attachment, is_visible=is_visible))
    return AttachmentView(tuple(visible), tuple(listed), tuple(unseen))


def _attachments_of(case: Turn | Conversation) -> Iterator[tuple[int | None, Attachment]]:
    """The attachments of a turn, or of a conversation with their turn's number, the latest turn first.

    Attachments in a turn's history belong to an earlier turn, except in the first turn.
    """
    if isinstance(case, Turn):
        yield from ((None, attachment) for attachment in case.attachments)
        return
    for number in range(len(case.turns), 0, -1):
        for attachment in case.turns[number - 1].attachments:
            if attachment.place != "history" or number == 1:
                yield number, attachment


def _described(number: int, turn: int | None, attachment: Attachment, *, is_visible: bool) -> Json:
    facts = {
        "number": number,
        "kind": attachment.kind,
        "turn": turn,
        "place": attachment.place,
        "media_type": attachment.media_type,
        "transcript": attachment.transcript,
    }
    return {**{name: value for name, value in facts.items() if value is not None}, "shown": is_visible}


def image_parts(pictures: Sequence[Attachment]) -> list[Json]:
    """Pictures as parts of a chat message."""
    return [{"type": "image_url", "image_url": {"url": _address(attachment)}} for attachment in pictures]


def _address(attachment: Attachment) -> str:
    if attachment.data is not None:
        return f"data:{attachment.media_type};base64,{attachment.data}"
    return attachment.url or ""
