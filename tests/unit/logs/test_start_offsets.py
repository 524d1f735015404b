"""Where reading begins: at what was committed, unless that is gone, or of another topic of the same name."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.logs.kafka.owned_partitions import StartOffsets, to_kafka
from collector.logs.log import Committed

WHERE = TopicPartition("otlp_spans", 0)
OLD, NEW = "0" * 32, "1" * 32


class Consumer:
    """A consumer that stands at 20 of a topic with the offsets 0 to 99."""

    def __init__(self, committed: OffsetAndMetadata | None) -> None:
        self.at = 20
        self._committed = committed

    def committed(self, _where: TopicPartition, **_: Any) -> OffsetAndMetadata | None:
        return self._committed

    def end_offsets(self, partitions: list[TopicPartition], **_: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    def beginning_offsets(self, partitions: list[TopicPartition], **_: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def seek_to_beginning(self, _where: TopicPartition) -> None:
        self.at = 0

    def position(self, _where: TopicPartition, **_: Any) -> int:
        return self.at


AT_20 = Committed(20, 20)
OF_OLD, OF_NEW, WITHOUT_ID = to_kafka(AT_20, OLD), to_kafka(AT_20, NEW), to_kafka(AT_20)
CASES: dict[str, tuple[OffsetAndMetadata | None, dict[str, str], dict[TopicPartition, int], Any]] = {
    "the same topic": (OF_NEW, {WHERE.topic: NEW}, {}, (AT_20, 20, [])),
    "another one": (OF_OLD, {WHERE.topic: NEW}, {}, (None, 0, [(20, 20, "topic_replaced")])),
    "a commit without an id": (WITHOUT_ID, {WHERE.topic: NEW}, {}, (AT_20, 20, [])),
    "a broker without ids": (OF_OLD, {}, {}, (AT_20, 20, [])),
    "replaced while it was read": (OF_OLD, {WHERE.topic: NEW}, {WHERE: 33}, (None, 0, [(20, 20, "topic_replaced")])),
    "replaced, and brokers forgot the commit": (None, {WHERE.topic: NEW}, {WHERE: 33}, (None, 0, [(33, 33, "topic_replaced")])),
    "another process has begun with the new one": (OF_NEW, {WHERE.topic: NEW}, {WHERE: 33}, (AT_20, 20, [])),
    "a new group": (None, {WHERE.topic: NEW}, {}, (None, 20, [])),
}  # fmt: skip


def test_a_position_that_somebody_has_set_has_interval(caplog: pytest.LogCaptureFixture) -> None:
    """Set forward over a backlog, nothing else says that records are skipped."""
    assert StartOffsets(Consumer(OffsetAndMetadata(60, "", -1)), 1000).find([WHERE], {}) == {
        WHERE: (Committed(60, 60), 60)
    }
    assert "otlp_spans[0]: the position 60 was set by others than evalstream" in caplog.text
    caplog.clear()
    StartOffsets(Consumer(WITHOUT_ID), 1000).find([WHERE], {})
    assert caplog.text == ""


@pytest.mark.parametrize("case", CASES)
def test_where_reading_begins(case: str) -> None:
    committed, topic_ids, replaced, (state, start, lost) = CASES[case]
    offsets = StartOffsets(Consumer(committed), 1000, topic_ids)
    polled: dict[TopicPartition, list[Any]] = {}
    assert offsets.find([WHERE], polled, replaced) == {WHERE: (state, start)}
    assert offsets.lost.get(WHERE, []) == lost


def test_what_was_fetched_from_the_middle_of_the_new_topic_is_fetched_again() -> None:
    offsets = StartOffsets(Consumer(OF_OLD), 1000, {WHERE.topic: NEW})
    polled: dict[TopicPartition, list[Any]] = {WHERE: [object()]}
    assert offsets.find([WHERE], polled) == {WHERE: (None, 0)}
    assert polled == {}
