"""Topics of others that were begun: known after a restart, by group, topic and partition."""

from __future__ import annotations

import asyncio

from kafka.structs import TopicPartition

from collector.logs.memory import MemoryLog
from collector.service.receive import TopicNotes

FIRST, SECOND, OTHER = TopicPartition("spans", 0), TopicPartition("spans", 1), TopicPartition("logs", 0)


async def noted(log: MemoryLog, group: str, *begun: tuple[TopicPartition, str]) -> None:
    """A process that begins with these, and ends."""
    notes, before = await TopicNotes.open(log, group), await log.end_offset(0)
    for where, topic_id in begun:
        notes.begun(where, topic_id)
    writing = asyncio.create_task(notes.write_forever())
    while await log.end_offset(0) < before + len(begun):
        await asyncio.sleep(0)
    writing.cancel()


async def test_what_was_begun_is_known_to_the_next_process_and_to_no_other_group() -> None:
    log = MemoryLog("definitions", 1)
    await noted(log, "a", (FIRST, "1"), (SECOND, "1"))
    await noted(log, "a", (FIRST, "2"))
    notes = await TopicNotes.open(log, "a")
    assert [notes.noted_id(each) for each in (FIRST, SECOND, OTHER)] == ["2", "1", None]
    assert (await TopicNotes.open(log, "b")).noted_id(FIRST) is None


async def test_a_partition_without_a_note_is_known_by_another_of_its_topic() -> None:
    log = MemoryLog("definitions", 1)
    await noted(log, "a", (FIRST, "1"))
    assert (await TopicNotes.open(log, "a")).noted_id(SECOND) == "1"
