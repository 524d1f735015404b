"""A named process sees to it that every partition has an owner, and a long wait for a group is in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
from kafka.structs import TopicPartition

from collector.logs.kafka.group_watch import AGAIN, LONG, SETTLED, Answer, GroupMembers, GroupView, GroupWatch, JoinWait
from collector.logs.log import LogUnavailable

ALL = frozenset(TopicPartition("turns", number) for number in range(3))
MINE = frozenset([TopicPartition("turns", 0)])
FOLLOWER = GroupView(joined=True, generation=7, partitions=ALL, owned=MINE)
OTHERS_HAVE_THE_REST = GroupMembers(settled=True, names=("pod-0 on 10.0.0.1", "pod-1 on 10.0.0.2"), owned=ALL)
NOBODY_HAS_THE_REST = replace(OTHERS_HAVE_THE_REST, owned=MINE)


class World:
    """A consumer that sees `view`, in a group of which brokers say `answer`."""

    def __init__(self, *, instance: str | None = "pod-0") -> None:
        self.now = 100.0
        self.view = FOLLOWER
        self.answer: Answer = OTHERS_HAVE_THE_REST
        self.asked: list[float] = []
        self.watch = GroupWatch("evaluate", self._ask, instance=instance, wait=JoinWait(), clock=lambda: self.now)

    def _ask(self, done: Callable[[Answer], None]) -> None:
        self.asked.append(self.now)
        done(self.answer)

    def rejoins(self, seconds: float) -> list[float]:
        """When it joins once more, within so many seconds, in seconds from now."""
        start, found = self.now, list[float]()
        while self.now < start + seconds:
            if self.watch.should_rejoin(lambda: self.view):
                found.append(self.now - start)
            self.now += 0.5
        return found


def test_it_joins_once_more_when_nobody_has_a_partition() -> None:
    world = World()
    world.answer = NOBODY_HAS_THE_REST
    assert world.rejoins(SETTLED + 1.5) == [SETTLED]
    world.view = replace(FOLLOWER, generation=8, owned=ALL)
    assert world.rejoins(5 * AGAIN) == []


def test_brokers_are_asked_twice_a_minute_where_others_have_the_rest() -> None:
    world = World()
    assert world.rejoins(5 * AGAIN) == []
    assert len(world.asked) == 5


@pytest.mark.parametrize(
    "view",
    [
        replace(FOLLOWER, owned=frozenset()),
        replace(FOLLOWER, owned=frozenset(), partitions=frozenset()),
        replace(FOLLOWER, owned=MINE),
    ],
    ids=["has-nothing", "knows-no-partition", "has-one-of-two"],
)
def test_it_joins_once_more_when_brokers_count_to_its_name_what_it_does_not_have(view: GroupView) -> None:
    """Each of these states was never looked at again: the process was ready, and judged nothing."""
    world, two = World(), frozenset([TopicPartition("turns", 0), TopicPartition("turns", 1)])
    world.answer = replace(OTHERS_HAVE_THE_REST, owned_by={"pod-0": two, "pod-1": ALL - two})
    world.view = view
    assert world.rejoins(SETTLED + 1.5) == [SETTLED]
    world.view = replace(view, owned=two, partitions=ALL, generation=8)
    assert world.rejoins(5 * AGAIN) == []


def test_a_loss_that_comes_after_a_good_answer_is_found() -> None:
    world = World()
    assert world.rejoins(2 * AGAIN) == []
    world.answer = replace(OTHERS_HAVE_THE_REST, owned_by={"pod-0": ALL})
    assert len(world.rejoins(AGAIN + 1)) == 1


def test_they_are_asked_again_when_there_are_more_partitions() -> None:
    world = World()
    world.rejoins(AGAIN)
    world.answer = OTHERS_HAVE_THE_REST
    world.view = replace(FOLLOWER, partitions=ALL | {TopicPartition("turns", 3)})
    assert world.rejoins(SETTLED + 1.5) == [SETTLED]


def test_nobody_is_asked_by_who_has_all() -> None:
    world = World()
    world.view = replace(FOLLOWER, owned=ALL)
    assert (world.rejoins(5 * AGAIN), world.asked) == ([], [])


def test_nobody_is_asked_without_a_name() -> None:
    world = World(instance=None)
    world.answer = NOBODY_HAS_THE_REST
    assert (world.rejoins(5 * AGAIN), world.asked) == ([], [])


@pytest.mark.parametrize(
    "answer",
    [LogUnavailable("no broker answers"), replace(NOBODY_HAS_THE_REST, settled=False)],
    ids=["no-answer", "rebalance"],
)
def test_what_is_not_known_is_asked_again(answer: Answer) -> None:
    world = World()
    world.answer = answer
    assert world.rejoins(AGAIN) == []
    world.answer = NOBODY_HAS_THE_REST
    assert len(world.rejoins(AGAIN)) == 1


def test_a_partition_that_stays_without_owner_is_looked_for_again() -> None:
    world = World()
    world.answer = NOBODY_HAS_THE_REST
    assert world.rejoins(3 * AGAIN) == [SETTLED, SETTLED + AGAIN, SETTLED + 2 * AGAIN]


def test_an_answer_about_another_generation_says_nothing() -> None:
    world, late = World(), list[Callable[[Answer], None]]()
    watch = GroupWatch("evaluate", late.append, instance="pod-0", wait=JoinWait(), clock=lambda: world.now)
    for _ in range(5):
        assert not watch.should_rejoin(lambda: FOLLOWER)
        world.now += 1.0
    next_one = replace(FOLLOWER, generation=8)
    assert not watch.should_rejoin(lambda: next_one)
    late[0](NOBODY_HAS_THE_REST)
    world.now += 1.0
    assert not watch.should_rejoin(lambda: next_one)


def test_a_long_wait_is_said_once_with_the_members(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(instance=None)
    world.view = replace(FOLLOWER, joined=False)
    world.rejoins(LONG - 1)
    assert (caplog.records, world.watch.wait.long_wait) == ([], None)
    world.rejoins(3 * LONG)
    [record] = caplog.records
    assert "group evaluate: could not be joined for 20 s, so nothing is read" in record.getMessage()
    assert "members: pod-0 on 10.0.0.1, pod-1 on 10.0.0.2" in record.getMessage()
    assert world.watch.wait.long_wait == 78.0
    world.view = FOLLOWER
    world.rejoins(2.0)
    assert world.watch.wait.long_wait is None
    assert "group evaluate is joined after 79 s" in caplog.records[1].getMessage()


def test_a_wait_that_ends_before_brokers_answer_has_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """The line came from another thread after the end, and had none: whoever read it thought that nothing is read."""
    caplog.set_level(logging.INFO)
    answers = list[Callable[[Answer], None]]()
    now, joined = [0.0], [False]
    watch = GroupWatch("evaluate", answers.append, instance=None, wait=JoinWait(), clock=lambda: now[0])

    def pass_seconds(number: float) -> None:
        for _ in range(int(number)):
            watch.should_rejoin(lambda: replace(FOLLOWER, joined=joined[0]))
            now[0] += 1.0

    for _ in range(2):
        joined[0] = False
        pass_seconds(LONG + 2)
        joined[0] = True
        pass_seconds(2)
        assert len(answers) == 1
        joined[0] = False
        pass_seconds(2)
        answers.pop()(OTHERS_HAVE_THE_REST)  # during another wait
        pass_seconds(2)
        assert not caplog.records
        joined[0] = True
        pass_seconds(2)
    joined[0] = False
    pass_seconds(LONG + 2)
    answers.pop()(OTHERS_HAVE_THE_REST)
    pass_seconds(2)
    joined[0] = True
    pass_seconds(2)
    begin, end = [record.getMessage() for record in caplog.records]
    assert begin.startswith("group evaluate: could not be joined for 22 s")
    assert end.startswith("group evaluate is joined after 24 s")


def test_a_wait_that_the_next_consumer_ends_is_ended_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The next consumer joined at once and wrote nothing: by the log, nothing was read for ever."""
    caplog.set_level(logging.INFO)
    world, after = World(instance=None), World(instance=None)
    world.view = replace(FOLLOWER, joined=False)
    world.rejoins(LONG + 1)
    after.now, after.watch = world.now, replace(world.watch, clock=lambda: after.now)
    after.rejoins(1.0)
    _, end = [record.getMessage() for record in caplog.records]
    assert end == "group evaluate is joined after 21 s"


