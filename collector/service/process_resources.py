"""What a process has once and its stages share: redactor, evaluation guardrails, health, dead letters."""

from __future__ import annotations

from collections.abc import Callable

from collector.config.configured import Config
from collector.dead_letters import DeadLetterWriter, Stage
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.records.ready_made import Incoming
from collector.redact.open_redactor import open_redactors
from collector.service.open_logs import Logs
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import REDACTION_FAILURES, REDACTIONS


class ProcessResources:
    """The redactors, the health of the process, and what is made of them."""

    def __init__(self, config: Config, telemetry: Telemetry) -> None:
        """Load the redactors.

        Raises:
            ConfigError: one of them is not available.
        """
        settings = config.settings
        self._settings = settings
        self._telemetry = telemetry
        self.health = Health(telemetry)
        self.redactors = open_redactors(
            settings.redact,
            lambda kind, count: telemetry.counter(REDACTIONS, kind).inc(count),
            telemetry.counter(REDACTION_FAILURES).inc,
        )

    def guardrails(self, config: Config) -> EvaluationGuardrails:
        """The guardrails of evaluations; their canary runs are the configuration's."""
        return EvaluationGuardrails(
            self._telemetry,
            redactors=self.redactors,
            canary=config.settings.canary,
            store_text=self._settings.store_text,
        )

    def dead_letters(
        self,
        stage: Stage,
        source: str | Callable[[int], tuple[str, int]],
        logs: Logs,
        *,
        signal: Incoming | None = None,
    ) -> DeadLetterWriter:
        """The dead letters of a stage that reads `source`."""
        return DeadLetterWriter(
            stage,
            source,
            logs.dead_letters,
            self._telemetry,
            self._settings.dead_letters,
            keep=self._settings.store_text and not self.redactors.redacts,
            signal=signal,
        )
