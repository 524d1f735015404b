"""The attachments of a turn: pictures, recordings and files of its messages, each once, within limits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from collector.assemble.model_calls import ModelCall
from collector.assemble.read_spans import ParsedSpan
from collector.assemble.turn_drafts import TurnDraft
from collector.dialects.call import ChatMessage
from collector.records.attachments import MOST_ATTACHMENTS, within_limits
from evaluators.cases import Attachment, AttachmentPlace

_Key = tuple[str, str | None, str | None, str | None, int | None]


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """The limits on stored content: `stored_bytes` of each attachment, and twice that for all attachments of a turn.
    With 0, a turn has only the hash and size of each.
    """

    stored_bytes: int = 0


NOTHING_STORED = MediaLimits()


@dataclass(frozen=True, slots=True)
class CollectedAttachments:
    """The attachments of a turn, and how many beyond the limit were left out."""

    attachments: tuple[Attachment, ...] = ()
    left_out: int = 0


NONE = CollectedAttachments()


def collect_attachments(draft: TurnDraft, limits: MediaLimits = NOTHING_STORED) -> CollectedAttachments:
    """Collect the attachments of the call with most messages and of the answers, or else of the span around them.

    Attachments of the turn's own messages come first, then those of the history, latest first.
    """
    if not _has_any(draft):
        return NONE
    attachments = _distinct(_of_calls(draft))
    if draft.enclosing_span is not None:
        places = {attachment.place for attachment in attachments}
        call = draft.enclosing_span.call
        messages = call.input or ()
        last = max((index for index, message in enumerate(messages) if message.role == "user"), default=0)
        outer = [*_split(messages, last), *_placed(call.output or (), "actual_output")]
        attachments = _distinct([*attachments, *(attachment for attachment in outer if attachment.place not in places)])
    if not attachments:
        return NONE
    ordered = [attachment for attachment in attachments if attachment.place != "history"]
    ordered += reversed([attachment for attachment in attachments if attachment.place == "history"])
    return CollectedAttachments(within_limits(ordered, limits.stored_bytes), max(0, len(ordered) - MOST_ATTACHMENTS))


def _has_any(draft: TurnDraft) -> bool:
    """Whether any message has an attachment; nearly all have none."""
    holders: list[ModelCall | ParsedSpan] = [*draft.calls]
    if draft.enclosing_span is not None:
        holders.append(draft.enclosing_span)
    for holder in holders:
        for messages in (holder.call.input, holder.call.output):
            for message in messages or ():
                if message.attachments:
                    return True
    return False


def _of_calls(draft: TurnDraft) -> Iterator[Attachment]:
    fullest = max(draft.calls, key=lambda call: len(call.call.input or ()), default=None)
    if fullest is not None:
        yield from _split(fullest.call.input or (), fullest.question_index)
    for call in draft.calls:
        yield from _placed(call.call.output or (), "actual_output")


def _split(messages: Sequence[ChatMessage], question_index: int) -> Iterator[Attachment]:
    """The attachments before the question, and those from the question on (tool results, further messages of the user).

    Pictures that a user sent in messages of their own directly before the question belong to it.
    """
    start = max(0, question_index)
    while start > 0 and messages[start - 1].role == "user" and messages[start - 1].attachments:
        start -= 1
    yield from _placed(messages[:start], "history")
    yield from _placed(messages[start:], "input")


def _placed(messages: Iterable[ChatMessage], place: AttachmentPlace) -> Iterator[Attachment]:
    for message in messages:
        for attachment in message.attachments:
            yield replace(attachment, place="tools_called" if message.role == "tool" and place != "history" else place)


def _distinct(attachments: Iterable[Attachment]) -> list[Attachment]:
    """Each attachment once, because the steps of a turn repeat it. Two attachments without hash and address count as
    one.
    """
    by_key: dict[_Key, Attachment] = {}
    for attachment in attachments:
        by_key.setdefault(
            (attachment.place, attachment.sha256, attachment.url, attachment.media_type, attachment.size), attachment
        )
    return list(by_key.values())
