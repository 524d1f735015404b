"""Spans that evaluations may still come for, with those that have come. No clock, no I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import zstandard

from collector.export.attributes import Value

OVERHEAD = 600
"""Bytes that a span costs beside its packed content, about."""
_PER_ATTRIBUTE = 150

SpanKey = tuple[bytes, str]
"""The key of a span's record, which is its trace, and the span's id."""


@dataclass(slots=True)
class _RememberedSpan:
    """A span, packed; where its first record lies; and the attributes of its evaluations, by evaluator."""

    packed: bytes
    offset: int
    time: float
    scores: dict[str, Mapping[str, Value]] = field(default_factory=dict[str, Mapping[str, Value]])

    @property
    def size(self) -> int:
        return OVERHEAD + len(self.packed) + _PER_ATTRIBUTE * sum(map(len, self.scores.values()))


class RememberedSpans:
    """Spans of one partition, the oldest first, for `remember` seconds and within `max_bytes`."""

    def __init__(self, *, remember: float, max_bytes: int) -> None:
        self._remember = remember
        self._max_bytes = max_bytes
        self._bytes = 0
        self._spans: OrderedDict[SpanKey, _RememberedSpan] = OrderedDict()
        self._packer = zstandard.ZstdCompressor(level=3)
        self._unpacker = zstandard.ZstdDecompressor()

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def low_watermark(self) -> int | None:
        """The offset of the oldest span's first record."""
        return next(iter(self._spans.values())).offset if self._spans else None

    def add_span(self, key: SpanKey, value: bytes, offset: int, time: float) -> None:
        """Remember a span. One that came before keeps its place and its scores."""
        packed = self._packer.compress(value)
        known = self._spans.get(key)
        if known is None:
            self._spans[key] = known = _RememberedSpan(packed, offset, time)
            self._bytes += known.size
        else:
            self._bytes += len(packed) - len(known.packed)
            known.packed = packed
        self._shrink()

    def add_scores(self, key: SpanKey, evaluator: str, scores: Mapping[str, Value]) -> bool:
        """Add the attributes of an evaluation, in place of those before it; False if the span is not remembered."""
        known = self._spans.get(key)
        if known is None:
            return False
        self._bytes -= known.size
        known.scores[evaluator] = scores
        self._bytes += known.size
        self._shrink()
        return True

    def span(self, key: SpanKey) -> tuple[bytes, dict[str, Value]] | None:
        """A span as it came, and the attributes of all its evaluations; None if it is not remembered."""
        known = self._spans.get(key)
        if known is None:
            return None
        unpacked: Any = self._unpacker.decompress(known.packed)
        return unpacked, {name: value for score in known.scores.values() for name, value in score.items()}

    def expire(self, now: float) -> None:
        """Forget spans whose first record is older than `remember` seconds at `now` (s since the epoch)."""
        while self._spans and next(iter(self._spans.values())).time < now - self._remember:
            self._forget_oldest()

    def _shrink(self) -> None:
        """The newest stays, however large: evaluations of it come next."""
        while self._bytes > self._max_bytes and len(self._spans) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, oldest = self._spans.popitem(last=False)
        self._bytes -= oldest.size
