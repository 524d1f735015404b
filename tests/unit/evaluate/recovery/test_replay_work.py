from collector.evaluate.recovery.replay_point import ReplayWork


def test_tells_from_where_on_a_restart_has_so_much_to_do() -> None:
    work = ReplayWork()
    assert work.offset_behind(1.0) == 0
    for number in range(11):
        work.note(float(number), 100 + number, 10.0)
    assert [work.offset_behind(amount) for amount in (11.0, 10.0, 4.5, 4.0, 3.0)] == [0, 100, 105, 106, 107]
    assert work.offset_behind(4.0) == 0, "forgotten"
    work.note(12.0, 112, 10.0)
    assert work.offset_behind(4.0) == 108


def test_remembers_no_more_than_is_needed_to_tell_it_well_enough() -> None:
    work = ReplayWork()
    for number in range(100_000):
        work.note(number * 0.1, number, 1000.0)
        behind = work.offset_behind(1000.0)
        if number > 10_000:
            assert number - 10_000 - 45 <= behind <= number - 10_000
    assert len(work) < 300
