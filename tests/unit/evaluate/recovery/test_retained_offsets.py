from collector.evaluate.recovery.replay_point import ReplayPoint, RetainedOffsets


def test_a_mark_is_held_until_all_that_came_up_to_a_position_is_done() -> None:
    holds = RetainedOffsets()
    holds.retain([ReplayPoint(5, 1.0), ReplayPoint(3, 1.0)], until=10)
    holds.retain([ReplayPoint(4, 1.0), ReplayPoint(3, 1.0)], until=20)
    assert holds.low_watermark == ReplayPoint(3, 1.0)
    holds.release(10)
    assert len(holds) == 4, "what the record at 10 gave rise to is not done yet"
    holds.release(11)
    assert holds.low_watermark == ReplayPoint(3, 1.0)
    holds.release(21)
    assert (holds.low_watermark, len(holds)) == (None, 0)
