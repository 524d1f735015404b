"""Exporters of platforms: the same for each, but for its settings and its requests."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

from collector.backoff import Backoff
from collector.export.exporter import ExportContext
from collector.export.platforms.corrections import CorrectedPlatform, CorrectionReading
from collector.export.platforms.platform import Platform, PlatformSettings
from collector.export.platforms.sender import PlatformSender
from evaluators.results import Evaluation
from evaluators.wire.http_client import HttpClient


class PlatformExporter:
    """Writes evaluations to a platform. A subclass names its settings and its API, which is made of them.

    The API is also given the address of evalstream's page; it raises ConfigError for settings that cannot work.
    """

    Settings: ClassVar[Any] = PlatformSettings
    Api: ClassVar[Callable[[Any, str | None], Platform[Any]]]

    def __init__(self, platform: Platform[Any], sender: PlatformSender, settings: Any) -> None:
        self._platform = platform
        self._settings = settings
        self._sender = sender

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Any, context: ExportContext, *, backoff: Backoff | None = None
    ) -> AsyncGenerator[Self]:
        """Open the exporter; the platform need not be there yet.

        Raises:
            ConfigError: the settings cannot work.
        """
        platform = cls.Api(settings, context.page)
        async with HttpClient(timeout=settings.timeout) as client:
            sender = PlatformSender(
                platform,
                client,
                context.telemetry,
                backoff=backoff or Backoff(),
                settings=settings,
                confirm=context.confirm,
            )
            yield cls(platform, sender, settings)

    @property
    def problem(self) -> str | None:
        """Why the platform does not accept the request in hand; None if it does."""
        return self._sender.problem

    @property
    def corrections(self) -> CorrectionReading | None:
        """How corrections that people make there are read; None if none are."""
        platform, settings = self._platform, self._settings
        if not isinstance(platform, CorrectedPlatform) or settings.corrections is None:
            return None
        return CorrectionReading(platform, self._sender.get, every=settings.corrections, back=settings.corrections_back)

    async def export(self, batch: Sequence[Evaluation]) -> int:
        """Write a batch, except values without a place on the platform; returns how many it refused for good.

        A verdict that several monitors share is one score there.
        """
        verdicts = [evaluation for evaluation in batch if evaluation.shares is None]
        return sum([await self._sender.send(request) for request in self._platform.requests(verdicts)])
