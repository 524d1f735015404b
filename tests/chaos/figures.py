"""From what was seen to figures, and to what they break of the promise."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from counted_judge import CountedJudge
from ledger_watch import LedgerWatch
from rich.console import Console
from rich.table import Table
from workers import Worker

_FIRST_REQUESTS = 6
"""Requests that a process has under way outside of batches at most: the first of a shape, in each partition."""
CLOCK_GRAIN = 0.005
"""Seconds by which a broker's stamp may be off the moment at which a record was durable."""

_LATE = 0.1
"""Seconds after the start of the next process until which its predecessor's requests may be read: none asks so soon."""


@dataclass(frozen=True, slots=True)
class Kill:
    """The end of a process that nobody asked for: whose, when it began and ended, when the next began (s since the epoch)."""

    worker: str
    began: float
    at: float
    next: float


@dataclass(frozen=True, slots=True)
class Interruption:
    """A process or broker that stood still, or a broker that ended: from when to when it may have moved partitions.

    In seconds since the epoch.
    """

    began: float
    over: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a run showed. `in_flight` sums, over all ends, the turns that were asked about and not yet written down."""

    turns: int
    workers: int
    seconds: float
    sigkills: int
    broker_restarts: int
    ended_by_themselves: int
    expected: int
    missing: int
    written_twice: int
    other_ids: int
    strangers: int
    not_scored: int
    judge_calls: int
    judge_failures: int
    judged_again: int
    in_flight: int
    judged_again_without_a_kill: int
    exported_lines: int
    exports_missing: int
    unclean_stops: int
    audit: tuple[str, ...] = ()
    """What `evalstream audit` says does not add up."""
    deferred: int = 0
    """Evaluations, of those expected, that wait for batches."""
    batches: int = 0
    in_batches: int = 0
    in_batches_again: int = 0
    """Requests that were submitted once more although their batch had not failed them."""
    outside_of_batches: int = 0
    outside_again: int = 0
    """Requests at once that were sent once more: their answer was lost with a process."""
    faults: int = 0

    def broken(self) -> list[str]:
        """The sentences about what is not as promised."""
        wrong = {
            "evaluations are missing": self.missing,
            "evaluations are in the ledger more than once": self.written_twice,
            "turns have evaluations under several ids": self.other_ids,
            "evaluations are about turns that were never sent": self.strangers,
            "evaluations are no scores, though the judge could be asked again": self.not_scored,
            "judge calls were repeated that no end of a process explains": self.judged_again_without_a_kill,
            "evaluations in the ledger were never exported": self.exports_missing,
            "workers did not stop in order": self.unclean_stops,
            "requests were in one batch more than they should": self.in_batches_again,
            "deferred evaluations, and no batch": self.deferred if not self.batches else 0,
        }
        found = [f"{number} {what}" for what, number in wrong.items() if number]
        if self.judged_again > self.in_flight:
            found.append(f"{self.judged_again} judge calls were repeated, but only {self.in_flight} were in flight")
        if self.outside_again > self.faults * _FIRST_REQUESTS:
            found.append(f"{self.outside_again} requests outside of batches were repeated at {self.faults} faults")
        return found + [f"audit: {each}" for each in self.audit]

    def json(self) -> str:
        return json.dumps(asdict(self) | {"broken": self.broken()})

    def show(self, title: str, also: Iterable[tuple[str, str]] = ()) -> None:
        table = Table(title=title, show_header=False)
        for name, value in asdict(self).items():
            if name != "audit":
                table.add_row(name.replace("_", " "), f"{value:,.1f}" if isinstance(value, float) else f"{value:,}")
        table.add_row("audit", "clean" if not self.audit else f"{len(self.audit)} problems")
        for name, text in also:
            table.add_row(name, text)
        console = Console()
        console.print(table)
        for each in self.broken():
            console.print(f"[bold red]broken:[/] {each}")


def exports(workers: Sequence[Worker]) -> Counter[str]:
    """How often each evaluation was exported."""
    return Counter(json.loads(line)["evaluation_id"] for each in workers for line in each.exported())


def in_flight(kill: Kill, judge: CountedJudge, ledger: LedgerWatch, evaluator: str) -> set[int]:
    """The turns that the killed process had asked about, and whose evaluation was not durable yet."""
    return {
        call.number
        for call in judge.asked
        if call.worker == kill.worker
        and kill.began + _LATE <= call.asked_at < kill.next + _LATE  # what was sent before may be read after the kill
        and not call.failed
        and ledger.at.get((evaluator, call.number), float("inf")) > kill.at - CLOCK_GRAIN
    }


def moved_away(interruption: Interruption, judge: CountedJudge, ledger: LedgerWatch, evaluator: str) -> Counter[int]:
    """How many questions about each turn were in flight when an interruption made an owner claim the turn's partition."""
    claims = [[at for at in each if interruption.began <= at <= interruption.over] for each in ledger.claims]
    return Counter(
        call.number
        for call in judge.asked
        if not call.failed
        and (partition := ledger.partitions.get(call.number)) is not None
        and any(call.asked_at < at < ledger.at.get((evaluator, call.number), float("inf")) for at in claims[partition])
    )


def repeated(
    kills: Iterable[Kill],
    interruptions: Iterable[Interruption],
    judge: CountedJudge,
    ledger: LedgerWatch,
    evaluator: str,
) -> tuple[int, int, list[int]]:
    """How many judge calls were repeated; how many were in flight at faults; the turns of those no fault explains."""
    excused = Counter(number for kill in kills for number in in_flight(kill, judge, ledger, evaluator))
    for each in interruptions:
        excused += moved_away(each, judge, ledger, evaluator)
    again = {number: calls - 1 for number, calls in judge.paid().items() if calls > 1}
    unexplained = [number for number, calls in again.items() for _ in range(calls - excused[number])]
    return sum(again.values()), sum(excused.values()), unexplained
