"""Notes on pieces of traces: the only turn of a piece, found by the receiver, where the spans are at hand already.

Most traces of an application that asks a model once come in one piece. If no monitor can want their conversation, the
note is all that assembling needs: `find_sole_turn` has looked at the piece, as assembling would. The piece itself stays
whole. If anything else of the trace arrives, the note is ignored and the pieces are assembled.
"""

from collections.abc import Callable, Sequence

from collector.assemble.collect_trace import collect_parts
from collector.assemble.sole_turn import find_sole_turn
from collector.assemble.trace import Assembler
from collector.otlp.decode import Part
from collector.records.noted_turns import NotedTurn
from collector.records.tenants import conversation_key_in_tenant


class TurnNotes:
    """Finds the turns to note, by the assembler's rules, of conversations that `is_key_wanted` does not want.

    `selects` says whether there are any such conversations; it is asked before a request is looked at.
    """

    def __init__(
        self, assembler: Assembler, is_key_wanted: Callable[[str], bool], selects: Callable[[], bool] = lambda: True
    ) -> None:
        self._dialects = assembler.dialects
        self._identity = assembler.identity
        self._is_key_wanted = is_key_wanted
        self.selects: Callable[[], bool] = (lambda: False) if assembler.agent_runs else selects

    def find(self, parts: Sequence[Part], tenant: str) -> NotedTurn | None:
        """Find the only turn in a request's parts of one trace, redacted; None if it is wanted or not certain."""
        trace = collect_parts(parts, self._dialects, self._identity)
        turn = find_sole_turn(trace, self._dialects, self._identity) if trace is not None else None
        if turn is None or not turn.conversation:
            return None
        return None if self._is_key_wanted(conversation_key_in_tenant(turn.conversation, tenant)) else turn
