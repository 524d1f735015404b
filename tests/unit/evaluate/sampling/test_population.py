"""How many conversations there were, judged or not, and that the weights of the judged ones add up to as many."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from collector.evaluate.conversations.partition_conversations import Population
from collector.evaluate.conversations.session_window import SessionWindowSettings
from collector.evaluate.outcomes import OutcomeCounter
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.sampling.strata import Boost, Strata, failed
from collector.logs.log import TICK, StoredRecord
from collector.records.json import turn_to_json
from evaluators.cases import Turn
from evaluators.conversation.completeness import Completeness
from evaluators.judge import NoJudge


def test_a_conversation_counts_when_it_falls_silent_and_again_when_it_goes_on_after_that() -> None:
    population = Population(idle=10.0)
    population.observe("a", 0.0)
    population.observe("b", 5.0)
    population.observe("a", 8.0)
    assert population.take_idle(14.9) == 0
    assert population.take_idle(15.0) == 1
    population.observe("b", 17.0)
    assert population.take_idle(100.0) == 2
    assert (population.take_idle(1000.0), len(population)) == (0, 0)


def test_beyond_the_bound_the_oldest_count_at_once() -> None:
    population = Population(idle=10.0, most=2)
    for number in range(5):
        population.observe(str(number), 0.0)
    assert (len(population), population.take_idle(1.0)) == (2, 3)
    assert population.take_idle(10.0) == 2


def test_two_hundred_thousand_conversations_are_open_at_most() -> None:
    population = Population(idle=10.0)
    for number in range(200_001):
        population.observe(str(number), 0.0)
    assert (len(population), population.take_idle(1.0)) == (200_000, 1)


class Silent(OutcomeCounter):
    """Counts conversations and nothing else."""

    def __init__(self) -> None:
        self.count = 0

    def count_idle(self, monitor: str, number: int) -> None:
        self.count += number


def monitor(rate: float, **changes: Any) -> Monitor:
    evaluator = Completeness(name="solved")
    assignment = Assignment(evaluator, NoJudge(), evaluator.version)
    return Monitor(
        "all",
        (assignment,),
        {},
        rate=rate,
        window_settings=SessionWindowSettings(idle_gap=60.0, allowed_lateness=30.0),
        **changes,
    )


def conversations(count: int, error_share: float = 0.0) -> Iterator[Turn]:
    """Of one to four turns 20 s apart, one begun each second; some have an error in their last turn."""
    chance = random.Random(11)
    turns: list[tuple[float, Turn]] = []
    for number in range(count):
        length = chance.randint(1, 4)
        wrong = chance.random() < error_share
        for place in range(length):
            at = 1000.0 + number + 20.0 * place
            turn = Turn(
                turn_id=f"{number}-{place}",
                conversation_id=f"visit-{number}",
                input="?",
                actual_output="!",
                error="it broke" if wrong and place == length - 1 else None,
                ended_at=datetime.fromtimestamp(at, UTC),
            )
            turns.append((at, turn))
    return (turn for _, turn in sorted(turns, key=lambda each: each[0]))


async def run(of: Monitor, turns: Iterator[Turn]) -> tuple[list[Job], int]:
    state, outcomes = PartitionState(Plan((of,)), ReplayPoint(0, 0.0)), Silent()
    state.outcomes = outcomes
    jobs: list[Job] = []
    at = 0.0
    for position, turn in enumerate(turns):
        assert turn.ended_at is not None
        at = turn.ended_at.timestamp()
        key = (turn.conversation_id or "").encode()
        jobs += await state.apply(StoredRecord(0, position, at, key, turn_to_json(turn)))
    jobs += await state.apply(StoredRecord(0, position + 1, at + 600.0, None, b"", TICK))
    return jobs, outcomes.count


async def test_judged_all_there_are_as_many_as_evaluations() -> None:
    jobs, population = await run(monitor(1.0), conversations(500))
    assert len(jobs) == population == 500


@pytest.mark.parametrize("boosted", [False, True])
async def test_the_weights_add_up_to_the_population(boosted: bool) -> None:
    """Within four standard errors; with errors judged four times as often as without, and undecoded where keys do."""
    strata = Strata((Boost("error", 4.0, failed),)) if boosted else Strata()
    jobs, population = await run(monitor(0.1, strata=strata), conversations(4000, error_share=0.2))
    weights = [1.0 / job.sampling.probability for job in jobs]
    error = math.sqrt(sum(weight * (weight - 1.0) for weight in weights))
    assert population == pytest.approx(4000, rel=0.01)
    assert abs(sum(weights) - population) < 4 * error
    assert len(set(weights)) == (2 if boosted else 1)
