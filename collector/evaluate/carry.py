"""Conversations carried forward in the log: written again as one record, so that the old ones are needed no more.

A conversation that goes on for long, or whose turns lie far apart, would hold the low watermark back, and a restart
would read all that came since. So its state is appended to its own partition of the turns log.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any, cast

import orjson

from collector.errors import BadInput
from collector.evaluate.kept import Kept
from collector.evaluate.marks import Mark
from collector.evaluate.session import Closing, Session
from collector.logs.log import Headers, Record

CARRY: Headers = (("carry", b"1"),)
"""The headers of a record that carries a conversation."""

_PLAIN = (
    "conversation_id", "first_at", "last_at", "touched", "size", "ends", "rate", "boost", "stratum", "upstream",
    "closed", "sealed", "revision",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Carried:
    """A carried conversation of a monitor, as it was when all records below `since` had been taken.

    `first` is the position of the oldest record that it needed then.
    """

    monitor: str
    since: int
    first: int
    session: Session


def carry_record(monitor: str, session: Session, since: int, partition: int) -> Record:
    """The record that carries a conversation."""
    plain: dict[str, Any] = {name: getattr(session, name) for name in _PLAIN}
    plain |= {
        "monitor": monitor,
        "since": since,
        "first": session.mark.position,
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
    return Record(session.conversation_id.encode(), orjson.dumps(plain), CARRY, partition)


def carried_from(value: bytes, mark: Mark) -> Carried:
    """Read a record that stands at `mark`.

    Raises:
        BadInput: it carries nothing that this version can read.
    """
    try:
        plain = cast("dict[str, Any]", orjson.loads(value))
        session = Session(mark=mark, changed=mark.position, **{name: plain[name] for name in _PLAIN})
        session.newest, session.oldest = (
            (plain["newest"][0], plain["newest"][1]),
            (plain["oldest"][0], plain["oldest"][1]),
        )
        session.unheard, session.told_at_first = frozenset(plain["unheard"]), frozenset(plain["told_at_first"])
        session.closings = tuple(Closing(*each) for each in plain["closings"])
        session.turns = {turn_id: _kept(each) for turn_id, each in plain["turns"].items()}
        return Carried(plain["monitor"], plain["since"], plain["first"], session)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"not a carried conversation: {type(error).__name__}") from None


def _kept(plain: list[Any] | None) -> Kept | None:
    return None if plain is None else Kept(plain[0], plain[1], plain[2], b64decode(plain[3]))
