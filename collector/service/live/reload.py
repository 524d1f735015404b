"""When a process takes another configuration: a signal, a changed file, or a newer one in the definitions log.

A process that evaluates writes what its file has into the log, and all others follow the log. A process refuses a
configuration that it cannot take as a whole, with the reason, and continues with the one it has. It tries a refused one
again from time to time: the reason may lie outside, as a key's file that does not exist yet.
"""

import asyncio
import logging
import subprocess
from collections.abc import Awaitable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from collector.config.configured import Config
from collector.config.live_part import digest_of, live_keys, restart_keys, start_changes, with_live_values
from collector.config.loading import code_change, load
from collector.errors import ConfigError
from collector.evaluate.recovery.configurations import UNNUMBERED
from collector.service.live.exchange import Exchange
from collector.service.live.history import ConfigurationHistory, NumberedConfiguration, going_back_to, values_of
from collector.telemetry.plain import fault_of
from collector.wording import listed

logger = logging.getLogger(__name__)

CHECK_EVERY = 2.0
"""Seconds between two looks at the file and at the log."""
_LONGEST_PAUSE = 8
"""Looks between two attempts to take what was refused; at first it is one, then twice as many each time."""
_MINUTE = 32
"""Looks in about a minute: a multiple of the longest pause."""
_NAMED = 8


