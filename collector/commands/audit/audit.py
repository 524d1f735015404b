"""`evalstream audit`: positions against outcomes, through all logs and exporters, on the user's own system."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import InitVar, dataclass

from collector.commands.audit.positions import LogContent, content_of, reading_of
from collector.commands.audit.report import Audit, as_json, as_text
from collector.commands.audit.traces import TraceAudit
from collector.config.configured import Config
from collector.dead_letters import LetterState, letter_states
from collector.errors import DONE, FAILED, BadInput
from collector.evaluate.audit import EvaluationAudit
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Job
from collector.evaluate.recovery.configurations import UNNUMBERED, Configurations
from collector.evaluate.recovery.control_records import ControlRecord, decisions_in
from collector.evaluate.recovery.past_plans import configurations_of
from collector.evaluate.recovery.replay_point import ReplayPoint, metadata_of
from collector.evaluate.recovery.sample_rate_notes import draws_by, read_sample_rates
from collector.evaluate.stage import GROUP
from collector.evaluate.transfer.transfer_records import START_HEADERS
from collector.export.judged_spans.fold import GROUP as JUDGED_SPANS_GROUP
from collector.export.stage import group_of
from collector.logs.log import Committed, Log, StoredRecord, records_from
from collector.logs.whole_log import read_records
from collector.records.epochs import CONTROL_HEADERS, Fence
from collector.records.grouping import group_by
from collector.records.json import evaluation_from_json
from collector.records.shared_records import divide_records, is_shared, without_pieces
from collector.service.assembly_history import read_since
from collector.service.live.history import ConfigurationHistory
from collector.service.open_logs import Logs, open_stored_logs
from collector.service.plan_builder import build_unasked_plan

APPENDED_WITHIN = 300.0
"""Seconds: a record has the time at which it was made, and a frozen broker takes it later, behind younger ones."""


async def audit(config: Config, say: Callable[[str], None], *, drained: bool = False, json: bool = False) -> int:
    """Compare, and report; the exit status: 1 if something does not add up.

    With `drained` nothing may be in flight: for a service that has finished its work. Only reads.

    Raises:
        ConfigError: the logs cannot be read.
    """
    async with open_stored_logs(config.settings.log, **config.optional_logs) as logs:
        result = await _audit(config, logs)
    problems, text = as_text(result, drained=drained)
    say(as_json(result, problems) if json else text)
    return FAILED if problems else DONE


async def audit_logs(config: Config, logs: Logs) -> tuple[list[str], str]:
    """Compare logs that are open; the problems, and the report with them. Raises LogUnavailable."""
    return as_text(await _audit(config, logs), drained=False)


async def _audit(config: Config, logs: Logs) -> Audit:
    """Positions come first, then the records: what a position says is done then has its record already."""
    definitions = await logs.generated_steps()
    history = ConfigurationHistory(definitions, config)
    await history.find_newest()
    # The file may have been changed since; what was judged was judged by what the log has.
    plan = await history.plan_of(history.number) or build_unasked_plan(config, history.key)
    result = Audit(other=history.other_than(config))
    optional = [(logs.judged_spans, JUDGED_SPANS_GROUP), (logs.unlinked, "link")]
    between = [(log, group) for log, group in optional if log is not None]
    chain = [(logs.spans, "assemble"), *between, (logs.turns, GROUP)]
    commits = {group: await log.committed(group) for log, group in chain}
    exporters = {group_of(name): await logs.evaluations.committed(group_of(name)) for name in config.exporters}
    evaluations = await content_of(logs.evaluations)  # first: what is in it by now is of turns that are compared
    contents = {log.name: await content_of(log) for log, _ in chain}
    result.contents = [*contents.values(), evaluations]
    letters = await letter_states(logs.dead_letters)
    result.dead_letters = dict(Counter((letter.stage, letter.state) for letter in letters))
    left_out = _left_out(letters)
    with EvaluationAudit() as comparison, closing(TraceAudit()) as traces:
        spans = _letters_of(letters, "assemble", logs.spans.name)
        dead = {(letter.partition, letter.position, letter.piece) for letter in spans}
        await traces.read(config, logs.spans, contents[logs.spans.name], commits["assemble"], dead)
        done_below, since = dict[int, int](), 0.0
        rates = await read_sample_rates(logs.definitions)
        for partition in range(logs.turns.partitions):
            controls = await _read_evaluations(logs.evaluations, partition, evaluations, comparison, result)
            start = contents[logs.turns.name].starts[partition]
            committed = commits[GROUP].get(partition)
            unnumbered = [(until, plan.drawing_with(sampled)) for until, sampled in draws_by(rates.get(partition, ()))]
            configurations = await configurations_of(
                (start, _number_at(start, committed)), controls, plan, history.number, history, unnumbered
            )
            turns = _PartitionTurns(
                logs.turns, partition, contents[logs.turns.name], configurations, controls, left_out,
                {GROUP: commits[GROUP]}, traces.see_turn,
            )  # fmt: skip
            done_below[partition] = metadata_of(committed).done_below
            since = max(since, await turns.read(comparison, result, done_below[partition]))
        for log, group in between:  # after the turns log, so that a turn of both is no repeated one
            add = traces.see_turn if log is logs.unlinked else None
            await _count(log, contents[log.name], {group: commits[group]}, add)
        result.balances = comparison.balances(done_below)
        result.traces = traces.balance(since, await read_since(definitions, config.settings))
    result.readings = [reading_of(group, contents[log.name], commits[group]) for log, group in chain]
    result.exports = [reading_of(group, evaluations, committed) for group, committed in exporters.items()]
    return result


_LeftOut = Mapping[tuple[int, int], Sequence[LetterState]]
"""The dead letters of the turns log, by partition and offset."""


def _left_out(letters: Collection[LetterState]) -> _LeftOut:
    return group_by(_letters_of(letters, GROUP, "turns"), lambda letter: (letter.partition, letter.position))


def _letters_of(letters: Collection[LetterState], stage: str, source: str) -> list[LetterState]:
    return [letter for letter in letters if (letter.stage, letter.source) == (stage, source)]


def _what_was_processed(record: StoredRecord, letters: Sequence[LetterState]) -> StoredRecord | None:
    """The rest of a record without its dead-lettered pieces; None if nothing is left."""
    if not is_shared(record) or any(letter.size == len(record.value) for letter in letters):
        return None
    return without_pieces(record, {letter.piece for letter in letters})


async def _count(
    log: Log, content: LogContent, readers: Mapping[str, Mapping[int, Committed]], add: Callable[[bytes], object] | None
) -> None:
    async for record in read_records(log, [content.starts[partition] for partition in sorted(content.starts)]):
        if record.offset < content.ends[record.partition]:
            content.saw(record, readers)
        if add is not None:
            add(record.value)
    for partition in content.ends:
        content.finish(partition)


async def _read_evaluations(
    log: Log, partition: int, content: LogContent, comparison: EvaluationAudit, result: Audit
) -> list[ControlRecord]:
    """Read a partition of the evaluations log to its end, which may have moved; returns its decisions."""
    fence, controls = Fence(), list[ControlRecord]()
    end = content.ends[partition]
    async for record in records_from(log, partition, content.starts[partition]):
        if record.offset < end:
            content.saw(record, {})
        is_valid = fence.observe(record)
        if record.headers or not is_valid:
            content.not_exported.setdefault(partition, []).append(record.offset)
        if not is_valid:
            result.void += 1
        elif record.headers == CONTROL_HEADERS:
            controls += decisions_in(record)
        elif not record.headers:
            try:
                comparison.add_done(evaluation_from_json(record.value), later=record.offset >= end)
            except BadInput:
                result.unreadable_evaluations += 1
    content.finish(partition)
    return controls


def _number_at(start: int, committed: Committed | None) -> int:
    """The number of the configuration in force where a log begins, if the committed metadata has it."""
    has_it = committed is not None and start >= committed.low_watermark
    return metadata_of(committed).configuration if has_it else UNNUMBERED


@dataclass(eq=False, repr=False)
class _PartitionTurns:
    """One partition of the turns log, folded as the evaluate stage does."""

    log: Log
    partition: int
    content: LogContent
    configurations: Configurations
    controls: InitVar[Sequence[ControlRecord]]
    left_out: _LeftOut
    readers: Mapping[str, Mapping[int, Committed]]
    see_turn: Callable[[bytes], bool]

    def __post_init__(self, controls: Sequence[ControlRecord]) -> None:
        start = self.content.starts[self.partition]
        self._state = PartitionState(self.configurations.plan, ReplayPoint(start), controls, self.configurations.former)
        self._began: float | None = None
        self._whole = start == 0
        self._unreadable = 0
        self._copied_at = 0.0
        self._rates_from = min((control.offset for control in controls if control.rates is not None), default=math.inf)

    async def read(self, comparison: EvaluationAudit, result: Audit, done_below: int) -> float:
        """Read the partition to the end it had, and add what becomes due. What is behind `done_below` is in flight.

        Gives the time (s) since when it is whole: others were deleted before, or are where it was copied from.
        """
        partition, end = self.partition, self.content.ends[self.partition]

        def bad(record: StoredRecord, _error: BadInput) -> None:
            if record.offset < done_below:
                result.unreadable_turns += 1
                self._unreadable += 1

        self._state.on_bad_record, self._state.outcomes = bad, comparison.turns[partition]
        async for record in records_from(self.log, partition, self.content.starts[partition]):
            turns = [stored for stored in divide_records([record]) if not stored.headers]
            again = sum(self.see_turn(turn.value) for turn in turns)
            if record.offset >= end:
                continue
            self.content.saw(record, self.readers)
            result.turns += len(turns)
            result.repeated += again
            self._began = record.timestamp if self._began is None else self._began
            if record.headers == START_HEADERS:  # what was before was copied, and is audited where it came from
                comparison.forget(partition)
                result.unreadable_turns -= self._unreadable
                self._unreadable, self._whole, self._copied_at = 0, True, record.timestamp
            letters = self.left_out.get((partition, record.offset))
            processed = _what_was_processed(record, letters) if letters else record
            if processed is None:
                continue
            jobs = [self._as_made(job, comparison) for job in await self._state.apply(processed)]
            comparison.add_due(partition, (job for job in jobs if job is not None and self._is_comparable(job)))
        self.content.finish(partition)
        result.lacks_turns |= bool(self.content.starts[partition] or self.content.gaps or self._copied_at)
        deleted = self.content.starts[partition] > 0 and self._began is not None
        return max(self._copied_at, (self._began or 0.0) + APPENDED_WITHIN if deleted else 0.0)

    def _as_made(self, job: Job, comparison: EvaluationAudit) -> Job | None:
        """A job as it was made: by its own configuration, or by a later one. None if a later one has removed it."""
        made = self.configurations.by_newest(job)
        every = (job, *self.configurations.by_others(job), made or job)
        return next((each for each in every if comparison.is_done(each.evaluation_id)), made)

    def _is_comparable(self, job: Job) -> bool:
        """Whether all that the evaluation depends on is retained."""
        if self._whole:
            return True
        if job.assignment.evaluator.scope == "conversation":
            settings = job.monitor.window_settings
            return job.replay_point.time > (self._began or 0.0) + settings.max_age + settings.allowed_lateness
        limited = job.monitor.budget.limited or self.configurations.plan.budget.limited
        return not limited or job.trigger_offset >= self._rates_from
