"""The resources that a process has once and its stages share: redactor, evaluation guardrails, health, dead letters.

File descriptors are as many as the system allows, and connections of senders stay within them. State that a restart
rebuilds is passed over by garbage collection: it stays for hours, and none of it is garbage.
"""

import gc
import logging
import resource
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from collector.config.configured import Config
from collector.dead_letters import DeadLetterWriter, LetterSource, Stage
from collector.evaluate.failures import FailingEvaluators
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.export.scrape import MOST_CONNECTIONS as METRICS_CONNECTIONS
from collector.logs.log import Committed, Fold, FoldWrapper, OpenFold, StoredRecord
from collector.page.server import MOST_CONNECTIONS as PAGE_CONNECTIONS
from collector.receive.access import OtlpSettings
from collector.records.ready_made import Incoming
from collector.redact.open_redactor import open_redactors
from collector.service.open_logs import Logs
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import REDACTION_FAILURES, REDACTIONS


class ProcessResources:
    """The redactors, the health of the process, and everything made from them."""

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

    def guardrails(self, config: Config, draw_key: str) -> EvaluationGuardrails:
        """The guardrails of evaluations, with the canary runs of `config`. A health check tells failures."""
        keys = {name: each.judge for name, each in config.evaluators.items() if each.judge in config.settings.judges}

        def waits(evaluator: str) -> bool:
            """With a fallback that answers, or where requests are shed, no evaluation waits for a judge."""
            if (judge := keys.get(evaluator, "")) not in (away := self.health.unavailable_judges):
                return False
            configured = config.settings.judges[judge]
            return configured.breaker.when_open == "pause" and configured.fallback in {None, *away}

        failing = FailingEvaluators(keys, waits)
        self.health.add("evaluators", failing.problem, vital=False)
        return EvaluationGuardrails(
            self._telemetry,
            redactors=self.redactors,
            canary=config.settings.canary,
            store_text=self._settings.store_text,
            draw_key=draw_key,
            failing=failing,
        )

    def dead_letters(
        self, stage: Stage, source: LetterSource, logs: Logs, *, signal: Incoming | None = None
    ) -> DeadLetterWriter:
        """The dead letters of a stage that reads `source`."""
        return DeadLetterWriter(
            stage,
            source,
            logs.dead_letters,
            self._telemetry,
            self._settings.dead_letters.keeping(self._settings.store_text and not self.redactors.redacts),
            signal=signal,
        )


logger = logging.getLogger(__name__)

OWN_DESCRIPTORS = 192
"""Descriptors of the process itself: logs, brokers, judges, and files that are open for a moment."""

S = TypeVar("S", bound=OtlpSettings)


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard one; gives the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # the system does not allow it after all
            return soft
    return hard


def with_descriptors(settings: S, receivers: int, limit: int, *, each: int = 1) -> S:
    """A receiver's settings with as many connections as the descriptors allow when all listeners are full.

    A connection takes `each` descriptors.

    The page, /metrics and the process have separate descriptors, so a client that uses those up keeps no sender out.
    """
    most = max(1, (limit - OWN_DESCRIPTORS - PAGE_CONNECTIONS - METRICS_CONNECTIONS) // receivers // each)
    if settings.max_connections <= most:
        return settings
    logger.warning(
        "receive: %d connections are accepted and not %d: the process may open %d files; raise it with ulimit -n",
        most,
        settings.max_connections,
        limit,
    )
    return settings.model_copy(update={"max_connections": most})


def long_lived(open_fold: OpenFold) -> OpenFold:
    """Open the same folds; garbage collection skips their replayed state until one of them closes."""
    # What is released is freed by its reference count as before; only cycles that are garbage during the replay wait.

    @asynccontextmanager
    async def open_long_lived(partition: int, committed: Committed | None) -> AsyncGenerator[Fold]:
        async with open_fold(partition, committed) as fold:
            try:
                yield _LongLivedFold(fold)
            finally:
                gc.unfreeze()

    return open_long_lived


class _LongLivedFold(FoldWrapper):
    """Freezes with every batch: else a million turns are gone through each time that they have grown by a quarter."""

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        await self._fold.replay(records)
        gc.freeze()
