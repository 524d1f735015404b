"""The journal of a partition's batches: what its next owner reads back, and what a former one writes in vain."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from collector.evaluate.deferred.logged_journal import LoggedJournal
from collector.evaluate.recovery.ledger import Ledger
from collector.logs.memory import MemoryLog
from evaluators.judges.batches.batch_endpoint import MOST_ATTEMPTS
from evaluators.judges.batches.owned_requests import owner_name
from evaluators.judges.batches.results import BatchResult

HOME = "main chat http://judge"
ONE, TWO = (f"{owner_name(each)}-0123456789abcdef-1" for each in ("one", "two"))


async def owned() -> None:
    """This process owns the partition."""


@asynccontextmanager
async def opened(log: MemoryLog) -> AsyncGenerator[LoggedJournal]:
    """The journal as the next owner of the partition has it."""
    journal = LoggedJournal(set())
    ledger = Ledger(log, 0, on_batches=journal.apply)
    await ledger.read_back(0)
    await ledger.claim(owned, 0)
    journal.note = ledger.append_batches
    assert not ledger.control_records, "they are no decisions"
    try:
        yield journal
    finally:
        journal.close()


async def test_the_next_owner_knows_all_of_it() -> None:
    log = MemoryLog("evaluations", partitions=1)
    async with opened(log) as journal:
        secret = journal.secret
        await journal.plan(HOME, "k", [ONE, TWO], 5.0)
    async with opened(log) as journal:
        assert journal.secret == secret
        assert [(each.key, each.id, each.planned) for each in journal.open_batches(HOME)] == [("k", None, 5.0)]
        await journal.record_submission("k", "batch_1")
    async with opened(log) as journal:
        assert journal.batch("k").id == "batch_1"
        await journal.record(HOME, [BatchResult(ONE, 200, b"yes" * 10_000)])
        await journal.end("k", {TWO: "expired"}, "failed")
        await journal.record_at_once(HOME, "now", b"answer")
    async with opened(log) as journal:
        assert journal.secret == secret
        assert not journal.open_batches()
        answered, expired, now = (journal.entry(HOME, name) for name in (ONE, TWO, "now"))
        assert answered is not None
        assert (answered.status, answered.content) == (200, b"yes" * 10_000)
        assert expired is not None
        assert (expired.batch, expired.attempts, expired.missing) == (None, 1, "expired")
        assert expired.attempts < MOST_ATTEMPTS
        assert now is not None
        assert (now.at_once, now.content) == (True, b"answer")
        assert journal.knows_owner(owner_name("one"))
        journal.forget(owner_name("one"))
        assert not journal.knows_owner(owner_name("one"))
        assert journal.knows_owner(owner_name("two"))


async def test_what_was_dropped_is_unknown() -> None:
    log = MemoryLog("evaluations", partitions=1)
    async with opened(log) as journal:
        await journal.plan(HOME, "k", [ONE], 5.0)
        await journal.drop_plan("k")
    async with opened(log) as journal:
        assert journal.entry(HOME, ONE) is None
        assert not journal.open_batches()


async def test_what_a_former_owner_writes_is_void() -> None:
    log = MemoryLog("evaluations", partitions=1)
    async with opened(log) as former, opened(log) as journal:
        await former.plan(HOME, "late", [ONE], 5.0)
        await journal.plan(HOME, "mine", [TWO], 6.0)
    async with opened(log) as journal:
        assert [each.key for each in journal.open_batches()] == ["mine"]
        assert journal.entry(HOME, ONE) is None


async def test_answers_are_divided_among_records_that_a_topic_takes() -> None:
    log = MemoryLog("evaluations", partitions=1)
    names = [f"{owner_name(str(n))}-0-1" for n in range(200)]
    contents = [bytes((n * k) % 251 for k in range(8_000)) for n in range(200)]
    async with opened(log) as journal:
        await journal.plan(HOME, "k", names, 5.0)
        await journal.record(HOME, [BatchResult(*each) for each in zip(names, [200] * 200, contents, strict=True)])
    sizes = [len(record.value) for batch in [each async for each in log.read(0, 0)] for record in batch]
    assert max(sizes) < 900_000
    async with opened(log) as journal:
        assert [getattr(journal.entry(HOME, each), "content", None) for each in names] == contents


async def test_a_change_of_a_later_version_is_left_alone() -> None:
    log = MemoryLog("evaluations", partitions=1)
    async with opened(log) as journal:
        await journal.note({"event": "something new"})
    async with opened(log) as journal:
        assert not journal.open_batches()