@dataclass(eq=False, repr=False)
class Reload:
    """Takes other configurations, one at a time: those of the file at `path`, and those of the log.

    With `evaluates` the process evaluates, and its file counts for the whole deployment.
    """

    exchange: Exchange
    history: ConfigurationHistory
    _: KW_ONLY
    path: Path | None
    evaluates: bool
    every: float = CHECK_EVERY

    def __post_init__(self) -> None:
        self._status = self.exchange.process.status
        self._requested = asyncio.Event()
        self._signalled = False
        self._last_content = self._read()
        self._content: bytes | None = None  # it may have been changed since the start has read it
        self._in_file = self._running  # as it was read last
        self._may_differ = self.path is not None  # the file from what runs
        self._patience = 0 if self.evaluates else _MINUTE
        self._newest_seen = self.history.number if self.history.newest is None else self.history.newest.number
        self._newest_at_start = self._newest_seen  # the last change before this start: it was reported then
        self._refused_number = 0
        self._file_is_refused = False
        self._looks = 0  # since the last attempt that was no repetition

    def request(self) -> None:
        """A signal asks for the file to be read, changed or not."""
        self._signalled = True
        self._requested.set()

    async def run_forever(self) -> None:
        """Look again and again, and when asked."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._requested.wait(), self.every)
            self._requested.clear()
            await self.look()

    async def look(self) -> None:
        """Take the file's configuration, if it was changed or somebody asks; then the log's, if it is newer."""
        signalled, self._signalled = self._signalled, False
        content = await asyncio.to_thread(self._read)
        settled = content == self._last_content  # else the file may still be being written
        self._last_content = content
        requested = signalled or (settled and content is not None and content != self._content)
        self._looks = 0 if requested else self._looks + 1
        is_due = self._looks in {1, 2, 4} or self._looks % _LONGEST_PAUSE == 0
        if requested and self.evaluates:
            self._patience = 0
        if self.path is not None and (requested or (is_due and settled and self._file_is_refused)):
            self._content = content
            attempt = self._take_file(self.path, signalled=signalled, again=not requested)
            self._file_is_refused = not await self._succeeds(attempt, again=not requested)
            if requested and not self._file_is_refused:
                await self._warn_of_code(self.path)
        await self.follow_log(retries=is_due and not requested)

    async def follow_log(self, *, retries: bool = False) -> None:
        """Take the log's configuration, if it is newer; one that was refused only if this look `retries`."""
        newest = await self.history.refresh()
        again = newest is not None and newest.number == self._refused_number
        if newest is not None and newest.number > self.history.number and (retries or not again):
            succeeded = await self._succeeds(self._follow(newest), again=again)
            self._refused_number = 0 if succeeded else newest.number
            if succeeded:  # the deployment has gone on, and an older file must not turn it back
                self._file_is_refused = False
                if self.path is not None and not self._may_differ:
                    self._may_differ, self._patience, self._looks = True, _MINUTE, 0
        if self._may_differ and newest is not None and newest.number == self.history.number:
            self._report_file()

    async def _warn_of_code(self, path: Path) -> None:
        """Say that the file's plug-ins have changed: what is in memory serves on, but a start may fail."""
        with suppress(OSError, subprocess.SubprocessError):  # a file is just being replaced, or takes too long
            if (change := await asyncio.to_thread(code_change, self._in_file, path)) is not None:
                logger.warning("%s", change)

    def _report_file(self) -> None:
        """Refuse a file that has something else than what all processes run."""
        self._may_differ = (other := self._other(self._in_file)) is not None
        # a changed file may reach one process about a minute later than another
        if other and self._status.refused is None and self._looks >= self._patience:
            self._status.refuse(other, again=True)

    def _other(self, config: Config) -> str | None:
        """The sentence about a file that has what this process does not run, with the remedy."""
        if not (keys := live_keys(self._running.settings, config.settings)):
            return None
        has, take = f"another {_named(keys)} than this process runs", "take this file,"
        if (old := self.history.earlier(config)) is not None:
            has, take = self.history.replaced(old), going_back_to(old.number)
        way = "send SIGHUP to this process" if self.evaluates else "write it to a process that evaluates"
        keep = f"make this file the same as what runs: `evalstream check -c {self.path} --diff` lists the differences"
        return f"{self.path} has {has}; to make all {take} {way}; else {keep}"

    async def _succeeds(self, attempt: Awaitable[None], *, again: bool) -> bool:
        """Whether an attempt ends without a refusal. `again`: it is a repetition for which nobody asked."""
        try:
            await attempt
        except ConfigError as error:
            self._status.refuse(str(error), again=again)
            return False
        return True

    def _read(self) -> bytes | None:
        try:
            return None if self.path is None else self.path.read_bytes()
        except OSError:
            return None  # it is being replaced; a signal reports it

    async def _take_file(self, path: Path, *, signalled: bool, again: bool) -> None:
        with _refused_by_a_fault():
            config = await asyncio.to_thread(load, path, serves=True)
            digest = digest_of(values_of(config))
        self._require_live(config)
        if config.settings == self._in_file.settings and not signalled:
            if self._file_is_refused:  # it says nothing new, whatever others have taken meanwhile
                self._status.keep(self._other(config))
            return
        newest = await self.history.refresh()
        # A file may reach one machine later than another. A configuration that others have taken meanwhile, and
        # replaced again, is no news.
        later = self.history.after(self._newest_seen)
        seen = next((entry.number for entry in later if entry.digest == digest), None)
        if seen is not None:
            self._newest_seen = seen
        back = signalled and self.evaluates and newest is not None and newest.number == self._refused_number
        if config.settings == self._running.settings and not back:
            self._status.keep()
        elif newest is not None and digest == newest.digest:
            await self._take(config, newest.number)
        elif seen is None and self.evaluates and not (again and later):
            await self._take(config, None)
        else:  # the deployment's configuration is in the log
            self._may_differ = True
            self._status.keep(self._other(config))
        self._in_file = config

    @property
    def _running(self) -> Config:
        return self.exchange.process.config

    def _require_live(self, config: Config) -> None:
        """See that nothing is changed that only a start reads.

        Raises:
            ConfigError: something is.
        """
        if keys := restart_keys(self._running.settings, config.settings):
            raise ConfigError(
                f"{config.source}: {_named(keys)}: read only at a start, so nothing of the file is taken; restart the "
                "process to take the whole file, or put the old values back"
            )

    async def _follow(self, newest: NumberedConfiguration) -> None:
        """Take what another process has taken.

        Raises:
            ConfigError: it cannot be taken here.
        """
        if keys := start_changes(newest.values, self._running):
            own, number = self.history.number, newest.number
            keep = (
                f"to keep configuration {own}, write the file of configuration {own} to a process that evaluates by "
                f"configuration {own}, and send that process SIGHUP"
            )
            if own == UNNUMBERED:  # in a roll-out, its file is the newer one
                way = "by this process's file, restart a process that evaluates with that file"
                keep = f"to replace configuration {number} {way}"
            raise ConfigError(
                f"{self.history.describe(number)} has another {_named(keys)}, which only a start reads; to take "
                f"configuration {number}, write the file of configuration {number} to all machines and restart all "
                f"processes; {keep}"
            )
        with _refused_by_a_fault():
            config = with_live_values(self._running, newest.values, f"configuration {newest.number}")
        if self._may_differ and digest_of(values_of(self._in_file)) == newest.digest:
            config = self._in_file  # it has this process's own addresses of alerts, too
        await self._take(config, newest.number)

    async def _take(self, config: Config, number: int | None) -> None:
        changed = live_keys(self._running.settings, config.settings)
        with _refused_by_a_fault():
            prepared = await self.exchange.prepare(config)
        # From here on it counts: a process that dies finds it in the log.
        before, number = self.history.number, number or await self.history.take(config)
        self.history.number, self._newest_seen = number, max(self._newest_seen, number)
        if number > max(before, 1, self._newest_at_start):  # no first; not only what the log does not hold has changed
            self.history.report_change(number)
        since = self.history.after(number - 1)[0].since
        await self.exchange.take(prepared, number, since)
        self._status.take(number, since, _named(changed or ["nothing changes"]))


@contextmanager
def _refused_by_a_fault() -> Generator[None]:
    """A fault, of a plug-in say, refuses the configuration: nothing has changed yet, and the present one stays."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"the configuration cannot be prepared: {error!r} ({fault_of(error)})") from error


def _named(keys: Sequence[str]) -> str:
    """The first keys, and how many there are besides."""
    return listed([*keys[:_NAMED], *([f"{len(keys) - _NAMED} more"] if len(keys) > _NAMED else [])])
