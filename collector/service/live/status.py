"""The status of a process's configuration: since when it runs, and whether a newer one was refused."""

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from collector.backoff import StateLines
from collector.telemetry import series
from collector.telemetry.registry import Telemetry

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RefusedConfiguration:
    """Why a configuration was not taken, and when (s since the epoch) that was tried first."""

    reason: str
    since: float


class ConfigurationStatus:
    """The status of a process's configuration.

    `since` is when this process took it, `in_force_since` when the first one of the deployment did (s since the epoch).
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self.number = 0
        self.since = self.in_force_since = time.time()
        self.refused: RefusedConfiguration | None = None
        self._lines = StateLines()  # one for each reason
        telemetry.gauge(series.CONFIGURATION_REFUSED).set_function(lambda: float(self.refused is not None))
        telemetry.gauge(series.CONFIGURATION_NUMBER).set_function(lambda: float(self.number))
        telemetry.gauge(series.CONFIGURATION_SINCE).set_function(lambda: self.since)
        for result in ("taken", "refused"):
            telemetry.counter(series.CONFIGURATION_CHANGES, result)

    def begin(self, number: int, in_force_since: float) -> None:
        """The process starts with a configuration that may have run before."""
        self.number, self.in_force_since = number, in_force_since

    def take(self, number: int, in_force_since: float, what: str) -> None:
        """Another configuration runs, which others may have taken long before; `what` has changed."""
        self.number, self.since, self.refused = number, time.time(), None
        self._lines.open.clear()
        self.in_force_since = in_force_since
        self._telemetry.counter(series.CONFIGURATION_CHANGES, "taken").inc()
        logger.info("configuration %d is taken: %s", number, what)

    def keep(self, other: str | None = None) -> None:
        """Nothing else is to be taken: the file has the running configuration, or an `other` one."""
        logger.info("%s", other or f"the file has {self._running}, which runs already")
        self.refused = None
        self._lines.open.clear()

    def refuse(self, reason: str, *, again: bool = False) -> None:
        """Another configuration was not taken; if it was tried `again` unasked, only a new reason is worth a line."""
        reason = "; ".join(reason.splitlines())
        self.refused = RefusedConfiguration(reason, self.refused.since if self.refused is not None else time.time())
        if not again:
            self._lines.forget(reason)
            self._lines.open.discard(reason)
        if self._lines.is_due(reason):
            self._telemetry.counter(series.CONFIGURATION_CHANGES, "refused").inc()
            logger.error("configuration refused, and %s stays in force: %s", self._running, reason)

    @property
    def problem(self) -> str | None:
        """The problem, for /readyz and the page; None if there is none."""
        if self.refused is None:
            return None
        since = datetime.fromtimestamp(self.refused.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"configuration refused since {since}, and {self._running} stays in force: {self.refused.reason}"

    @property
    def _running(self) -> str:
        return f"configuration {self.number}" if self.number else "the configuration of the start"
