"""The findings of a detector, and the form in which plug-ins offer one.

A plug-in is a factory under the entry-point group `evalstream.redactors`: it is called once, without arguments, and
gives a detector. The detector is called with every text that is about to be stored or judged, from several threads; an
exception of it means that the text is neither stored nor sent.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, runtime_checkable


class Finding(NamedTuple):
    """The characters `start` to `end` (exclusive) of a text are of this kind: capitals, digits and `_`, like EMAIL.

    An empty one says that a place was looked at in vain: it counts as work.
    """

    start: int
    end: int
    kind: str


def looked_at(place: int) -> Finding:
    """A place that was looked at without finding anything."""
    return Finding(place, place, "")


Detector = Callable[[str], Iterable[Finding]]
"""Finds what has to go out of a text; findings may overlap and come in any order."""


@runtime_checkable
class PrefilteringDetector(Protocol):
    """A detector that can tell at a glance, for most texts, that it finds nothing in them."""

    def __call__(self, text: str) -> Iterable[Finding]:
        """See `DropDetector`."""
        ...

    def has_no_pii(self, text: str) -> bool:
        """Whether it surely finds nothing in the text, nor in what is nested in it: JSON, and JSON in JSON."""
        ...

    def suspects_of(self, parts: Iterable[bytes]) -> set[bytes]:
        """Those of some texts in UTF-8 or serialised messages of OTLP of which that is not sure."""
        ...


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in order and apart: those that overlap become one, of the kind of the one that begins first."""
    apart: list[Finding] = []
    for each in sorted(findings, key=lambda finding: (finding.start, -finding.end)):
        if each.end <= each.start:
            continue
        if apart and each.start < apart[-1].end:
            last = apart[-1]
            apart[-1] = Finding(last.start, max(last.end, each.end), last.kind)
        else:
            apart.append(each)
    return apart
