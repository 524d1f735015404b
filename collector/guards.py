"""What one process has against hostile input and for its secrets, made once out of the configuration."""

from __future__ import annotations

from collections.abc import Callable

from collector.config.loading import Config
from collector.dead_letters import DeadLetters, Stage
from collector.health import Health
from collector.opening import Logs
from collector.readymade import Incoming
from collector.redact.opening import open_redactor
from collector.safeguards import Safeguards
from collector.telemetry import REDACTION_FAILURES, REDACTIONS, Telemetry


class Guards:
    """The redactor (None if nothing is redacted), the safeguards of evaluations, the process's health."""

    def __init__(self, config: Config, telemetry: Telemetry) -> None:
        """Load the redactors.

        Raises:
            ConfigError: one of them cannot be had.
        """
        settings = config.settings
        self._settings = settings
        self._telemetry = telemetry
        self.health = Health()
        self.redactor = open_redactor(
            settings.redact,
            lambda kind, count: telemetry.counter(REDACTIONS, kind).inc(count),
            telemetry.counter(REDACTION_FAILURES).inc,
        )
        self.safeguards = Safeguards(
            telemetry, redactor=self.redactor, canary=settings.canary, store_text=settings.store_text
        )

    def letters(
        self,
        stage: Stage,
        source: str | Callable[[int], tuple[str, int]],
        logs: Logs,
        *,
        signal: Incoming | None = None,
    ) -> DeadLetters:
        """Where the bad records of a stage go."""
        return DeadLetters(
            stage,
            source,
            logs.dead_letters,
            self._telemetry,
            self._settings.dead_letters,
            keep=self._settings.store_text and self.redactor is None,
            signal=signal,
        )
