"""Who called whom among the spans of a trace. Parents may be missing, and nothing is required of times."""

from __future__ import annotations

from collections.abc import Iterable

from collector.span import Span

_LONGEST_LINE = 500
"""Ancestors looked at, at most: no real program nests deeper, and a hostile one must not cost more."""


class Tree:
    """The spans of a trace by id."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans = {span.span_id: span for span in spans}
        self._lines: dict[str, tuple[str, ...]] = {}

    def line(self, span_id: str) -> tuple[str, ...]:
        """The ids of a span's ancestors, parent first, including one that is named but has not come."""
        line = self._lines.get(span_id)
        if line is None:
            line = self._lines[span_id] = self._walk(span_id)
        return line

    def _walk(self, span_id: str) -> tuple[str, ...]:
        line: list[str] = []
        seen = {span_id}
        span = self.spans.get(span_id)
        while span is not None and len(line) < _LONGEST_LINE:
            parent = span.parent_span_id
            if parent is None or parent in seen:
                break
            line.append(parent)
            seen.add(parent)
            span = self.spans.get(parent)
        return tuple(line)
