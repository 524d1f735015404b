"""The lowest level of the service's own log, which changes with the configuration."""

from __future__ import annotations

from collector.config.configured import Config
from collector.service.process import Apply, Process
from collector.telemetry.logging import level_of, set_level


async def take_log_level(_config: Config) -> Apply:
    """See `PrepareChange`."""
    return _take_over


async def _take_over(process: Process) -> None:
    set_level(level_of(process.config.settings.log_level))
