"""The price of an evaluation in `evalstream rejudge`, and what its limit covers."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest
from evaluation_samples import scored

from collector.commands.rejudge import rejudge
from collector.commands.rejudge.candidates import Candidate, KnownEvaluations
from collector.commands.rejudge.current_step import CurrentStep, report_steps
from collector.commands.rejudge.request_window import RequestWindow
from collector.evaluate.retry.request import BackfillRequest, parse_request
from collector.logs.log import LogUnavailable, Record
from collector.logs.memory import MemoryLog
from collector.past.evaluations import EvaluationFilter
from collector.records.json import evaluation_to_json
from evaluators.cases import Turn
from evaluators.results import Evaluation, Sampling

THEN = datetime(2026, 5, 1, tzinfo=UTC)


async def append(log: MemoryLog, *evaluations: Evaluation) -> None:
    await log.append([Record(made.evaluation_id.encode(), evaluation_to_json(made)) for made in evaluations])


class Service(MemoryLog):
    """A turns log whose reader answers each request at once."""

    def __init__(self, evaluations: MemoryLog, answers: Mapping[str, Sequence[Evaluation]]) -> None:
        super().__init__("turns")
        self._evaluations = evaluations
        self._answers = answers
        self.count = 0

    async def append(self, records: Sequence[Record]) -> None:
        await super().append(records)
        for record in records:
            self.count += 1
            await append(self._evaluations, *self._answers[parse_request(record.value).evaluation_id])


async def candidates(evaluations: Iterable[Evaluation]) -> AsyncIterator[Candidate]:
    for made in evaluations:
        request = BackfillRequest(made.evaluation_id, made.monitor, "helpful", Turn(turn_id="t"), Sampling(), THEN)
        yield Candidate(request, None, made.monitor, THEN)


async def test_what_another_monitor_paid_for_makes_no_evaluation_cheaper() -> None:
    paid = scored(1, evaluator="helpful", cost_usd=0.004)
    shared = [
        replace(paid, evaluation_id=f"s{n}", monitor="tenth", cost_usd=0.0, usage=None, shares=paid.evaluation_id)
        for n in range(3)
    ]
    log = MemoryLog("evaluations")
    await append(log, paid, *shared)
    known = KnownEvaluations(
        {(paid.monitor, "helpful"): paid.evaluator_version}, EvaluationFilter(), lambda past: past.cost_usd
    )
    await known.read(log)
    assert known.mean_usd == {"helpful": pytest.approx(0.004)}


async def test_the_limit_covers_what_another_run_spends_meanwhile() -> None:
    log = MemoryLog("evaluations")
    paid = [scored(n, evaluator="helpful", cost_usd=0.001, happened_at=THEN) for n in range(3)]
    other = scored(9, evaluator="helpful", cost_usd=0.006, happened_at=THEN)
    known = KnownEvaluations(
        {(paid[0].monitor, "helpful"): paid[0].evaluator_version}, EvaluationFilter(), lambda past: past.cost_usd
    )
    await known.read(log)
    turns = Service(log, {made.evaluation_id: [made] for made in paid} | {paid[1].evaluation_id: [paid[1], other]})
    window = RequestWindow(
        turns,
        log,
        known,
        limit=0.01,
        expected={"helpful": 0.004},
        outstanding={},
        step=CurrentStep(print),
        patience=5.0,
    )
    await window.request_all(candidates(paid))
    assert (window.progress.made, window.progress.out_of_money) == (2, True)
    assert window.progress.spent_usd == pytest.approx(0.008)


class Busy(MemoryLog):
    """A log into which an evaluation comes whenever a reader has asked for its end."""

    def __init__(self, coming: Iterable[Evaluation]) -> None:
        super().__init__("evaluations")
        self._coming = iter(coming)

    async def end_offset(self, partition: int) -> int:
        end = await super().end_offset(partition)
        await append(self, *islice(self._coming, 1))
        return end


async def test_what_comes_into_the_log_while_it_is_read_counts_once() -> None:
    """It was read again at the next look: the last line said too much, and the limit stopped what it would cover."""
    *paid, first, second, third = (scored(n, evaluator="helpful", cost_usd=0.001, happened_at=THEN) for n in range(6))
    log = Busy([first, second, third])
    known = KnownEvaluations(
        {(first.monitor, "helpful"): first.evaluator_version}, EvaluationFilter(), lambda past: past.cost_usd
    )
    await known.read(log)
    turns = Service(log, {made.evaluation_id: [made] for made in paid})
    window = RequestWindow(
        turns,
        log,
        known,
        limit=0.0085,
        expected={"helpful": 0.003},
        outstanding={},
        step=CurrentStep(print),
        patience=5.0,
    )
    await window.request_all(candidates(paid))
    assert (window.progress.made, window.progress.out_of_money) == (3, False)
    assert window.progress.spent_usd == pytest.approx(0.006)


async def test_what_the_service_judges_live_meanwhile_is_not_waited_for() -> None:
    """Beside traffic, a run with nothing to make waited two minutes for the turns that had just been judged."""
    log = MemoryLog("evaluations")
    live = [scored(n, evaluator="helpful") for n in range(3)]
    known = KnownEvaluations(
        {(live[0].monitor, "helpful"): live[0].evaluator_version}, EvaluationFilter(), lambda past: past.cost_usd
    )
    await known.read(log)
    turns = Service(log, {})
    window = RequestWindow(
        turns, log, known, limit=None, expected={}, outstanding={}, step=CurrentStep(print), patience=0.5
    )
    await append(log, *live)
    await window.request_all(candidates(live))
    assert (window.progress.made, window.progress.stalled, turns.count) == (0, False, 0)


async def test_a_busy_service_is_among_the_causes_of_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live traffic went first, and the line blamed a plug-in or the judge."""
    monkeypatch.setattr("collector.commands.rejudge.request_window._POLL", 0.001)
    monkeypatch.setattr("collector.commands.rejudge.request_window._HINT", 0.003)
    log, lines = MemoryLog("evaluations"), list[str]()
    made = scored(1, evaluator="helpful")
    known = KnownEvaluations({("all", "helpful"): "1"}, EvaluationFilter(), lambda past: past.cost_usd)
    turns = Service(log, {made.evaluation_id: []})
    window = RequestWindow(
        turns, log, known, limit=None, expected={}, outstanding={}, step=CurrentStep(lines.append), patience=0.006
    )
    await window.request_all(candidates([made]))
    [line] = lines
    assert "live traffic goes first" in line
    assert "a plug-in has changed" in line


