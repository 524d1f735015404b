"""From the pieces of one trace to its turns. Pure: the same pieces, in any order and number, give the same turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.assemble.events import with_events
from collector.assemble.exchanges import Exchange, exchanges, in_order
from collector.assemble.feedback import with_feedback
from collector.assemble.gather import Gathered, Piece, gather
from collector.assemble.identity import Identity
from collector.assemble.model_calls import ModelCall, model_calls
from collector.assemble.passages import Passages, hints
from collector.assemble.rag_prompt import part
from collector.assemble.reading import Read, read_spans
from collector.assemble.tree import Tree
from collector.assemble.turns import Assembled, TurnMaker
from collector.assemble.wrappers import resolve
from collector.dialects.registry import Dialects
from collector.errors import BadInput
from evaluators.cases import Turn


@dataclass(frozen=True, slots=True)
class Assembly:
    """What a trace came to. `counts` are by (dialect, what): spans read, turns made, and turns that have a hole."""

    turns: tuple[Assembled, ...] = ()
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])


@dataclass(frozen=True, slots=True)
class Workings:
    """How a trace was read, for explaining it."""

    gathered: Gathered
    tree: Tree
    reads: tuple[Read, ...]
    calls: tuple[ModelCall, ...]
    told: tuple[Exchange, ...]
    assembly: Assembly


class Assembler:
    """Assembles traces, by the dialects in use and the places where identities stand."""

    def __init__(self, dialects: Dialects, identity: Identity | None = None) -> None:
        self.dialects = dialects
        self.identity = identity or Identity()

    def assemble(self, pieces: Iterable[Piece], on_bad: Callable[[BadInput], None] = lambda _error: None) -> Assembly:
        """The turns of one trace, in order of their ends. Pieces that cannot be read are reported and left out."""
        gathered = gather(pieces, self.dialects, self.identity, on_bad)
        return self.work(gathered).assembly if gathered is not None else Assembly()

    def work(self, gathered: Gathered) -> Workings:
        """The turns of one trace with all that led to them."""
        tree = Tree(gathered.spans)
        reads = read_spans(gathered, tree, self.dialects, self.identity)
        calls = model_calls(reads, tree)
        told = in_order(resolve(exchanges(_without_asides(calls, reads, tree), tree), reads, tree))
        turns = with_feedback(self._turns(told, reads, tree), reads, tree)
        turns = with_events(turns, gathered.noted, tree)
        assembly = Assembly(tuple(turns), _counts(reads, turns))
        return Workings(gathered, tree, tuple(reads), tuple(calls), tuple(told), assembly)

    def _turns(self, told: Sequence[Exchange], reads: Sequence[Read], tree: Tree) -> list[Assembled]:
        maker = TurnMaker(reads, tree, self.identity)
        passages = Passages(reads, tree)
        texts = hints(reads)
        turns: list[Assembled] = []
        since = 0
        for exchange in told:
            _part_prompt(exchange, texts)
            turns.append(maker.make(exchange, passages.of(exchange, since)))
            since = exchange.end
        return turns


def _without_asides(calls: Sequence[ModelCall], reads: Sequence[Read], tree: Tree) -> Sequence[ModelCall]:
    """The calls that are not inside a guardrail, an evaluator or a reranker: what those ask is no exchange."""
    asides = {read.span.span_id for read in reads if read.call.kind == "aside"}
    if not asides:
        return calls
    return [call for call in calls if asides.isdisjoint(tree.line(call.span.span_id))]


def turns_of(pieces: Iterable[Piece], assembler: Assembler) -> list[Turn]:
    """The turns of one trace."""
    return [each.turn for each in assembler.assemble(pieces).turns]


def _part_prompt(exchange: Exchange, texts: Sequence[str]) -> None:
    """Take the user's question out of what was filled with context: out of a wrapper's words, else the prompt."""
    for told in (exchange.question, exchange.prompt):
        parted = part(told, texts) if told else None
        if parted is not None:
            exchange.context = parted.context
            if told == exchange.question:
                exchange.prompt, exchange.question = exchange.prompt or told, parted.question
            return


def _counts(reads: Sequence[Read], turns: Sequence[Assembled]) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for read in reads:
        key = (read.call.dialect, "spans")
        counts[key] = counts.get(key, 0) + 1
    late = 0 if turns else sum(len(read.call.feedback) for read in reads)
    if late:  # of a trace whose turns were made long ago
        counts["", "late_feedback"] = late
    for each in turns:
        turn = each.turn
        key = (turn.dialect or "", "failed" if turn.error is not None else turn.incomplete or "turns")
        counts[key] = counts.get(key, 0) + 1
    return counts
