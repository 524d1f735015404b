"""The tree of a trace's spans. Parents may be missing, and times may contradict it."""

from __future__ import annotations

from collections.abc import Iterable

from collector.otlp.span import Span

_MAX_ANCESTORS = 500
"""Ancestors of a span, at most: no real program nests deeper, and a hostile trace must not cost more."""


class SpanTree:
    """The spans of a trace by id."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans = {span.span_id: span for span in spans}
        self._ancestors: dict[str, tuple[str, ...]] = {}

    def ancestors(self, span_id: str) -> tuple[str, ...]:
        """The ids of a span's ancestors, parent first, including one that is named but has not arrived."""
        ancestors = self._ancestors.get(span_id)
        if ancestors is None:
            ancestors = self._ancestors[span_id] = self._walk(span_id)
        return ancestors

    def _walk(self, span_id: str) -> tuple[str, ...]:
        ancestors: list[str] = []
        seen = {span_id}
        span = self.spans.get(span_id)
        while span is not None and len(ancestors) < _MAX_ANCESTORS:
            parent = span.parent_span_id
            if parent is None or parent in seen:
                break
            ancestors.append(parent)
            seen.add(parent)
            span = self.spans.get(parent)
        return tuple(ancestors)
