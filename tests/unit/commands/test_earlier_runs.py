from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from collector.commands.rejudge.candidates import EarlierRuns
from evaluators.cases import Turn
from evaluators.results import Sampling

DRAWS = {"a": 0.1, "b": 0.5, "c": 0.2, "d": 0.6, "e": 0.1}
"""By conversation. The earlier run was at 0.3, the present one is at 0.8."""


def draw(_assignment: object, conversation: str) -> float:
    return DRAWS[conversation]


def evaluation_id(subject: str, _revision: str) -> str:
    return subject


def due(name: str, offset: int, skip: str | None = None, rate: float = 0.8, stratum: str = "all") -> Any:
    assignment = SimpleNamespace(evaluator=SimpleNamespace(name="brief"), evaluation_id=evaluation_id)
    job = SimpleNamespace(
        monitor=SimpleNamespace(name="all"), assignment=assignment, trigger_offset=offset, skip=skip,
        evaluation_id=name, sampling=SimpleNamespace(probability=rate, stratum=stratum),
    )  # fmt: skip
    return SimpleNamespace(job=job, partition=0, case=Turn(turn_id=name, conversation_id=name[0]))


def runs(*jobs: Any, made: str) -> EarlierRuns:
    plan: Any = SimpleNamespace(draw=draw)
    earlier = EarlierRuns(plan, dict.fromkeys(made, 0.3))
    for job in jobs:
        earlier.add(job)
    return earlier


def test_what_no_run_makes_does_not_end_what_an_earlier_run_stands_for() -> None:
    """A case without its reference, and a conversation that went on, ended it: weights added up to more than all."""
    b, d = due("b", 1), due("d", 3)
    for c, superseded in ((due("c", 2, skip="no_reference"), ()), (due("c", 2), ("c",))):
        earlier = runs(due("a", 0), b, c, d, due("e", 4), made="ae")
        assert earlier.stand_for(b, superseded)
        assert earlier.stand_for(d, superseded)
    earlier = runs(due("a", 0), b, due("c", 2), d, due("e", 4), made="ae")
    assert not earlier.stand_for(b, ())
    assert not earlier.stand_for(d, ())


def test_a_boosted_rate_that_reaches_1_does_not_end_what_an_earlier_run_stands_for() -> None:
    """At a boost of 10, the lower rate of 0.05 is 0.5 and the present one of 0.8 is 1: no ratio for other subjects."""
    plan: Any = SimpleNamespace(draw=lambda _assignment, conversation: {"a": 0.01, "b": 0.3, "f": 0.4}[conversation])
    rates = {"a1": 0.05, "f1": 0.5, "f2": 0.5, "a2": 0.05}
    ordinary = due("b", 3)
    jobs = [due("a1", 0), due("f1", 1, rate=1.0, stratum="error"), ordinary, due("f2", 4, rate=1.0, stratum="error")]
    earlier = EarlierRuns(plan, rates)
    for job in (*jobs, due("a2", 5)):
        earlier.add(job)
    assert earlier.stand_for(ordinary, ())


def test_a_rate_that_a_gates_share_has_rounded_is_no_lower_one() -> None:
    """The scores of a share of 0.1 seemed to be of an earlier run: what lacked, at a boost, was not made."""
    rate = Sampling(probability=0.7).with_own_draw(0.1).of_subject.probability
    assert rate < 0.7
    plan: Any = SimpleNamespace(draw=draw)
    boosted, earlier = due("b", 1, rate=1.0, stratum="error"), EarlierRuns(plan, {"a": rate, "e": rate})
    for job in (due("a", 0, rate=0.7), boosted, due("e", 2, rate=0.7)):
        earlier.add(job)
    assert not earlier.stand_for(boosted, ())


def test_what_a_run_at_a_lower_rate_did_not_come_to_takes_little_memory() -> None:
    """Each subject that the lower rate draws was kept to the end of the stretch: 250 bytes."""
    missing = [due("c", at) for at in range(1, 20_000)]
    earlier = runs(due("a", 0), *missing, made="ae")
    assert sum(map(len, earlier._missing.values())) <= 1_000
    earlier.add(due("e", 20_000))
    assert not earlier.stand_for(missing[-1], ())
    after = due("b", 20_001)
    earlier.add(due("e", 20_002))
    assert earlier.stand_for(after, ())
    assert earlier.stand_for(after, ("c",))


def test_many_parts_cost_each_subject_little() -> None:
    """Each subject was compared with every part of every evaluator."""
    number = 20_000
    jobs = [due("abce"[at % 4], at) for at in range(number)]
    earlier = runs(*jobs, made="ae")
    began = time.perf_counter()
    assert sum(earlier.stand_for(job, ()) for job in jobs[1::4]) == 0
    assert time.perf_counter() - began < 2.0
