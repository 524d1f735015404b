"""Stretches of time, for APIs that give the first so many of a search and no page after it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta


def stretches(since: datetime, until: datetime, widest: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """Cut a time into stretches, the newest first."""
    while until > since:
        begin = max(since, until - widest)
        yield begin, until
        until = begin


def halves(since: datetime, until: datetime, narrowest: timedelta) -> list[tuple[datetime, datetime]]:
    """The two halves of a stretch, the newer first; none if they would be narrower than `narrowest`.

    A half is a whole number of `narrowest` after `since`.
    """
    middle = since + narrowest * ((until - since) // 2 // narrowest)
    return [] if until - since < 2 * narrowest else [(middle, until), (since, middle)]
