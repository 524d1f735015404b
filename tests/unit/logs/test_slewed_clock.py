"""Clock jumps: time goes on at about its pace, and the jump is made good in the end."""

from __future__ import annotations

import pytest

from collector.logs.consumer_runner import SlewedClock

HOUR = 3600.0


class Machine:
    """A clock that can be set, and the time that really passes."""

    def __init__(self) -> None:
        self.passed = 50.0
        self.set_off = 1_000_000.0

    def wall(self) -> float:
        return self.passed + self.set_off

    def go(self, seconds: float) -> None:
        self.passed += seconds

    def clock(self) -> SlewedClock:
        return SlewedClock(self.wall, lambda: self.passed)


def test_without_jumps_it_is_the_time_of_day() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(100):
        machine.go(7.0)
        assert clock() == pytest.approx(machine.wall())


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_jump_is_made_good_bit_by_bit(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock()
    machine.set_off += jump
    for _ in range(900):
        machine.go(1.0)
        clock()
    assert clock() - before == pytest.approx(900.0, rel=0.101), "a quarter of an hour takes about that"
    for _ in range(11 * 3600):
        machine.go(1.0)
        clock()
    assert clock() == pytest.approx(machine.wall())


def test_it_never_falls_and_follows_small_corrections() -> None:
    machine = Machine()
    clock = machine.clock()
    seen = [clock()]
    for step in range(200):
        machine.go(0.5)
        machine.set_off += 0.3 if step % 2 else -0.9
        seen.append(clock())
    assert seen == sorted(seen)
    machine.go(300.0)
    machine.set_off = 1_000_000.0
    for _ in range(2000):
        machine.go(1.0)
        clock()
    assert clock() == pytest.approx(machine.wall())


def test_a_machine_that_slept_knows_how_long() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.go(8 * HOUR)
    assert clock() == pytest.approx(machine.wall())
