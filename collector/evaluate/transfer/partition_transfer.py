"""Reads the state of a partition of the turns log at its committed position, so that another log can continue it."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.budget.rates import Rates
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Job, Plan
from collector.evaluate.recovery.configurations import Configurations
from collector.evaluate.recovery.ledger import Ledger
from collector.evaluate.recovery.past_plans import PlanHistory, configurations_of, past_plans, switches_of
from collector.evaluate.recovery.replay_point import metadata_of
from collector.evaluate.transfer.transfer_records import TransferredJob, conversation_record, is_transfer, transferred
from collector.logs.log import Committed, Log, Record, StoredRecord, records_from


@dataclass(frozen=True, slots=True)
class PartitionTransfer:
    """The state that a partition hands over, and the offset from which its turns are still to be read.

    `offset` is the first turn that was not delivered; the ids from `ledger_offset` on are recognized. `time` is the
    partition's time. `budget` is its saved budget with all costs since, None without one. `past` are the numbers of the
    configurations that have judged so far.
    """

    offset: int
    ledger_offset: int
    time: float
    rates: Rates
    retries: Mapping[str, str]
    conversations: tuple[Record, ...]
    jobs: tuple[TransferredJob, ...]
    budget: Mapping[str, Any] | None
    past: tuple[int, ...]


class NumberedHistory(PlanHistory, Protocol):
    """The plans of all configurations; `number` is the newest one's."""

    number: int


async def read_transfer(
    plan: Plan, turns: Log, evaluations: Log, partition: int, committed: Committed, now: float, history: NumberedHistory
) -> PartitionTransfer:
    """The state of a partition at its committed position. `plan` is the newest; `history` has all plans.

    Raises:
        LogUnavailable: a log cannot be read now.
    """
    metadata = metadata_of(committed)
    budgets = BudgetController(plan, turns.partitions)
    ledger = Ledger(evaluations, partition, read_costs=budgets.limited)
    await ledger.read_back(metadata.ledger_offset)
    start = metadata.replay_point.offset, metadata.configuration
    past = await past_plans(metadata.past, history, plan)
    configurations = await configurations_of(start, ledger.control_records, plan, history.number, history)

    def was_over(job: Job) -> bool:
        return job.trigger_offset < metadata.done_below_of(job.assignment.evaluator.name, committed.offset)

    state = PartitionState(plan, metadata.replay_point, ledger.control_records, configurations.former, past, was_over)
    jobs: dict[str, Job] = {}
    offset = committed.offset
    async for record in _records(turns, partition, committed):
        offset = max(offset, record.offset + 1)
        for job in await state.apply(record):
            if was_over(job) or job.evaluation_id in ledger:
                continue
            for superseded in job.supersedes:
                jobs.pop(superseded, None)
            jobs[job.evaluation_id] = job
    for job in state.references.jobs:  # they continue to wait in the other log
        if job.evaluation_id not in ledger:
            jobs.setdefault(job.evaluation_id, job)
    unfinished = _by_newest(jobs.values(), configurations, ledger)
    saved = None
    if budgets.limited:
        budgets.add_partition(partition, now, ledger.saved_budget, ledger.costs)
        saved = budgets.saved(partition)
    return PartitionTransfer(
        offset=offset,
        ledger_offset=metadata.ledger_offset,
        time=state.time,
        rates=state.rates,
        retries=state.windows.retries.to_dict(),
        conversations=tuple(_conversations(state)),
        jobs=tuple(map(transferred, unfinished)),
        budget=saved,
        past=configurations.past_at(offset, (*metadata.past, configurations.number_at(offset))),
    )


def _by_newest(jobs: Iterable[Job], configurations: Configurations, ledger: Ledger) -> Iterator[Job]:
    """The evaluations that no configuration has made, in the newest plan's form, without evaluators that it no longer
    has.
    """
    for job in jobs:
        made = configurations.by_newest(job)
        ways = (*configurations.by_others(job), made or job)
        if made is not None and not any(way.evaluation_id in ledger for way in ways):
            yield made


async def is_changed_beyond(evaluations: Log, partition: int, committed: Committed | None) -> bool:
    """Whether the configuration changes at a turn after the committed position."""
    committed = committed or Committed(0, 0)
    metadata = metadata_of(committed)
    ledger = Ledger(evaluations, partition)
    await ledger.read_back(metadata.ledger_offset)
    return switches_of((metadata.replay_point.offset, metadata.configuration), ledger.control_records)[-1][0] > (
        committed.offset
    )


async def _records(turns: Log, partition: int, committed: Committed) -> AsyncIterator[StoredRecord]:
    """The delivered records that the state needs, and unread ones that an earlier copy handed over."""
    async for record in records_from(turns, partition, committed.low_watermark):
        if record.offset >= committed.offset and not is_transfer(record):
            return
        yield record


def _conversations(state: PartitionState) -> Iterator[Record]:
    for monitor, sessions in state.sessions_by_monitor.items():
        for conversation_id, conversation in sessions.items():
            yield conversation_record(monitor, conversation_id, conversation)
