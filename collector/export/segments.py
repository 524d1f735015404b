"""The `segment` label: a closed set of parts, by attributes, whatever strangers send.

The values of an attribute are the configured ones, or the most frequent ones; everything else is `other`. With several
attributes a segment is a combination, so that sums over segments stay sums over the traffic.
"""

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass
from math import prod
from typing import cast

from collector.telemetry.series import OTHER
from evaluators.cases import Json

ALL = "all"
MOST_FREQUENT = 10
"""How many values an attribute has if the configuration names neither values nor a number."""
MOST_SEGMENTS = 500
"""Combinations of values, at most: each is a series of every metric of scores, for each evaluator."""
SETTLING = 60.0
"""Seconds between a new value's series at 0 and their first score: Prometheus must have seen the 0."""

_LABEL = re.compile(r"[\w .:/@+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Dimension:
    """An attribute that tells segments apart: by its named values, or by its `most` frequent ones."""

    attribute: str
    values: tuple[str, ...] = ()
    most: int = 0

    @property
    def labels(self) -> int:
        """How many values become labels, `other` among them."""
        return (self.most or len(self.values)) + 1


Declaration = str | Sequence[str] | Mapping[str, int | Sequence[str]] | None


def dimensions_of(segment_by: Declaration, segments: Sequence[str] = ()) -> tuple[Dimension, ...]:
    """The dimensions of a configuration: a name, several, or values or their number by name."""
    if segment_by is None:
        return ()
    if isinstance(segment_by, str):
        return (Dimension(segment_by, tuple(segments), 0 if segments else MOST_FREQUENT),)
    if isinstance(segment_by, Mapping):
        return tuple(
            Dimension(name, most=values) if isinstance(values, int) else Dimension(name, tuple(values))
            for name, values in segment_by.items()
        )
    return tuple(Dimension(name, most=MOST_FREQUENT) for name in segment_by)


def count_segments(dimensions: Iterable[Dimension]) -> int:
    """How many segments there are at most at one time."""
    return prod(dimension.labels for dimension in dimensions)


@dataclass(eq=False, repr=False)
class Segments:
    """Finds the segment of an evaluation. `on_new` is called with each segment before it is used.

    `clock` (s) should not jump.
    """

    dimensions: InitVar[Sequence[Dimension]]
    on_new: Callable[[str], None] = lambda _segment: None
    clock: InitVar[Callable[[], float]] = time.monotonic

    def __post_init__(self, dimensions: Sequence[Dimension], clock: Callable[[], float]) -> None:
        self._values = tuple(_Values(dimension, clock) for dimension in dimensions)
        self._limit = 2 * count_segments(dimensions)
        self._known: set[str] = set()
        self._announce()

    def of(self, attributes: Mapping[str, Json]) -> str:
        """The segment of an evaluation with these attributes."""
        if not self._values:
            return ALL
        learnt = [values.learn(attributes) for values in self._values]
        if any(learnt):
            self._announce()
        segment = _join([(values.attribute, values.label(attributes)) for values in self._values])
        return segment if segment in self._known else _join([(values.attribute, OTHER) for values in self._values])

    def _announce(self) -> None:
        if not self._values:
            self.on_new(ALL)
            return
        combinations = itertools.product(*([*values.labels(), OTHER] for values in self._values))
        names = [values.attribute for values in self._values]
        for labels in combinations:
            segment = _join(list(zip(names, labels, strict=True)))
            if segment not in self._known and (len(self._known) < self._limit or set(labels) == {OTHER}):
                self._known.add(segment)
                self.on_new(segment)


def _join(labels: Sequence[tuple[str, str]]) -> str:
    return labels[0][1] if len(labels) == 1 else ",".join(f"{name}={value}" for name, value in labels)


def text_of(value: Json) -> str:
    """The form of an attribute's value that is compared and shown."""
    if isinstance(value, (list, tuple)):
        return "+".join(map(str, cast("list[Json]", value)))
    return "" if value is None else str(value)


class _Values:
    """The values of one dimension that are labels."""

    def __init__(self, dimension: Dimension, clock: Callable[[], float]) -> None:
        self.attribute = dimension.attribute
        self._named = frozenset(dimension.values)
        self._frequent = _FrequentValues(dimension.most, clock) if dimension.most else None

    def labels(self) -> Iterator[str]:
        yield from sorted(self._named)
        yield from self._frequent.values() if self._frequent else ()

    def label(self, attributes: Mapping[str, Json]) -> str:
        value = text_of(attributes.get(self.attribute))
        return value if (self._frequent.is_label(value) if self._frequent else value in self._named) else OTHER

    def learn(self, attributes: Mapping[str, Json]) -> bool:
        """Count a value; whether it is a label from now on."""
        value = text_of(attributes.get(self.attribute))
        return self._frequent is not None and _LABEL.fullmatch(value) is not None and self._frequent.add(value)


class _FrequentValues:
    """The most frequent values of a stream, in memory that does not grow with what strangers invent.

    Counts of the `_TRACKED * most` values that may be frequent (the space-saving algorithm), halved once in a while, so
    that they are recent. A count is too high by at most 1 / (`_TRACKED * most`) of the stream, and a label needs twice
    that: values that come once each never become labels, however many. A label is taken from a value that has become
    rare, at most `most` times a day: old releases make room for new ones, while a sender cannot multiply series with
    ever new values.
    """

    _TRACKED = 8
    _SHARE = 0.25
    _FEWEST = 20
    _MEMORY = 2000
    _DAY = 86_400.0

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._labels: dict[str, float] = {}
        self._replaced: list[float] = []

    def values(self) -> Iterable[str]:
        return self._labels

    def is_label(self, value: str) -> bool:
        since = self._labels.get(value)
        return since is not None and self._clock() - since >= SETTLING

    def add(self, value: str) -> bool:
        """Count a value; whether it becomes a label."""
        self._count(value)
        if value in self._labels or self._counts[value] < max(self._FEWEST, self._total * self._SHARE / self._most):
            return False
        if len(self._labels) >= self._most and not self._make_room(self._counts[value]):
            return False
        self._labels[value] = self._clock()
        return True

    def _count(self, value: str) -> None:
        self._total += 1
        if value not in self._counts and len(self._counts) >= self._TRACKED * self._most:
            self._counts[value] = self._counts.pop(min(self._counts, key=self._counts.__getitem__))
        self._counts[value] += 1
        if self._total >= self._MEMORY * self._most:
            self._total //= 2
            self._counts = Counter({each: count // 2 for each, count in self._counts.items() if count > 1})

    def _make_room(self, count: int) -> bool:
        now = self._clock()
        self._replaced = [each for each in self._replaced if now - each < self._DAY]
        rarest = min(self._labels, key=lambda each: self._counts[each])
        if len(self._replaced) >= self._most or 2 * self._counts[rarest] > count:
            return False
        self._replaced.append(now)
        del self._labels[rarest]
        return True
