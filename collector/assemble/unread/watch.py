"""Unread text and ids that never repeat in a running service, in one trace a second at most."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.assemble.unread.conversation_ids import ConversationIdStatistics, ids_of
from collector.assemble.unread.examination import read_trace, unread_texts
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import UNREAD_TEXT, UNREPEATED_IDS

logger = logging.getLogger(__name__)

_INTERVAL = 1.0
"""Seconds between traces that are examined, on the log's clock: examining takes longer than assembling."""
_MAX_SCOPES, _OTHER_SCOPES = 20, "other"
_LONGEST_SCOPE = 100
_MAX_BYTES = 1 << 20
_MAX_PAIRS = 20
_MAX_VALUES = 10_000
_EVERY = 20
"""Traces between two looks at the statistics."""


class UnreadTextWatch:
    """Looks at traces without a turn for text that looks like questions and answers."""

    def __init__(self, assembler: Assembler, telemetry: Telemetry) -> None:
        self._assembler = assembler
        self._telemetry = telemetry
        self._next = 0.0
        self._scopes: set[str] = set()

    def is_due(self, now: float) -> bool:
        """Whether a trace is looked at now."""
        return now >= self._next

    def look(self, _trace_id: str, pieces: Sequence[TracePiece], now: float) -> None:
        """Count the spans of a trace whose text nobody reads. `now` is the log's time, in seconds."""
        if not self.is_due(now) or sum(len(piece.value) for piece in pieces) > _MAX_BYTES:
            return
        self._next = now + _INTERVAL
        texts = unread_texts([read_trace(pieces)], self._assembler)[1]
        for scope in sorted({text.span.scope for text in texts}):
            of_scope = [text for text in texts if text.span.scope == scope]
            if {text.side for text in of_scope} >= {"input", "output"}:
                spans = {text.span.span_id for text in of_scope}
                self._telemetry.counter(UNREAD_TEXT, self._label(scope)).inc(len(spans))

    def _label(self, scope: str) -> str:
        name = scope[:_LONGEST_SCOPE] or "none"
        if name in self._scopes or len(self._scopes) < _MAX_SCOPES:
            self._scopes.add(name)
            return name
        return _OTHER_SCOPES


class ConversationIdWatch:
    """Notices ids that never repeat while another one does, and says so once for each service and attribute.

    It says, and changes nothing: what repeats may be a browser or a user, and what the traffic until now was like is
    not known to the process that takes over, which would put the same turns into other conversations.
    """

    def __init__(self, assembler: Assembler, telemetry: Telemetry) -> None:
        self._identity = assembler.identity
        self._telemetry = telemetry
        self._next = 0.0
        self._looks = 0
        self._statistics = ConversationIdStatistics(_MAX_PAIRS, sampled=True)
        self._first_traces: dict[str, str] = {}
        self._reported: set[tuple[str, str]] = set()

    def see(self, trace_id: str, conversations: Iterable[str | None]) -> None:
        """Note which of the ids that are in the statistics the turns of a trace repeat; of all traces, for it is cheap.

        Without that a sample would hardly ever have two traces of a conversation, and blame its id.
        """
        for conversation in conversations:
            first = self._first_traces.get(conversation or "")
            if first is not None and first != trace_id:
                self._statistics.repeat(conversation or "")

    def is_due(self, now: float) -> bool:
        """Whether a trace is looked at now."""
        return now >= self._next

    def look(self, trace_id: str, pieces: Sequence[TracePiece], now: float) -> None:
        """Take a trace into the statistics. `now` is the log's time, in seconds."""
        if not self.is_due(now) or sum(len(piece.value) for piece in pieces) > _MAX_BYTES:
            return
        self._next = now + _INTERVAL
        service, ids = ids_of(read_trace(pieces), self._identity)
        again = {name for name, value in ids.items() if self._first_traces.get(value) == trace_id}
        self._statistics.add(service, {name: value for name, value in ids.items() if name not in again})
        for value in ids.values():
            if len(self._first_traces) < _MAX_VALUES:
                self._first_traces.setdefault(value, trace_id)
        self._looks += 1
        if self._looks % _EVERY == 0:
            self._report()

    def _report(self) -> None:
        for unrepeated in self._statistics.find():
            if (unrepeated.service, unrepeated.attribute) not in self._reported:
                self._reported.add((unrepeated.service, unrepeated.attribute))
                self._telemetry.counter(UNREPEATED_IDS, unrepeated.attribute[:_LONGEST_SCOPE]).inc()
                logger.warning("%s", unrepeated.sentence())
