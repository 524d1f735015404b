"""A conversation has its turns in one order, whoever reads it: the service, also after a restart, rejudge, the page, score.

Where two of them had other orders, the same conversation had the scores 1.0 and 0.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from evaluation_samples import of_conversation
from hypothesis import example, given, settings, strategies as st

from collector.commands.score.score import jobs_of
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.conversations.snapshot import parse_snapshot, snapshot_record
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.logs.log import TICK, StoredRecord
from collector.logs.memory import MemoryLog
from collector.logs.whole_log import read_records
from collector.page.stage import PageStage
from collector.page.view import View
from collector.past.turns import case_of, turns_in_log
from collector.records.turns import turn_record
from evaluators.cases import Conversation, Turn
from evaluators.conversation.completeness import Completeness
from evaluators.identity import link_of
from evaluators.judge import NoJudge

WINDOWS = SessionWindowSettings(idle_gap=30.0, allowed_lateness=20.0)
"""None is removed while turns come, so that one that comes again is known."""
SOLVED = Completeness(name="solved")
WHOLE = Assignment(SOLVED, NoJudge(), SOLVED.version)
NAMES = ("t-9", "t-10", "t-11", "b", "a", "t-1")
LAST = 2000.0
AT_ONCE = 1500.0
"""When the turns of a file are received: later than each of them was over."""


@dataclass(frozen=True)
class Arrival:
    """A turn that the log takes `pause` seconds after the one before; whether the service then restarts."""

    turn: int
    pause: float = 0.0
    restarts: bool = False


Times = tuple[float | None, float | None]
"""When a turn says that it started, and how long it took."""
NO_TIMES: Times = (None, None)


def turn_of(number: int, times: Times) -> Turn:
    started, took = times
    return Turn(
        turn_id=NAMES[number], conversation_id="c", input=f"q{number}", actual_output="a",
        started_at=None if started is None else datetime.fromtimestamp(started, UTC),
        ended_at=None if took is None else datetime.fromtimestamp((started or 900.0) + took, UTC),
    )  # fmt: skip


async def records_of(turns: Sequence[Turn], received: Sequence[float]) -> tuple[MemoryLog, list[StoredRecord]]:
    log = MemoryLog("turns", partitions=1)
    await log.append([replace(turn_record(turn), timestamp=time) for turn, time in zip(turns, received, strict=True)])
    return log, [record async for record in read_records(log)]


async def live(records: Sequence[StoredRecord], arrivals: Sequence[Arrival]) -> list[Conversation]:
    """What the service judges."""
    monitor = Monitor(name="m", assignments=(WHOLE,), match={}, window_settings=WINDOWS)
    state = PartitionState(Plan((monitor,)), ReplayPoint(0, 0.0), ())
    jobs = list[Conversation]()
    for record, arrival in zip(records, arrivals, strict=True):
        jobs += [job.case() for job in await state.apply(record)]
        if arrival.restarts:
            sessions = state.sessions_by_monitor["m"]
            for name, windows in list(sessions.items()):
                snapshot = parse_snapshot(snapshot_record("m", name, windows, record.offset + 1, 0).value)
                sessions.restore(name, snapshot.windows, windows.replay_point)
    tick = StoredRecord(0, len(records), LAST, None, b"", TICK)
    return [*jobs, *[job.case() for job in await state.apply(tick)]]


async def page_of(records: Sequence[StoredRecord]) -> View:
    view = View([])
    async with PageStage(view).open_turns(0, None) as turns:
        await turns.deliver(records)
    return view


def ids(case: object) -> list[str]:
    assert isinstance(case, Conversation)
    return [turn.turn_id for turn in case.turns]


async def the_order_of_all(turns: Sequence[Turn], received: Sequence[float], arrivals: Sequence[Arrival]) -> None:
    log, records = await records_of(turns, received)
    past, view = await turns_in_log(log, ["c"]), await page_of(records)
    judged = await live(records, arrivals)
    assert judged
    for conversation in judged:
        links = tuple(link_of(turn) for turn in conversation.turns)
        sample = of_conversation()
        evaluation = replace(sample, subject=replace(sample.subject, conversation_id="c", links=links), attributes={})
        assert ids(case_of(evaluation, past)) == ids(conversation)
        assert ids(view.turn_cache.case_of(evaluation)) == ids(conversation)
    if len({turn.turn_id for turn in judged[-1].turns}) == len({turn.turn_id for turn in turns}):
        assert [turn.turn_id for turn in view.turn_cache.turns("c")] == ids(judged[-1])
        if set(received) == {AT_ONCE}:
            [job] = jobs_of(turns, [WHOLE])
            assert ids(job.case()) == ids(judged[-1])


@example([NO_TIMES] * 6, [Arrival(0), Arrival(1), Arrival(2)])  # ids that stand in another order as texts
@example([NO_TIMES, (950.0, None), NO_TIMES] * 2, [Arrival(0, 1.0), Arrival(1, 1.0), Arrival(2, 1.0)])  # some say
@example([(950.0, None)] * 6, [Arrival(4), Arrival(3, restarts=True), Arrival(0)])  # equal times
@example([NO_TIMES] * 6, [Arrival(0, 1.0), Arrival(1, 1.0), Arrival(0, 1.0)])  # one comes again
@example(  # two windows, then a turn that connects them, each with turns that started at one time
    [(700.0, 200.0), (700.0, 10.0), (700.0, 200.0), (700.0, 10.0), (700.0, 100.0), (700.0, 150.0)],
    [Arrival(0), Arrival(1), Arrival(2), Arrival(3, restarts=True), Arrival(5), Arrival(4), Arrival(5)],
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, None, 700.0, 900.0, 950.0, 999.0, 1030.0]),
            st.sampled_from([None, 0.0, 10.0, 60.0, 200.0]),
        ),
        min_size=6, max_size=6,
    ),
    st.lists(
        st.builds(Arrival, st.integers(0, 5), st.sampled_from([0.0, 0.0, 1.0, 5.0]), st.booleans()),
        min_size=1, max_size=12,
    ),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
async def test_all_have_the_turns_of_a_conversation_in_one_order(times: list[Times], arrivals: list[Arrival]) -> None:
    turns = [turn_of(arrival.turn, times[arrival.turn]) for arrival in arrivals]
    received, now = list[float](), 1000.0
    for arrival in arrivals:
        now += arrival.pause
        received.append(now)
    await the_order_of_all(turns, received, arrivals)
    await the_order_of_all(turns, [AT_ONCE] * len(turns), arrivals)
