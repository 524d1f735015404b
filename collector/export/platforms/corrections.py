"""The port of platforms on which people correct scores: what they say there comes back as feedback of experts.

A person's score that has the name of an evaluator, on what that evaluator judged, is a label of its evaluation.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

import orjson
from pydantic import Field

from collector.dialects.decode import as_dict, as_list
from collector.durations import Seconds
from collector.export.platforms.platform import PlatformSettings
from evaluators.results import Subject
from evaluators.wire.outside_json import outside_or_none

Document = dict[str, Any]
"""One piece of feedback as `POST /v1/feedback` takes it."""

MOST_PAGES = 500
"""Pages of one reading; a correction beyond them is never read."""
_LONGEST = {"name": 100, "label": 200, "comment": 4000, "author": 80}


class CorrectedPlatformSettings(PlatformSettings):
    """The settings of platforms from which corrections are read."""

    corrections: Seconds | None = Field(default=None, ge=1)
    """How often scores that people give there are read, to become labels; never, if left out."""
    corrections_back: Seconds = Field(default=86_400.0, gt=0, le=90 * 86_400.0)
    """How far back each reading looks."""


class CorrectionPage(NamedTuple):
    """The corrections of one response, each with the platform's `id`, and the path of the next page."""

    corrections: list[Document]
    following: str | None


@runtime_checkable
class CorrectedPlatform(Protocol):
    """A platform from which corrections are read."""

    name: str
    asks_by_subject: bool
    """Whether its API lists corrections only of subjects that are named."""

    def correction_paths(self, since: datetime, subjects: Sequence[Subject]) -> Iterator[str]:
        """The address to GET people's corrections since a time; for these subjects, if the API requires their ids."""
        ...

    def corrections_in(self, path: str, answer: bytes) -> CorrectionPage:
        """The corrections in the answer from a path."""
        ...


@dataclass(frozen=True, slots=True)
class CorrectionReading:
    """Reads the corrections of the last `back` seconds, once `every` seconds."""

    platform: CorrectedPlatform
    get: Callable[[str], Awaitable[bytes]]
    every: float
    back: float

    async def read(self, since: datetime, subjects: Sequence[Subject]) -> list[Document]:
        """The corrections by people since a time, as feedback. Raises ExportUnavailable."""
        documents: list[Document] = []
        pages = 0
        for first in self.platform.correction_paths(since, subjects):
            path: str | None = first
            while path is not None and pages < MOST_PAGES:
                pages += 1
                page = self.platform.corrections_in(path, await self.get(path))
                documents += [as_feedback(correction, self.platform.name) for correction in page.corrections]
                path = page.following
        return documents


def as_feedback(correction: Document, platform: str) -> Document:
    """A correction as feedback: cut to what feedback may hold, with an id that changes when the person changes it."""
    known = {name: value for name, value in correction.items() if value is not None and value != ""}
    own = known.pop("id", None)
    for name, most in _LONGEST.items():
        if name in known:
            known[name] = str(known[name])[:most]
    if isinstance(known.get("value"), str) and "label" not in known:
        known["label"] = known.pop("value")[: _LONGEST["label"]]
    content = {name: value for name, value in known.items() if name != "at"}
    digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
    return {**known, "source": "expert", "feedback_id": f"{platform}:{own}:{digest}"}


def object_of(answer: bytes) -> Document:
    """An answer that is an object; an empty one if it is none."""
    return as_dict(outside_or_none(answer))


def array_of(answer: bytes) -> list[Document]:
    """The objects of an answer that is an array; none if it is none."""
    return _objects(outside_or_none(answer))


def objects_in(document: Mapping[str, Any], name: str) -> list[Document]:
    """The objects of an array of a document; none if it has none."""
    return _objects(document.get(name))


def object_in(document: Mapping[str, Any], name: str) -> Document:
    """An object of a document; an empty one if it has none."""
    return as_dict(document.get(name))


def _objects(value: object) -> list[Document]:
    return [item for item in as_list(value) if isinstance(item, dict)]
