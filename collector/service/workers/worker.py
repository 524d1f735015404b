"""A process's place among several that one command has started."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from collector.admission.shared_port import SharedPort
from collector.logs.sqlite_shares import PartitionShare


@dataclass(frozen=True, slots=True)
class Worker:
    """One of several processes of one command; they share the ports on which they receive.

    `ports` are those ports, by what listens there. `share` is its part of a SQLite file; over Kafka brokers divide.
    `metrics` is the socket file on which it serves /metrics and /readyz. `lifeline` is the end of a pipe on which
    nothing ever comes: it closes with the process that has started this one, however that ends.
    """

    number: int
    metrics: Path
    lifeline: int
    ports: Mapping[str, SharedPort]
    share: PartitionShare | None = None

    def stop_when_alone(self, stop: Callable[[], None]) -> None:
        """Call `stop` once the process that has started this one is gone."""
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(self.lifeline)
            stop()

        loop.add_reader(self.lifeline, gone)
