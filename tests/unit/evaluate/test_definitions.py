from collector.evaluate.definitions import Definitions
from collector.logs.memory import MemoryLog


async def test_what_was_kept_is_there_after_a_restart() -> None:
    log = MemoryLog("definitions", partitions=1)
    first = await Definitions.read(log)
    assert await first.load("k") is None
    assert await first.save("k", "steps") == "steps"
    assert await (await Definitions.read(log)).load("k") == "steps"


async def test_of_two_processes_the_first_in_the_log_wins_for_both() -> None:
    log = MemoryLog("definitions", partitions=1)
    one, two = await Definitions.read(log), await Definitions.read(log)
    assert await one.save("k", "from one") == "from one"
    assert await two.save("k", "from two") == "from one"
    assert await one.load("k") == await two.load("k") == "from one"
