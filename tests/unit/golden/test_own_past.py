"""Without a golden set an evaluator's own earlier cases say whether its judge has changed."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import numpy as np
import pytest
from evaluation_samples import scored

from collector.evaluate.plan import Assignment
from collector.golden.own_past import CASES, MOST_RUNS, OwnPast
from collector.golden.runner import GoldenCase, GoldenTarget
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_to_json
from collector.records.turns import turn_record
from evaluators.cases import Turn
from evaluators.evaluation import Result
from evaluators.results import Score
from evaluators.testing import ScriptedJudge
from evaluators.turn.g_eval import GEval

NOW, HOUR = 1_795_000_000.0, 3600.0
VERSION = "0123456789ab"
SCORED = 1000


class Past:
    """A day of scores of a judge with this noise, a fall at `NOW`, and the judge as it is after it."""

    def __init__(self, seed: int = 0, noise: float = 0.1, moved: float = 0.0, **assigned: object) -> None:
        self.chance, self.noise, self.moved = np.random.default_rng(seed), noise, moved
        self.now = NOW - 24 * HOUR
        self.turns, self.evaluations = (MemoryLog(name, partitions=2) for name in ("turns", "evaluations"))
        self.true = self.chance.choice([0.25, 0.5, 0.75, 1.0], SCORED)
        self.asked: list[int] = []
        self.has_money = True
        self.past = self._past(VERSION, **assigned)

    def _past(self, version: str, **assigned: object) -> OwnPast:
        evaluator = GEval(name="helpful", evaluation_steps=("Look.",), evaluation_params=("input",))
        target = GoldenTarget(Assignment(evaluator, ScriptedJudge({}), version, **assigned), "main", "all")
        return OwnPast([target], self.evaluations, self.turns, self.ask, clock=lambda: self.now)

    def reconfigure(self, version: str = VERSION) -> None:
        earlier, self.past = self.past, self._past(version)
        self.past.continue_falls(earlier)

    def score(self, number: int, moved: float) -> float:
        return float(np.clip(self.true[number] + moved + self.noise * self.chance.standard_normal(), 0.0, 1.0))

    async def fill(self, late: float = 0.0) -> None:
        """`late`: the share of the day's last scores that the changed judge has given already."""
        for number in range(SCORED):
            self.now = NOW - 24 * HOUR * (1.0 - number / SCORED)
            turn = Turn(turn_id=f"t{number}", conversation_id=f"c{number}", input="Hi", actual_output="Hello")
            await self.turns.append([replace(turn_record(turn), timestamp=self.now)])
            moved = self.moved if number >= SCORED * (1.0 - late) else 0.0
            made = scored(
                number, evaluation_id=sha256(str(number).encode()).hexdigest()[:32], evaluator="helpful", monitor="all",
                evaluator_version=VERSION, score=self.score(number, moved),
                subject=replace(scored().subject, conversation_id=f"c{number}", turn_id=f"t{number}"),
            )  # fmt: skip
            record = Record(b"k", evaluation_to_json(made), partition=number % 2, timestamp=self.now)
            await self.evaluations.append([record])
        self.now = NOW + 600.0

    async def ask(self, target: GoldenTarget, case: GoldenCase) -> Result | None:
        assert isinstance(case.case, Turn)
        number = int(case.case.turn_id[1:])
        self.asked.append(number)
        if not self.has_money:
            return None
        outcome = Score(value=self.score(number, self.moved))
        at = datetime.fromtimestamp(self.now, UTC)
        return Result(outcome=outcome, judge=None, usage=None, cost_usd=None, started_at=at, ended_at=at)

    def verdict(self, *, alerting: bool = True) -> str:
        found = self.past.judge_since("helpful", VERSION, NOW, alerting=alerting)
        return "" if found is None else found.sentence

    async def answered(self) -> str:
        self.verdict()
        await self.past.run_due()
        return self.verdict()


async def test_it_is_asked_as_an_alert_begins_and_at_most_a_tenth_of_the_day() -> None:
    world = Past(moved=-0.3)
    await world.fill()
    assert world.verdict(alerting=False) == ""
    await world.past.run_due()
    assert world.asked == []
    assert (await world.answered()).startswith("The judge has changed: 80 earlier cases, scored again at ")
    assert len(set(world.asked)) == CASES
    assert max(world.asked) > SCORED * 0.9 > SCORED * 0.1 > min(world.asked), "drawn over all of the day"
    for _ in range(20):
        world.now += HOUR
        await world.answered()
    assert len(world.asked) == CASES * MOST_RUNS


