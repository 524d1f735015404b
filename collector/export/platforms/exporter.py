"""Exporters of platforms: the same for each, but for its settings and its requests.

Requests go out at the platform's rate, again where that may help, and one by one where only some are refused.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import orjson

from collector.backoff import Backoff
from collector.export.acceptance import Refused, answer_to, no_acceptance
from collector.export.exporter import ExportContext, ExportUnavailable, bounded_refusals
from collector.export.platforms.corrections import CorrectedPlatform, CorrectionReading
from collector.export.platforms.platform import Platform, PlatformRequest, PlatformSettings, TraceMissing
from collector.logs.log import Confirm
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import EXPORT_FAILURES
from evaluators.results import Evaluation
from evaluators.wire.http_client import HttpClient, HttpResponse

logger = logging.getLogger(__name__)

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_ABOUT_REQUEST = frozenset({400, 409, 413, 414, 415, 422, 431})  # the same request would be refused again
_LOOK_AGAIN = 2.0
"""Seconds between two attempts to find a trace that the platform does not have yet."""


@dataclass(eq=False, repr=False)
class PlatformSender:
    """Sends requests one after the other; on return each is taken, or lost for a counted reason.

    `clock` gives seconds since the epoch: evaluations whose trace the platform lacks are tried until they are
    `wait_for_trace` seconds old.
    """

    platform: Platform[Any]
    client: HttpClient
    telemetry: Telemetry
    _: KW_ONLY
    backoff: Backoff
    confirm: Confirm
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._settings: PlatformSettings = self.platform.settings
        self._interval = 60.0 / self._settings.requests_per_minute if self._settings.requests_per_minute else 0.0
        self._next_at = 0.0
        self.problem: str | None = None
        """Why requests are not accepted now; None if they are, as far as is known."""

    async def send(self, request: PlatformRequest) -> int:
        """Send a request; returns how many of its evaluations were refused for good."""
        give_up: float | None = None

        async def attempt() -> int:
            nonlocal give_up
            await self.confirm()
            try:
                known = await self._looked_up(request)
                if known is None:
                    return 0
                refused = self.platform.refused(await self._call(known.method, known.path, known))
                return self._dropped("refused", bounded_refusals(refused, len(request.evaluations), self.platform.name))
            except TraceMissing:
                return self._without_trace(request)
            except _Rejection as error:
                if len(request.evaluations) > 1 and (error.is_about_request or error.lacks_trace):
                    return await self._one_by_one(request)
                if error.lacks_trace:
                    return self._without_trace(request)
                now = self.backoff.clock()
                give_up = now + self._settings.give_up_after if give_up is None else give_up
                if error.is_about_request or now >= give_up:
                    return self._dropped(error.reason, len(request.evaluations), error)
                raise

        refused = await self.backoff.repeat(
            attempt, ExportUnavailable, action=f"exporting to {self.platform.name}", on_failure=self._failed
        )
        self.problem = None
        return refused

    async def get(self, path: str) -> bytes:
        """Read something once. Raises ExportUnavailable."""
        return await self._call("GET", path, PlatformRequest(path=path, body=None, evaluations=()))

    async def _one_by_one(self, request: PlatformRequest) -> int:
        """Some of the request cannot be taken: the others are."""
        singles = [single for evaluation in request.evaluations for single in self.platform.requests([evaluation])]
        return sum([await self.send(single) for single in singles])

    def _without_trace(self, request: PlatformRequest) -> int:
        [evaluation] = request.evaluations
        if self.clock() - evaluation.ended_at.timestamp() < self._settings.wait_for_trace:
            raise ExportUnavailable("it does not have the trace yet", reason="no_trace", retry_after=_LOOK_AGAIN)
        return self._dropped("no_trace", 1)

    async def _looked_up(self, request: PlatformRequest) -> PlatformRequest | None:
        path = self.platform.look_up(request)
        if path is None:
            return request
        return self.platform.after_look_up(request, await self._call("GET", path, request))

    async def _call(self, method: str, path: str, request: PlatformRequest) -> bytes:
        await self._rate()
        headers = {name: value.get_secret_value() for name, value in self.platform.headers().items()}
        data = orjson.dumps(request.body) if method != "GET" else None
        signature = self.platform.signature(request, data or b"", self.clock())
        sent = {"Content-Type": request.content_type, **headers, **signature}
        url = self.platform.endpoint.rstrip("/") + path
        answer = await answer_to(self.client, method, url, again=_AGAIN, headers=sent, data=data)
        return self._accepted_content(answer)

    def _accepted_content(self, answer: HttpResponse) -> bytes:
        status = answer.status_code
        if answer.is_success and (why := no_acceptance(answer)) is not None:
            raise _Rejection(status, why, lacks_trace=False)
        if answer.is_success:
            return answer.content
        raise _Rejection(status, lacks_trace=self.platform.lacks_trace(status, answer.content))

    async def _rate(self) -> None:
        now = asyncio.get_running_loop().time()
        wait, self._next_at = self._next_at - now, max(now, self._next_at) + self._interval
        if self._interval and wait > 0:
            await self.backoff.sleep(wait)

    def _dropped(self, reason: str, count: int, error: ExportUnavailable | None = None) -> int:
        if count:
            self.telemetry.drop(f"export_{self.platform.name}", reason, count)
        if error is not None:
            logger.error("exporter %s: %d evaluations dropped: %s", self.platform.name, count, error)
        return count

    def _failed(self, error: ExportUnavailable) -> None:
        self.problem = str(error)
        self.telemetry.counter(EXPORT_FAILURES, self.platform.name, error.reason).inc()


class _Rejection(Refused):
    def __init__(self, status: int, why: str | None = None, *, lacks_trace: bool) -> None:
        super().__init__(status, why, key="key", place="its API is not there")
        self.is_about_request = status in _ABOUT_REQUEST
        self.lacks_trace = lacks_trace


class PlatformExporter:
    """Writes evaluations to a platform. A subclass names its settings and the API that is made from them.

    The API is also given the address of evalstream's page; it raises ConfigError for settings that cannot work.
    """

    Settings: ClassVar[Any] = PlatformSettings
    Api: ClassVar[Callable[[Any, str | None], Platform[Any]]]

    def __init__(self, sender: PlatformSender) -> None:
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
            backoff, confirm = backoff or Backoff(), context.confirm
            yield cls(PlatformSender(platform, client, context.telemetry, backoff=backoff, confirm=confirm))

    @property
    def problem(self) -> str | None:
        """Why the platform does not accept the request in hand; None if it does."""
        return self._sender.problem

    @property
    def corrections(self) -> CorrectionReading | None:
        """How corrections that people make there are read; None if none are."""
        platform, settings = self._sender.platform, self._sender.platform.settings
        if not isinstance(platform, CorrectedPlatform) or settings.corrections is None:
            return None
        return CorrectionReading(platform, self._sender.get, every=settings.corrections, back=settings.corrections_back)

    async def export(self, batch: Sequence[Evaluation]) -> int:
        """Write a batch, except values without a place on the platform; returns how many it refused for good.

        A verdict that several monitors share is one score there.
        """
        verdicts = [evaluation for evaluation in batch if evaluation.shares is None]
        return sum([await self._sender.send(request) for request in self._sender.platform.requests(verdicts)])


def platform_exporter(settings: type[PlatformSettings], api: Callable[[Any, str | None], Platform[Any]]) -> Any:
    """The plug-in that writes evaluations to a platform, by its settings and the API that is made from them."""
    name = settings.__name__.replace("Settings", "Exporter")
    return type(name, (PlatformExporter,), {"Settings": settings, "Api": api})
