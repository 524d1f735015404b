"""The configurations that were taken, in order: records of the definitions log, without secrets.

Each has a number. Two processes that take one at the same time try for the same number; the first in the log has it.
"""

import logging
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from collector.config.configured import Config
from collector.config.live_part import KEYED, digest_of, live_values, start_changes, with_live_values
from collector.errors import ConfigError
from collector.evaluate.plan import Plan
from collector.evaluate.recovery.configurations import UNNUMBERED
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.evaluate.sampling.draw_key import draw_key
from collector.service.plan_builder import build_unasked_plan

logger = logging.getLogger(__name__)

_VERSIONS = "versions"
"""The evaluators' versions in a stored configuration; those of earlier releases have none."""
_BUT = "; most keys of export, log, page and receive are in no numbered configuration: compare these yourself"


@dataclass(frozen=True, slots=True)
class NumberedConfiguration:
    """A configuration that was taken: its live part, when (s since the epoch), and from which file on which host."""

    number: int
    digest: str
    values: Mapping[str, Any]
    since: float
    origin: str = ""


def values_of(config: Config) -> dict[str, Any]:
    """The stored form of a configuration: its live part, and its evaluators' versions by the code of this process.

    Code of a plug-in, or of another release, may give the same definition another version.
    """
    return live_values(config) | {_VERSIONS: build_unasked_plan(config).versions}


def going_back_to(number: int) -> str:
    """The words with the number by which a process names the earlier configuration that its file has, as it refuses it.
    `check --diff` finds the number there, in what processes of earlier releases say, too.
    """
    return f"go back to configuration {number},"


@dataclass(eq=False, repr=False)
class ConfigurationHistory:
    """All configurations of a deployment. `number` is the number of this process's configuration."""

    store: GeneratedStepsStore
    own: Config
    _: KW_ONLY
    clock: Callable[[], float] = time.time
    warn: Callable[[str], None] = lambda _text: None

    def __post_init__(self) -> None:
        self.number = UNNUMBERED
        self._entries: dict[int, NumberedConfiguration] = {}
        self._plans: dict[int, Plan | None] = {}
        self.key = ""
        """The key of the draws, as of the first refresh."""

    @property
    def newest(self) -> NumberedConfiguration | None:
        """The newest one, as of the last refresh."""
        return self._entries.get(len(self._entries))

    def entry(self, number: int) -> NumberedConfiguration | None:
        """The configuration of a number, as of the last refresh."""
        return self._entries.get(number)

    def after(self, number: int) -> list[NumberedConfiguration]:
        """The configurations after a number, in order."""
        return [self._entries[index] for index in range(number + 1, len(self._entries) + 1)]

    async def refresh(self) -> NumberedConfiguration | None:
        """Read what was taken since; returns the newest. Waits while the log is unavailable."""
        self.key = self.key or (await draw_key(self.store)).secret
        while (text := await self.store.load(_key(number := len(self._entries) + 1))) is not None:
            self._add(number, text)
        return self.newest

    async def take(self, config: Config) -> int:
        """Write a configuration behind all others, unless the newest is the same; returns its number."""
        values = values_of(config)
        digest = digest_of(values)
        while (newest := await self.refresh()) is None or newest.digest != digest:
            origin = f"{config.source} on {socket.gethostname()}"
            plain = {"digest": digest, "at": self.clock(), "values": values, "origin": origin}
            number = len(self._entries) + 1
            self._add(number, await self.store.save(_key(number), orjson.dumps(plain).decode()))
        return newest.number

    def earlier(self, config: Config) -> NumberedConfiguration | None:
        """The configuration that a file has, if another one has replaced it; as of the last refresh.

        A machine that the changed file has not reached would turn all others back to it by a restart. A file that
        differs in what only a start reads counts as new: this process cannot run the newest one, and a rolling restart
        with the earlier file is the way back from it.
        """
        newest, digest = self.newest, digest_of(values_of(config))
        if newest is None or newest.digest == digest or start_changes(newest.values, config):
            return None
        return next((entry for entry in reversed(self._entries.values()) if entry.digest == digest), None)

    def other_than(self, config: Config) -> str:
        """The newest configuration in words; "" if a file has it, in any versions of evaluators, or there is none."""
        newest = self.newest
        if newest is None:
            return ""
        versions = {key: value for key, value in newest.values.items() if key == _VERSIONS}
        return "" if digest_of(live_values(config) | versions) == newest.digest else self.describe(newest.number)

    def describe(self, number: int) -> str:
        """When it was taken, and from which file."""
        entry = self._entries[number]
        at = datetime.fromtimestamp(entry.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"configuration {number} (of {at}{entry.origin and ', from '}{entry.origin})"

    def replaced(self, entry: NumberedConfiguration) -> str:
        """An earlier configuration, and the newest, which is in force in its place."""
        return f"{self.describe(entry.number)}, which others have replaced by {self.describe(len(self._entries))}"

    def report_change(self, number: int) -> None:
        """Log which file counts for all processes; as a warning if the deployment has gone back by it."""
        digest = self._entries[number].digest
        same = next((index for index in range(number - 1, 0, -1) if self._entries[index].digest == digest), None)
        report, back = (self.warn, f", and goes back to configuration {same}{_BUT}") if same else (logger.info, "")
        report(f"{self.describe(number)} replaces configuration {number - 1} for all processes{back}")

    async def find_newest(self) -> None:
        """For who only looks on: this is the newest one."""
        self.number = UNNUMBERED if (newest := await self.refresh()) is None else newest.number

    async def find_own(self, config: Config) -> None:
        """Find the number of a process's configuration: it has one if it is the newest."""
        if (newest := await self.refresh()) and newest.digest == digest_of(values_of(config)):
            self.number = newest.number

    async def plan_of(self, number: int, substitute: Plan | None = None) -> Plan | None:
        """See `PlanHistory`."""
        if number not in self._plans:
            if number not in self._entries:
                await self.refresh()
            self._plans[number] = self._build(number)
        if (plan := self._plans[number]) is not None or substitute is None or number not in self._entries:
            return plan
        return substitute.with_versions(self._entries[number].values.get(_VERSIONS, {}))

    def _build(self, number: int) -> Plan | None:
        entry = self._entries.get(number)
        if entry is None:
            return None
        try:
            config = with_live_values(self.own, entry.values, f"configuration {number}", answering=False)
            plan = build_unasked_plan(config, self.key if KEYED in entry.values else "")
        except ConfigError as error:
            reason = "; ".join(str(error).splitlines())
            self.warn(f"the present configuration judges what configuration {number} left unfinished: {reason}")
            return None
        return plan.with_versions(entry.values.get(_VERSIONS, {}))

    def _add(self, number: int, text: str) -> None:
        """Add an entry once, though a partition that opens may read it at the same time as the look at the file."""
        plain: Any = orjson.loads(text)
        self._entries[number] = NumberedConfiguration(
            number, plain["digest"], plain["values"], plain["at"], plain.get("origin", "")
        )


def _key(number: int) -> str:
    return f"configuration/{number}"
