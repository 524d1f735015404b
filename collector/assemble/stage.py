"""The assemble stage: from a partition of the spans log to turns."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field

from collector.assemble.fold import AssembleFold, GuardedTraces, SideLogs
from collector.assemble.open_traces import OpenTraces, TraceLimits
from collector.assemble.trace import Assembler
from collector.assemble.unread.examination import ConversationIdWatch
from collector.errors import BadInput
from collector.link.turn_router import TurnRouter
from collector.logs.journal.guard import Guard
from collector.logs.log import Committed, StoredRecord
from collector.telemetry.registry import Telemetry


@dataclass(eq=False, repr=False)
class AssembleStage:
    """Opens the folds of the spans log's partitions.

    A record's key is its trace id in hex, with its sender's tenant if it has one, its header `signal` says `traces` or
    `logs`, and its value is a serialized Export…ServiceRequest with that trace only. The span of a judged turn goes
    into its log before the turn does, feedback in traces into the labels log, whenever it comes.
    """

    assembler: Assembler
    router: TurnRouter
    limits: TraceLimits = TraceLimits()  # noqa: RUF009 - a frozen value
    _: KW_ONLY
    telemetry: Telemetry = field(default_factory=Telemetry)
    on_bad_record: Callable[[StoredRecord, BadInput], None] = lambda _record, _error: None
    guard: Guard = field(default_factory=Guard)
    side_logs: SideLogs = SideLogs()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        self._ids = ConversationIdWatch(self.assembler, self.telemetry)
        self._folds: dict[int, AssembleFold] = {}

    @property
    def open_traces(self) -> int:
        """The number of open traces in this process, over all partitions."""
        return sum(fold.open_traces for fold in self._folds.values())

    def open_trace_ids(self, partition: int) -> list[tuple[int, str, float]]:
        """The first record's offset, the trace id and the begin of each open trace of a partition."""
        return self._folds[partition].open_trace_ids()

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[AssembleFold]:
        """Open the fold of a partition; its state comes by replay."""
        traces = await self.guard.place(f"assemble trace {partition}")
        fold = AssembleFold(
            self.assembler,
            self.router,
            OpenTraces.at(committed, self.limits),
            telemetry=self.telemetry,
            on_bad_record=self.on_bad_record,
            guarded=GuardedTraces(partition, traces, self.guard.error("trace")),
            ids=self._ids,
            side_logs=self.side_logs,
        )
        self._folds[partition] = fold
        try:
            yield fold
        finally:
            del self._folds[partition]
            traces.close()
