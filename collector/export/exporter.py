"""The interface of an exporter, and the form in which plug-ins offer one.

A plug-in is a class under the entry-point group `evalstream.exporters`:

    class AcmeSettings(ExporterSettings):
        url: str

    class AcmeExporter:
        Settings = AcmeSettings

        @classmethod
        @asynccontextmanager
        async def open(cls, settings, context):
            async with aiohttp.ClientSession() as session:
                yield cls(settings, session)

        async def export(self, batch): ...
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from collector.errors import EvalstreamError
from collector.logs.log import Confirm, Log, certain
from collector.otlp.own_items import OwnItems
from collector.section import Section
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from evaluators.cases import Scope
from evaluators.results import Evaluation

logger = logging.getLogger(__name__)


class ExportUnavailable(EvalstreamError):
    """The destination cannot take the batch now. `retry_after` is the wait in seconds it asked for.

    `reason` is a short snake_case name out of a closed set, fit for a metric label.
    """

    def __init__(self, message: str, *, reason: str = "unavailable", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after


def bounded_refusals(claimed: int, sent: int, exporter: str) -> int:
    """How many of the `sent` records a destination refused: its count, between 0 and the number of records."""
    number = min(max(0, claimed), sent)
    if number != claimed:
        logger.warning(
            "exporter %s: %d of %d records are said to be refused; %d count", exporter, claimed, sent, number
        )
    return number


class Exporter(Protocol):
    """Takes evaluations to the outside."""

    async def export(self, batch: Sequence[Evaluation]) -> int | None:
        """Take a batch out; returns how many of it the destination refused for good, None for none of them.

        The others are delivered on return, and the refused ones counted as dropped with their reason.

        The same evaluation may come again after a crash, and batches of different partitions at the same time.

        Raises:
            ExportUnavailable: not now; the caller gives the same batch again.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredEvaluator:
    """An evaluator that a monitor uses: whose evaluations will come.

    `labels` are those that they may have, where these are not pass and fail. `watched_labels` are those whose share is
    watched, each with whether a smaller share is better. `cascade_share` is set where a cascade judges: of the
    cases of which its first judge is sure, the share that the second judges, too. `audit_version` is the version of its
    auditor, if there is one. With `by_segment` alerts are on the mean of each segment, otherwise on that of all scores.
    """

    evaluator: str
    evaluator_version: str
    monitor: str
    scope: Scope = "turn"
    threshold: float | None = None
    lower_is_better: bool = False
    labels: tuple[str, ...] = ()
    watched_labels: Mapping[str, bool] = field(default_factory=dict[str, bool])
    cascade_share: float | None = None
    audit_version: str | None = None
    by_segment: bool = False
    priced: bool = False
    """Whether its judges have prices, so that its cost is known."""
    judged: bool = False
    """Whether it asks a judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportContext:
    """The parts of the service that every exporter receives.

    Spans and log records that `own` has signed are recognised when they come back as traffic. `confirm` waits until
    this process certainly is the one that exports. An exporter that tries again by itself calls it before each attempt:
    while the process was frozen, another process may have taken over. `confirm_feedback` is the same for feedback,
    which another group reads. `judged_spans` is the log that joins spans and evaluations, if one is configured;
    `confirm_spans` is `confirm` of its consumer. `page` is the address under which people reach evalstream's page, if
    it is known. `metrics_socket` is the socket file on which a worker serves its metrics to the process that joins
    them.
    """

    telemetry: Telemetry
    evaluators: tuple[MonitoredEvaluator, ...] = ()
    health: Health | None = None
    own: OwnItems | None = None
    confirm: Confirm = certain
    confirm_feedback: Confirm = certain
    judged_spans: Log | None = None
    confirm_spans: Confirm = certain
    page: str | None = None
    metrics_socket: Path | None = None


@runtime_checkable
class ExporterOfEvaluators(Protocol):
    """An exporter that is notified of another configuration's evaluators while it runs."""

    def take_evaluators(self, evaluators: tuple[MonitoredEvaluator, ...]) -> None:
        """From now on, evaluations by these versions come, and for a while still some by the versions before."""


class ExporterSettings(Section):
    """Settings of an exporter: its section of the configuration file."""


class ExporterPlugin(Protocol):
    """The object that an entry point of the group `evalstream.exporters` names."""

    Settings: ClassVar[type[ExporterSettings]]

    @classmethod
    def open(cls, settings: Any, context: ExportContext) -> AbstractAsyncContextManager[Exporter]:
        """Open an exporter with an instance of `Settings`; it is closed on leaving.

        Raises:
            ConfigError: these settings cannot work here, like a path that cannot be written.
        """
        ...
