"""Digests of a conversation up to a turn, computed from its history and extended by an exchange at a time."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from collector.records.tenants import tenant_of
from evaluators.cases import Turn

HistoryDigest = bytes
"""The digest of service, user and all exchanges so far, in order."""


class History(NamedTuple):
    """The place of a turn in its conversation.

    `opening` is the digest of the first exchange, `before` of all before the turn, None if it is the first, and `after`
    of what a next turn would repeat. `opening` and `after` are None as long as there is no answer.
    """

    opening: HistoryDigest | None
    before: HistoryDigest | None
    after: HistoryDigest | None


def history_of(turn: Turn) -> History:
    """Compute what a turn repeats of its conversation.

    Only messages of the user and answers count: system prompts contain the date, some applications omit what tools
    returned, and an attempt without an answer may be repeated or not.
    """
    opening: HistoryDigest | None = None
    digest = _empty(turn)
    before: HistoryDigest | None = None
    for question, answer in _exchanges(turn):
        before = digest = extend(digest, question, answer)
        opening = opening or digest
    if not turn.input or not turn.actual_output:
        return History(opening, before, before)
    after = extend(digest, turn.input, turn.actual_output)
    return History(opening or after, before, after)


def extend(digest: HistoryDigest, question: str, answer: str) -> HistoryDigest:
    """The digest of the same conversation, an exchange later. White space makes no difference."""
    words = "\x1f".join((" ".join(question.split()), " ".join(answer.split())))
    return hashlib.blake2b(digest + words.encode(errors="replace"), digest_size=16).digest()


def _empty(turn: Turn) -> HistoryDigest:
    who = f"{turn.service or ''}\x1f{turn.user_id or ''}"
    if tenant := tenant_of(turn):
        who += f"\x1f{tenant}"  # the same words to two tenants are two conversations
    return hashlib.blake2b(who.encode(errors="replace"), digest_size=16).digest()


def _exchanges(turn: Turn) -> Iterator[tuple[str, str]]:
    """The user's messages, each with its last answer: earlier ones are texts that accompany tool calls."""
    question = answer = ""
    for message in turn.history:
        if not message.content.strip():
            continue
        if message.role == "user":
            if question and answer:
                yield question, answer
            question, answer = message.content, ""
        elif message.role == "assistant":
            answer = message.content
    if question and answer:
        yield question, answer
