"""The port of the sources: what is asked of one, and what it yields, with the stretches of time of a search.

Some APIs give the first so many of a search and no page after it: their time is cut into stretches.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from collector.commands.fetch.api_reader import ApiReader, Document, FetchFailed
from collector.dialects.decode import as_dict, as_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested traces: those with something between `since` (inclusive) and `until`, at most `limit`.

    `query` is in the source's language; a trace has one of the `services`; `project` is the platform's project. A
    source takes what its `takes` names.
    """

    since: datetime
    until: datetime
    limit: int
    query: str | None = None
    services: Sequence[str] = ()
    project: str | None = None


class Cursor:
    """The place in a list that comes by pages. `most` is how many pages without anything new it may have."""

    def __init__(self, most: int = 1000) -> None:
        self._left = self._most = most
        self._seen: set[str] = set()

    def after(self, token: object, new: int) -> str | None:
        """The token of the next page, after one with so many new things; None after the last page.

        Raises:
            FetchFailed: the list has no end.
        """
        if not token:
            return None
        self._left = self._most if new else self._left - 1
        if str(token) in self._seen or not self._left:
            raise FetchFailed("the list of traces does not end: its pages repeat; narrow --from and --to, or ask again")
        self._seen.add(str(token))
        return str(token)


Read = Callable[[ApiReader, Wanted], AsyncGenerator[bytes, None]]
"""Yields OTLP requests, protobuf or JSON, from the newest stretch to the oldest; a trace may come twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A place where traces lie; `takes` are the options that it knows."""

    title: str
    url: str
    read: Read
    takes: frozenset[str]


def objects(value: object) -> list[Document]:
    """The objects of a list; none, if it is no list."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def object_at(value: object, *names: str) -> Document:
    """The object at a path of names; an empty one, if there is none."""
    for name in names:
        value = as_dict(value).get(name)
    return as_dict(value)


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
