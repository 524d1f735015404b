from collections.abc import AsyncIterator, Sequence

from collector.backoff import Backoff
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.logs.log import LogUnavailable, Record, StoredRecord
from collector.logs.memory import MemoryLog


async def test_what_was_kept_is_there_after_a_restart() -> None:
    log = MemoryLog("definitions", partitions=1)
    first = await GeneratedStepsStore.open(log)
    assert await first.load("k") is None
    assert await first.save("k", "steps") == "steps"
    assert await (await GeneratedStepsStore.open(log)).load("k") == "steps"


async def test_of_two_processes_the_first_in_the_log_wins_for_both() -> None:
    log = MemoryLog("definitions", partitions=1)
    one, two = await GeneratedStepsStore.open(log), await GeneratedStepsStore.open(log)
    assert await one.save("k", "from one") == "from one"
    assert await two.save("k", "from two") == "from one"
    assert await one.load("k") == await two.load("k") == "from one"
    assert await (third := await GeneratedStepsStore.open(log)).load("k") == "from one"
    assert [each.added for each in (one, two, third)] == [1, 1, 0], "a command tells whoever wrote steps to keep them"


class Away(MemoryLog):
    """A log that is away for the next few questions."""

    away = 0

    def _ask(self) -> None:
        if self.away:
            self.away -= 1
            raise LogUnavailable("no broker")

    async def append(self, records: Sequence[Record]) -> None:
        self._ask()
        await super().append(records)

    def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        self._ask()
        return super().read(partition, start)


async def test_a_log_that_is_away_is_waited_for() -> None:
    """A judge that needs its steps cannot go on without; a failure of its evaluation would stand for good."""
    log = Away("definitions", partitions=1)
    definitions = await GeneratedStepsStore.open(log, backoff=Backoff(cap=0.001))
    log.away = 3
    assert await definitions.load("k") is None
    assert log.away == 0
    log.away = 3
    assert await definitions.save("k", "steps") == "steps"
    assert log.away == 0
