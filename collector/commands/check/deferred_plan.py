"""Lines of `evalstream check` about monitors whose evaluations may wait for hours."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing

from collector.commands.check.capacity import expected_uses
from collector.config.configured import Config, judges_of
from collector.config.urgency import LONGEST_WAIT, deferred_part
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.judging.batches import BatchesOfCheck
from collector.judging.open_judges import open_judges
from collector.logs.memory import MemoryLog
from collector.wording import listed, plural
from evaluators.judges.batches.batch_terms import BatchPace
from evaluators.judges.batches.journal import BatchJournal

_DAY = 86_400.0
_PATIENCE = 5.0
"""Seconds within which an endpoint has to answer."""


def deferred_lines(name: str, config: Config) -> Iterator[str]:
    """Judges whose batches a monitor uses, how many evaluations wait at most, and what has to be larger for that."""
    monitor = config.settings.monitors[name]
    if monitor.urgency == "now":
        return
    named = {judge for use in monitor.uses for judge in judges_of(use.name, config.evaluators)}
    judges = sorted({member for each in named for member in config.settings.members(each)})
    discounts = sorted({config.settings.judges[judge].batch_discount for judge in judges})
    cheaper = " to ".join(f"{each * 100:.4g}" for each in dict.fromkeys((discounts[0], discounts[-1])))
    gather = config.settings.evaluate.gather
    wait = f"{gather / 60:g} min" if gather >= 60 else f"{gather:g} s"
    yield (
        f"urgency: hours; requests gather for {wait}, then go into batches of {listed(judges)}: {cheaper} % "
        "cheaper, and answered within a day; the first request of each kind goes out at once, at the full price"
    )
    waiting, most = _waiting(config), config.settings.evaluate.max_deferred
    if waiting is not None:
        fits = f"evaluate.max_deferred is {most:,} in each process"
        if waiting > most:
            fits += ": if one process evaluates, it sheds the rest; raise max_deferred, or sample less"
        yield f"up to {plural(round(waiting), 'evaluation')} of all such monitors become due in a day; {fits}"
    if config.settings.log.kind == "sqlite" and config.settings.log.retention <= LONGEST_WAIT:
        yield "log.retention is shorter than the three days that an evaluation may wait; set it to 4d or more"
    if config.settings.log.kind == "memory":
        yield "log.kind is memory: waiting evaluations end with the process, and their batches are paid in vain"
    if config.settings.log.kind == "kafka":
        yield "the topics of turns and evaluations have to retain records for more than three days (retention.ms)"


def batch_lines(config: Config) -> Iterator[str]:
    """The judges of monitors whose evaluations may wait that have batches, as their endpoints say."""
    if (part := deferred_part(config)) is not None:
        yield from asyncio.run(_endpoint_lines(part))


async def _endpoint_lines(part: Config) -> Sequence[str]:
    with closing(BatchJournal(None)) as journal:
        batches = BatchesOfCheck(journal, BatchPace(patience_at_start=0.0))
        async with open_judges(part, GeneratedStepsStore(MemoryLog("definitions")), batches=batches):
            return [f"batches    {each}" for each in await batches.look(_PATIENCE)]


def _waiting(config: Config) -> float | None:
    """Evaluations that become due within a day, of all monitors whose evaluations may wait; None without traffic."""
    traffic = config.settings.traffic
    if traffic is None:
        return None
    uses = (use for use in expected_uses(config, traffic) if use.deferred and judges_of(use.name, config.evaluators))
    return _DAY * sum(use.per_second for use in uses)
