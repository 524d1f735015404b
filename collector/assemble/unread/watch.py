"""Unread text in a running service: counted by scope, in one trace a second at most."""

from __future__ import annotations

from collections.abc import Sequence

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.assemble.unread.examination import read_trace, unread_texts
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import UNREAD_TEXT

_INTERVAL = 1.0
"""Seconds between traces that are examined, on the log's clock: examining takes longer than assembling."""
_MAX_SCOPES, _OTHER_SCOPES = 20, "other"
_LONGEST_SCOPE = 100
_MAX_BYTES = 1 << 20


class UnreadTextWatch:
    """Looks at traces without a turn for text that looks like questions and answers."""

    def __init__(self, assembler: Assembler, telemetry: Telemetry) -> None:
        self._assembler = assembler
        self._telemetry = telemetry
        self._next = 0.0
        self._scopes: set[str] = set()

    def look(self, pieces: Sequence[TracePiece], now: float) -> None:
        """Count the spans of a trace whose text nobody reads. `now` is the log's time, in seconds."""
        if now < self._next or sum(len(each.value) for each in pieces) > _MAX_BYTES:
            return
        self._next = now + _INTERVAL
        texts = unread_texts([read_trace(pieces)], self._assembler)[1]
        for scope in sorted({each.span.scope for each in texts}):
            of_scope = [each for each in texts if each.span.scope == scope]
            if {each.side for each in of_scope} >= {"input", "output"}:
                spans = {each.span.span_id for each in of_scope}
                self._telemetry.counter(UNREAD_TEXT, self._label(scope)).inc(len(spans))

    def _label(self, scope: str) -> str:
        name = scope[:_LONGEST_SCOPE] or "none"
        if name in self._scopes or len(self._scopes) < _MAX_SCOPES:
            self._scopes.add(name)
            return name
        return _OTHER_SCOPES
