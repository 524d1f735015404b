"""What a turn's history tells of the conversation before it, as hashes that grow by an exchange at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from evaluators.cases import Turn

Told = bytes
"""Stands for a conversation as far as it is told: who with, and every question and its answer, in order."""


class History(NamedTuple):
    """Where in a conversation a turn stands.

    `opening` tells of its first exchange, `before` of all that came before the turn, None if it is the first, and
    `after` of what a next turn would repeat. `opening` and `after` are None as long as there is no answer.
    """

    opening: Told | None
    before: Told | None
    after: Told | None


def history_of(turn: Turn) -> History:
    """Read what a turn repeats of its conversation.

    Only the words count that the user said and got: system prompts carry the date, what tools gave is left out by some
    applications, and an attempt without an answer may be repeated or not.
    """
    opening: Told | None = None
    told = _nothing(turn)
    before: Told | None = None
    for asked, answer in _exchanges(turn):
        before = told = grown(told, asked, answer)
        opening = opening or told
    if not turn.input or not turn.actual_output:
        return History(opening, before, before)
    after = grown(told, turn.input, turn.actual_output)
    return History(opening or after, before, after)


def grown(told: Told, asked: str, answer: str) -> Told:
    """The same conversation, an exchange later. How words are spaced makes no difference."""
    words = "\x1f".join((" ".join(asked.split()), " ".join(answer.split())))
    return hashlib.blake2b(told + words.encode(errors="replace"), digest_size=16).digest()


def _nothing(turn: Turn) -> Told:
    who = f"{turn.service or ''}\x1f{turn.user_id or ''}"
    return hashlib.blake2b(who.encode(errors="replace"), digest_size=16).digest()


def _exchanges(turn: Turn) -> Iterator[tuple[str, str]]:
    """The questions of the history, each with the last thing said to it: before that come words beside tool calls."""
    asked = answer = ""
    for message in turn.history:
        if not message.content.strip():
            continue
        if message.role == "user":
            if asked and answer:
                yield asked, answer
            asked, answer = message.content, ""
        elif message.role == "assistant":
            answer = message.content
    if asked and answer:
        yield asked, answer