@pytest.mark.parametrize(
    ("changes", "is_covered"),
    [
        ({}, True),
        ({"evaluator_version": "0"}, True),
        ({"happened_at": None}, False),
        ({"monitor": "other"}, False),
        ({"evaluator": "complete"}, False),
        ({"happened_at": THEN.replace(month=4)}, False),
    ],
)
async def test_the_limit_covers_the_selected_backfills_of_the_period_by_any_version(
    changes: dict[str, Any], is_covered: bool
) -> None:
    made = replace(scored(1, evaluator="helpful", cost_usd=0.004, happened_at=THEN), **changes)
    log = MemoryLog("evaluations")
    await append(log, made)
    selected = EvaluationFilter(since=THEN, evaluators=["helpful"], monitors=[scored(1).monitor])
    known = KnownEvaluations({("all", "helpful"): "1"}, selected, lambda past: past.cost_usd)
    await known.read(log)
    assert sum(known.spent.values()) == (0.004 if is_covered else 0.0)


class Hanging(MemoryLog):
    """A log that does not answer: appends, or readers who ask for its end."""

    async def append(self, records: Sequence[Record]) -> None:
        await asyncio.Event().wait()

    async def end_offset(self, partition: int) -> int:
        return await asyncio.Event().wait()


async def looks_on(made: Evaluation) -> AsyncIterator[Candidate]:
    await asyncio.Event().wait()
    async for candidate in candidates([made]):
        yield candidate


