"""The layers around the folds of a consumer, as a list: their order is data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from collector.dead_letters import DeadLetterWriter
from collector.logs.journal.guard import Guard
from collector.logs.log import Log, OpenFold
from collector.records.epochs import fenced
from collector.records.shared_records import dividing
from collector.service.process_resources import long_lived

FoldLayer = Callable[[OpenFold], OpenFold]
"""Opens the same folds, each with something added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldNeeds:
    """The needs of a consumer's folds. `place` names them in the journal, `log` is the name of what they consume.

    `shared`: records may have pieces. `ledger` is the evaluations log, if that is what they consume; `on_void` is
    called with the number of records that do not count. `long_lived`: what they replay stays for long.
    """

    place: str
    log: str
    letters: DeadLetterWriter
    guard: Guard
    shared: bool = False
    ledger: Log | None = None
    on_void: Callable[[int], None] = lambda _number: None
    long_lived: bool = False


def layers_of(needs: FoldNeeds) -> Sequence[FoldLayer]:
    """The layers, the outermost first: a record passes them in this order."""
    return [
        # Pieces are apart before anything is dead-lettered or guarded: one bad piece leaves the others of its record.
        *([dividing] if needs.shared else []),
        # Around the guard, which gives it what is left out: the delivery ends when that is durable.
        needs.letters.wrap,
        partial(needs.guard.guarding, needs.place, needs.log, on_fatal=needs.letters.take),
        *([partial(fenced, needs.ledger, on_void=needs.on_void)] if needs.ledger is not None else []),
        *([long_lived] if needs.long_lived else []),
    ]


def layered(open_fold: OpenFold, needs: FoldNeeds) -> OpenFold:
    """The folds with their layers around them."""
    for layer in reversed(layers_of(needs)):
        open_fold = layer(open_fold)
    return open_fold
