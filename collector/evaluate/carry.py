"""Conversations carried forward in the log: written again as one record, so that the old ones are needed no more.

A conversation that goes on for long, or whose turns lie far apart, would hold the low watermark back, and a restart
would read all that came since. So its episode is appended to its own partition of the turns log. When the record is
read, it holds if nothing of the episode changed in between; only the owner of the partition knows that, so it writes
it down as a decision, by which a replay goes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.evaluate.kept import Kept
from collector.evaluate.session import Closing, Episode, Session
from collector.logs.log import Headers, Record

CARRY: Headers = (("carry", b"1"),)
"""The headers of a record that carries a conversation."""

_PLAIN = (
    "first_at", "last_at", "touched", "size", "ends", "rate", "boost", "stratum", "upstream", "closed", "sealed",
    "revision",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Carried:
    """An episode of a monitor that began at position `first`, as it was when records below `since` had been taken."""

    monitor: str
    conversation_id: str
    first: int
    since: int
    sessions: tuple[Session, ...]


def carry_record(monitor: str, conversation_id: str, episode: Episode, since: int, partition: int) -> Record:
    """The record that carries an episode."""
    plain: dict[str, Any] = {
        "monitor": monitor,
        "conversation_id": conversation_id,
        "first": episode.mark.position,
        "since": since,
        "sessions": [_plain(each) for each in episode.sessions],
    }
    return Record(conversation_id.encode(), orjson.dumps(plain), CARRY, partition)


def _plain(session: Session) -> dict[str, Any]:
    return {name: getattr(session, name) for name in _PLAIN} | {
        "newest": session.newest,
        "oldest": session.oldest,
        "unheard": sorted(session.unheard),
        "told_at_first": sorted(session.told_at_first),
        "closings": [tuple(each) for each in session.closings],
        "turns": {
            turn_id: None if kept is None else (*kept[:3], b64encode(kept.packed).decode())
            for turn_id, kept in session.turns.items()
        },
    }


def carried_from(value: bytes) -> Carried:
    """Read what is carried.

    Raises:
        BadInput: it carries nothing that this version can read.
    """
    try:
        plain = cast("dict[str, Any]", orjson.loads(value))
        conversation_id = plain["conversation_id"]
        sessions = tuple(_session(conversation_id, each) for each in plain["sessions"])
        return Carried(plain["monitor"], conversation_id, plain["first"], plain["since"], sessions)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"not a carried conversation: {type(error).__name__}") from None


def _session(conversation_id: str, plain: dict[str, Any]) -> Session:
    session = Session(conversation_id, **{name: plain[name] for name in _PLAIN})
    session.newest = (plain["newest"][0], plain["newest"][1])
    session.oldest = (plain["oldest"][0], plain["oldest"][1])
    session.unheard, session.told_at_first = frozenset(plain["unheard"]), frozenset(plain["told_at_first"])
    session.closings = tuple(Closing(*each) for each in plain["closings"])
    session.turns = {turn_id: _kept(each) for turn_id, each in plain["turns"].items()}
    return session


def _kept(plain: list[Any] | None) -> Kept | None:
    return None if plain is None else Kept(plain[0], plain[1], plain[2], b64decode(plain[3]))