def test_a_long_wait_is_said_when_no_broker_answers(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.view, world.answer = replace(FOLLOWER, joined=False), LogUnavailable("no broker answers")
    world.rejoins(2 * LONG)
    [record] = caplog.records
    assert "for 20 s, so nothing is read (no broker answers)" in record.getMessage()


def test_an_outage_of_brokers_is_no_wait_for_the_members_of_the_group(caplog: pytest.LogCaptureFixture) -> None:
    world = World(instance=None)
    away = replace(FOLLOWER, joined=False)
    for world.now in range(100, 160):
        assert not world.watch.should_rejoin(lambda: away, reached=False)
    assert (caplog.records, world.watch.wait.long_wait) == ([], None)
    for world.now in range(160, 181):
        world.watch.should_rejoin(lambda: away, reached=True)
    [record] = caplog.records
    assert "group evaluate: could not be joined for 20 s" in record.getMessage()


def test_the_members_are_those_of_after_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    """The answer came as brokers went away, and the line named the members of before."""
    answers = list[Callable[[Answer], None]]()
    now, away = [0.0], replace(FOLLOWER, joined=False)
    watch = GroupWatch("evaluate", answers.append, instance=None, wait=JoinWait(), clock=lambda: now[0])
    for second in range(90):
        now[0] = float(second)
        watch.should_rejoin(lambda: away, reached=not 21 <= second < 60)
        if second == 22:
            answers.pop()(replace(OTHERS_HAVE_THE_REST, names=("gone",)))
    assert len(answers) == 1
    answers.pop()(replace(OTHERS_HAVE_THE_REST, names=("present",)))
    now[0] = 91.0
    watch.should_rejoin(lambda: away)
    [record] = caplog.records
    assert "members: present" in record.getMessage()


def test_a_short_wait_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    for _ in range(3):
        world.view = replace(FOLLOWER, joined=False)
        world.rejoins(LONG - 1)
        world.view = FOLLOWER
        world.rejoins(2.0)
    assert not caplog.records
