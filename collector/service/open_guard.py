"""The guard of a process against records that end it: its journal, and what earlier processes ended in."""

from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from collector.backoff import Backoff
from collector.config.settings import LogSettings, Settings
from collector.logs.journal.guard import FatalUnits, Guard
from collector.logs.journal.journal_file import JournalFile, private_folder
from collector.logs.journal.stall_watchdog import StallWatchdog
from collector.logs.log import LogUnavailable
from collector.service.open_logs import Logs


@asynccontextmanager
async def open_guard(
    settings: Settings, logs: Logs, on_stall: Callable[[], None] | None = None
) -> AsyncGenerator[Guard]:
    """The guard, until left. With `on_stall` a record that holds the event loop is noticed, too.

    Logs in memory end with the process, so nothing can come back.
    """
    fatal = FatalUnits(logs.definitions, settings.dead_letters.max_ends)
    prefix = _journal_prefix(settings.log)
    file = JournalFile.open(prefix) if prefix is not None else None
    with ExitStack() as stack:
        if file is not None:
            stack.callback(file.close)
            ends = file.ended_in()
            await Backoff(cap=1.0).repeat(
                lambda: fatal.record_ends(ends), LogUnavailable, action="writing down what was in process"
            )
            file.begin()
        guard = Guard(file.journal if file is not None else None, fatal)
        if on_stall is not None:
            watchdog = StallWatchdog(guard.journal, settings.dead_letters.stall_after, on_stall)
            stack.enter_context(watchdog.watching())
        yield guard


def _journal_prefix(settings: LogSettings) -> Path | None:
    """How the paths of the journals begin; None if there can be none."""
    match settings.kind:
        case "memory":
            return None
        case "sqlite":
            path = Path(settings.path)
            return path.with_name(f"{path.name}-in-process")
        case "kafka":
            assert settings.kafka is not None  # the configuration is checked
            if settings.kafka.state_directory is not None:
                return Path(settings.kafka.state_directory) / f"{settings.kafka.prefix}-in-process"
            folder = private_folder(settings.kafka.prefix, *settings.kafka.bootstrap_servers)
            return None if folder is None else folder / "in-process"
