"""The wait until Prometheus has read new series at 0.

Prometheus notices a restart only where a counter is below its last value. If scores counted before the first scrape,
some sums of a mean could be below their last values and others not. `increase()` would then count the former whole and
the latter in part: the mean of a window would be wrong.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from collector.export.segments import SETTLING
from collector.logs.log import Confirm


class FirstScrape(Collector):
    """Waits until a registry was read as a whole, with its new series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._read = asyncio.Event()
        registry.register(self)

    def expect(self) -> None:
        """Series are new: only the next reading has them."""
        self._read.clear()

    async def wait(self, confirm: Confirm) -> None:
        """Return once the newest series were read. Nobody may read them, so the wait ends after `SETTLING`.

        After a wait `confirm` is called: another process may have taken the partitions of what waits.
        """
        if self._read.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLING):
                await self._read.wait()
        self._read.set()
        await confirm()

    def describe(self) -> Iterable[Metric]:
        """No metrics of its own. Without this method, the registration would count as a reading."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Note that somebody reads."""
        self._read.set()
        return ()
