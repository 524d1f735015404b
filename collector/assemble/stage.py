"""The assemble stage: from a partition of the spans log to turns."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from collector.assemble.fold import AssembleFold, GuardedTraces, SideLogs, time_in
from collector.assemble.open_traces import OpenTraces, TraceLimits
from collector.assemble.trace import Assembler
from collector.assemble.unread.examination import ConversationIdWatch
from collector.errors import BadInput
from collector.link.turn_router import TurnRouter
from collector.logs.journal.guard import Guard
from collector.logs.log import Committed, StoredRecord
from collector.telemetry.registry import Telemetry


class AssembleStage:
    """Opens the folds of the spans log's partitions.

    A record's key is its trace id in hex, with its sender's tenant if it has one, its header `signal` says `traces` or
    `logs`, and its value is a serialized Export…ServiceRequest with that trace only; or it is a thin piece. The span of
    a judged turn goes into its log before the turn does, feedback in traces into the labels log, whenever it comes.
    """

    def __init__(
        self,
        assembler: Assembler,
        router: TurnRouter,
        limits: TraceLimits | None = None,
        *,
        telemetry: Telemetry | None = None,
        on_bad_record: Callable[[StoredRecord, BadInput], None] = lambda _record, _error: None,
        guard: Guard | None = None,
        side_logs: SideLogs | None = None,
    ) -> None:
        self._assembler = assembler
        self._router = router
        self._limits = limits or TraceLimits()
        self._telemetry = telemetry or Telemetry()
        self._on_bad_record = on_bad_record
        self._guard = guard or Guard()
        self._side_logs = side_logs or SideLogs()
        self._ids = ConversationIdWatch(assembler, self._telemetry)
        self._folds: dict[int, AssembleFold] = {}

    @property
    def open_traces(self) -> int:
        """The number of open traces in this process, over all partitions."""
        return sum(fold.open_traces for fold in self._folds.values())

    def open_trace_ids(self, partition: int) -> list[tuple[int, str]]:
        """The open traces of a partition, each with the offset where it begins."""
        return self._folds[partition].open_trace_ids()

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[AssembleFold]:
        """Open the fold of a partition; its state comes by replay."""
        traces = await self._guard.place(f"assemble trace {partition}")
        fold = AssembleFold(
            self._assembler,
            self._router,
            OpenTraces(self._limits, time_in(committed)),
            telemetry=self._telemetry,
            on_bad_record=self._on_bad_record,
            guarded=GuardedTraces(partition, traces, self._guard.error("trace")),
            ids=self._ids,
            side_logs=self._side_logs,
        )
        self._folds[partition] = fold
        try:
            yield fold
        finally:
            del self._folds[partition]
            traces.close()