async def test_another_configuration_keeps_the_verdict_of_a_fall_and_the_number_of_its_runs() -> None:
    """The judge was repaired, then a price was changed: the alert on the incident said that the judge had not changed."""
    world = Past(moved=-0.3)
    await world.fill()
    said = await world.answered()
    assert said.startswith("The judge has changed: ")
    world.moved = 0.0
    for _ in range(3):
        world.now += 60.0
        world.reconfigure()
        assert await world.answered() == said
    assert len(world.asked) == CASES
    for _ in range(10):
        world.now += HOUR
        world.reconfigure()
        await world.answered()
    assert len(world.asked) == CASES * MOST_RUNS
    world.reconfigure(version="another")
    world.now += HOUR
    await world.answered()
    world.reconfigure()
    world.now += HOUR
    await world.answered()
    assert len(world.asked) == CASES * MOST_RUNS, "nor when a version is set back"


async def test_cases_of_an_incident_that_is_over_say_nothing_of_the_judge_now() -> None:
    """The judge was stricter for a quarter of the day before; a fall of the application was told as its change."""
    world = Past(moved=-0.4)
    await world.fill(late=0.5)
    world.moved = 0.0
    assert (await world.answered()).startswith("The judge has changed: "), "by what it scored in the incident"
    world = Past(moved=-0.4)
    await world.fill(late=0.5)
    world.moved, world.past.incidents["helpful", VERSION] = 0.0, [(NOW - 12 * HOUR, NOW)]
    assert (await world.answered()).startswith("The judge has not changed: ")
    assert max(world.asked) < SCORED / 2


async def test_an_alert_that_lasts_while_the_begin_of_the_fall_moves_is_on_one_fall() -> None:
    """A window of a day still holds the fall, and scores have recovered: each minute was a fall, and cost 80 calls."""
    world = Past(moved=-0.3)
    await world.fill()
    for minute in range(300):
        world.now = NOW + 600.0 + 60.0 * minute
        world.past.judge_since("helpful", VERSION, NOW + 60.0 * minute, alerting=True)
        await world.past.run_due()
    assert len(world.asked) <= CASES * MOST_RUNS
    world.now += 8 * HOUR
    assert world.past.judge_since("helpful", VERSION, world.now - 60.0, alerting=True) is None, "another fall"


@pytest.mark.parametrize("looked", [True, False], ids=["looked at between", "quiet between"])
async def test_another_alert_soon_after_asks_the_judge_that_there_is_by_now(*, looked: bool) -> None:
    """The judge was repaired, and the alert ended; ten minutes later answers got worse. The text of the new alert said
    that the judge had changed, by what was asked for the alert before.
    """
    world = Past(moved=-0.3)
    await world.fill()
    assert "has changed" in await world.answered()
    world.moved, world.now = 0.0, world.now + 300.0
    if looked:
        world.verdict(alerting=False)
    world.now += 300.0
    assert world.verdict() == "", "what is known is of the judge of before"
    assert "has not changed" in await world.answered()
    asked = len(world.asked)
    for _ in range(60):  # an alert that comes and goes
        world.now += 60.0
        world.verdict(alerting=False)
        await world.answered()
    assert len(world.asked) == asked + CASES, "one run more, as there were two"


async def test_a_fall_soon_after_the_end_of_another_has_no_verdict_by_the_cases_of_that() -> None:
    """Within five minutes of a run its verdict was kept for an alert that came and went, and for another fall as well."""
    world = Past(moved=-0.3)
    await world.fill()
    assert "has changed" in await world.answered()
    world.moved, world.now = 0.0, world.now + 240.0
    assert "has changed" in world.verdict(), "the same incident"
    world.past.incidents["helpful", VERSION] = [(NOW, world.now - 60.0)]
    assert world.verdict() == ""
    assert "has not changed" in await world.answered()
    assert len(world.asked) == 2 * CASES


async def test_what_is_asked_in_a_pack_is_not_asked_alone() -> None:
    world = Past(pack=("helpful", "polite"))
    await world.fill()
    assert await world.answered() == ""
    assert world.asked == []


async def test_without_money_nothing_is_said() -> None:
    world = Past(moved=-0.3)
    await world.fill()
    world.has_money = False
    assert await world.answered() == ""


@pytest.mark.parametrize(("moved", "late"), [(-0.1, 0.0), (-0.3, 0.0), (-0.3, 0.2), (0.1, 0.0)])
async def test_a_judge_that_changed_is_named(moved: float, late: float) -> None:
    said = []
    for seed in range(5):
        world = Past(seed, moved=moved)
        await world.fill(late)
        said.append(await world.answered())
    assert all("has changed" in each for each in said)


async def test_one_that_stays_is_not_blamed() -> None:
    said = []
    for seed in range(5):
        world = Past(100 + seed)
        await world.fill()
        said.append(await world.answered())
    assert all(
        re.fullmatch(r"The judge has not changed: 80 earlier cases, scored again at .*, moved by at most .*", each)
        for each in said
    )