@pytest.mark.parametrize(
    ("hangs", "line"),
    [
        ("turns", "still writing requests to the turns log"),
        ("evaluations", "still reading the evaluations log"),
        ("candidates", "still looking for the next evaluations to make in the turns log"),
    ],
)
async def test_a_step_that_lasts_is_said(hangs: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that had requested nothing stood still for ten minutes, and nothing said what it waited for."""
    monkeypatch.setattr("collector.commands.rejudge.current_step.SAY_EVERY", 0.02)
    made, lines, was_said = scored(1, evaluator="helpful"), list[str](), asyncio.Event()

    def say(text: str) -> None:
        lines.append(text)
        if len(lines) == 2:
            was_said.set()

    log = MemoryLog("evaluations")
    known = KnownEvaluations({("all", "helpful"): "1"}, EvaluationFilter(), lambda past: past.cost_usd)
    await known.read(log)
    async with asyncio.timeout(5), report_steps(say) as step:
        window = RequestWindow(
            Hanging("turns") if hangs == "turns" else MemoryLog("turns"),
            Hanging("evaluations") if hangs == "evaluations" else log,
            known, limit=None, expected={}, outstanding={}, step=step, patience=5.0,
        )  # fmt: skip
        run = asyncio.create_task(window.request_all(looks_on(made) if hangs == "candidates" else candidates([made])))
        await was_said.wait()
    run.cancel()
    assert [text.rpartition(",")[0] for text in lines] == [line, line]
    await asyncio.sleep(0.05)
    assert len(lines) == 2, "and it ends with the run"


class Slow(MemoryLog):
    """A log that takes its time to say where it ends."""

    async def end_offset(self, partition: int) -> int:
        await asyncio.sleep(0.05)
        return await super().end_offset(partition)


async def test_patience_ends_by_the_clock_however_long_a_look_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks were counted as if each took no time: two minutes of patience were an hour on a busy machine."""
    monkeypatch.setattr("collector.commands.rejudge.request_window._POLL", 0.001)
    made = scored(1, evaluator="helpful")
    known = KnownEvaluations({("all", "helpful"): "1"}, EvaluationFilter(), lambda past: past.cost_usd)
    log = Slow("evaluations")
    await known.read(log)
    turns = Service(log, {made.evaluation_id: []})
    window = RequestWindow(
        turns, log, known, limit=None, expected={}, outstanding={}, step=CurrentStep(print), patience=0.3
    )
    async with asyncio.timeout(5):
        await window.request_all(candidates([made]))
    assert window.progress.stalled


class Away(MemoryLog):
    """A log that cannot be read until a time of the clock."""

    until = 0.0

    async def end_offset(self, partition: int) -> int:
        if time.monotonic() < self.until:
            raise LogUnavailable("no broker answers")
        return await super().end_offset(partition)


async def test_after_an_outage_of_the_log_the_service_has_the_whole_patience_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The service makes nothing while its log is away, so the run gave up as soon as the log was back."""
    monkeypatch.setattr("collector.commands.rejudge.request_window._POLL", 0.001)
    made, log = scored(1, evaluator="helpful", happened_at=THEN), Away("evaluations")
    known = KnownEvaluations(
        {(made.monitor, "helpful"): made.evaluator_version}, EvaluationFilter(), lambda past: past.cost_usd
    )
    await known.read(log)
    window = RequestWindow(
        Service(log, {made.evaluation_id: []}),
        log,
        known,
        limit=None,
        expected={},
        outstanding={},
        step=CurrentStep(print),
        patience=1.0,
    )
    async with asyncio.timeout(10):
        run = asyncio.create_task(window.request_all(candidates([made])))
        await asyncio.sleep(0.05)
        log.until = time.monotonic() + 1.5
        await asyncio.sleep(1.5)
        while not (run.done() or window.step.doing == ""):
            await asyncio.sleep(0.01)
        await append(log, made)
        await run
    assert (window.progress.made, window.progress.stalled) == (1, False)


async def test_a_service_that_does_not_say_its_versions_in_time_is_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rejudge, "_ANSWER", 0.05)
    lines = list[str]()
    assert not await rejudge._answer(lambda: time.sleep(0.3) or "other code", lines.append)
    assert lines == ["the service did not say its versions within 0.05 s, so they are not compared with these"]
    assert await rejudge._answer(lambda: "other code", lines.append) == "other code"
