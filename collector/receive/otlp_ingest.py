"""Appends OTLP requests of any protocol to the spans log.

All receivers of a process share the limits on senders: bytes in memory, CPU time and rates.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from operator import attrgetter
from typing import TypeVar

from collector.admission.fair_limit import FairLimit, Holding
from collector.errors import TooLarge
from collector.logs.log import Log, Record, RecordTooLarge
from collector.otlp.decode import Form, Signal
from collector.otlp.own_items import OwnItems
from collector.receive import feedback_ingest
from collector.receive.access import BearerTokens, OtlpSettings
from collector.receive.parsed_request import ParsedRequest, TurnNoting, parse
from collector.receive.rejection import Rejected
from collector.receive.tenants import UNNAMED, Sender, guaranteed_shares, tenant_key
from collector.records.ready_made import Incoming
from collector.records.shared_records import append_shared
from collector.redact.open_redactor import Redactors
from collector.redact.redactor import Redactor
from collector.telemetry import series
from collector.telemetry.registry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRules:
    """How received content becomes records.

    `own` removes spans and log records that evalstream itself has exported. Media of up to `stored_media` bytes are
    stored. `notes` finds turns that no monitor can select; their pieces get a note and need not be assembled.
    """

    redactors: Redactors = field(default_factory=Redactors)
    own: OwnItems | None = None
    stored_media: int = 0
    feedback: feedback_ingest.FeedbackRules = feedback_ingest.ALL_FEEDBACK
    notes: TurnNoting | None = None

    def redactor_of(self, body: bytes) -> Redactor | None:
        """The redactor for a body from a topic or a file. It removes texts with absurdly many secrets."""
        redactor = self.redactors.everybody
        return redactor.remembering(body=body) if redactor is not None else None

    @property
    def parse(self) -> Callable[..., ParsedRequest]:
        """`parse` by these rules; it takes the other arguments."""
        return partial(parse, own=self.own, stored_media=self.stored_media, notes=self.notes)


_BURST = 10.0
"""A tenant may send at once as many items as its rate allows in this time (s)."""
_LARGE_BODY_BYTES = 256 * 1024
"""A body of at least this size is read in a thread, not on the event loop."""
_LONG_CPU_SECONDS = 0.25
"""A sender has to wait after a body whose reading took longer than this."""
_Parsed = TypeVar("_Parsed")
_VALUE: Callable[[Record], bytes] = attrgetter("value")


class SenderLimits:
    """The limits that all receivers share: rates, CPU time, and the bytes of requests that are not yet durable."""

    def __init__(
        self, receivers: Sequence[OtlpSettings], telemetry: Telemetry, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        tenants = [tenant for settings in receivers for tenant in settings.tenants]
        telemetry.reserve("tenant", UNNAMED, *(tenant.name for tenant in tenants))
        self.guaranteed = guaranteed_shares(tenants)
        self.pending = FairLimit(
            max(settings.max_pending_bytes for settings in receivers),
            "pending bytes",
            # a request may be in memory compressed and uncompressed; a single request always fits
            floor=max(2 * settings.max_body_bytes for settings in receivers),
            guaranteed=self.guaranteed,
            on_change=telemetry.gauge(series.RECEIVE_PENDING_BYTES).inc,
        )
        self.cpu_shares = _CpuShares(clock)
        self.rates = {tenant_key(tenant.name): _Bucket(tenant.rate, clock) for tenant in tenants if tenant.rate}

    def require_rate(self, sender: Sender) -> None:
        """Reject a tenant that has exceeded its rate.

        Raises:
            Rejected: 429, with the time until the tenant is below its rate again.
        """
        bucket = self.rates.get(sender.key)
        if bucket is not None and (wait := bucket.wait()) > 0:
            raise Rejected(
                429, f"tenant {sender.label} sends more than its rate allows", retry_after=wait, reason="rate"
            )

    def count_items(self, sender: Sender, items: int) -> None:
        """Charge a request's items, whose number is known only after reading, to the tenant's rate.

        If they exceed the rate, the request still passes, and the tenant's next one is rejected.
        """
        bucket = self.rates.get(sender.key)
        if bucket is not None:
            bucket.charge(items)


class _Bucket:
    """A token bucket for the items of one tenant. A request is accepted while the level is above 0."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._level = rate * _BURST
        self._refilled_at = clock()

    def wait(self) -> float:
        """Seconds until a request is accepted; 0 if it is accepted now."""
        now = self._clock()
        self._level = min(self._rate * _BURST, self._level + (now - self._refilled_at) * self._rate)
        self._refilled_at = now
        return 0.0 if self._level > 0 else max(-self._level / self._rate, 0.001)

    def charge(self, items: int) -> None:
        self._level -= items


class _CpuShares:
    """Shares the CPU among senders. Large bodies are read in a thread beside the event loop, one at a time.

    If reading a body took long, the next body of the same sender waits for as long, so at least half of the time is
    left for other senders.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits_until: dict[str, float] = {}
        self._large = asyncio.Lock()

    async def take(self, sender: str, size: int, read: Callable[[], _Parsed]) -> _Parsed:
        """Wait until the sender may be served, read a body of `size` bytes with `read`, and return its result."""
        while True:
            if (wait := self._waits_until.get(sender, 0.0) - self._clock()) > 0:
                await asyncio.sleep(wait)
                continue  # another body of this sender may have been read meanwhile
            self._waits_until.pop(sender, None)
            if size < _LARGE_BODY_BYTES:
                return self._read_timed(sender, read)
            async with self._large:
                if sender not in self._waits_until:
                    return await asyncio.to_thread(self._read_timed, sender, read)

    def _read_timed(self, sender: str, read: Callable[[], _Parsed]) -> _Parsed:
        started = time.thread_time()
        try:
            return read()
        finally:
            took = time.thread_time() - started
            if took > _LONG_CPU_SECONDS:
                now = self._clock()
                waiting = {other: until for other, until in self._waits_until.items() if until > now}
                self._waits_until = {**waiting, sender: now + took}


@dataclass(frozen=True, slots=True)
class IngestLogs:
    """The logs of a receiver. Without `turns` it accepts no reference answers, without `labels` no feedback."""

    spans: Log
    turns: Log | None = None
    labels: Log | None = None


@dataclass(eq=False, repr=False)
class OtlpIngest:
    """Appends requests to the spans log within a receiver's limits, and counts them.

    `source` is the receiver's name in counters, `accepted_status` the status of an accepted request. All receivers of
    the process share `limits`. A request is admitted before its body is read, and counts until it is durable.

    Raises:
        ConfigError: the tokens cannot be read.
    """

    source: str
    accepted_status: InitVar[str]
    settings: OtlpSettings
    logs: IngestLogs
    telemetry: Telemetry
    limits: InitVar[SenderLimits | None]
    rules: IngestRules

    def __post_init__(self, accepted_status: str, limits: SenderLimits | None) -> None:
        self.stopping = False
        self._limits = limits or SenderLimits([self.settings], self.telemetry)
        auth, where = self.settings.auth, f"receive.{self.source}"
        self.tokens = BearerTokens(auth, where, on_wrong=self.count_wrong_token) if auth else None
        self._requests = FairLimit(self.settings.max_requests, "requests", guaranteed=self._limits.guaranteed)
        for signal in ("traces", "logs"):  # Prometheus sees no increase in a series that begins at 1
            self.telemetry.counter(series.RECEIVE_REQUESTS, self.source, signal, accepted_status)
            self.telemetry.counter(series.RECEIVE_ITEMS, self.source, signal, "accepted")
            self.telemetry.counter(series.RECEIVE_BYTES, self.source, signal)

    def stop_accepting(self) -> None:
        """Reject new requests from now on; running ones finish."""
        self.stopping = True

    def refuse_if_stopping(self) -> None:
        """Refuse a request that arrives while the receiver stops.

        Raises:
            Rejected: 503, it stops.
        """
        if self.stopping:
            raise Rejected(503, "the receiver is stopping", retry_after=self.settings.retry_after, reason="stopping")

    def admit(self, sender: Sender) -> Holding:
        """Count one more concurrent request of a sender. The request and its bytes count until the `Holding` is left.

        Raises:
            Rejected: 429, the sender exceeds its rate.
            LimitReached: the sender has used its share of the concurrent requests.
        """
        if self._limits.rates:
            self._limits.require_rate(sender)
        return Holding(sender.key, self._requests, self._limits.pending)

    @property
    def most_pending_bytes(self) -> int:
        """The most bytes that the requests of all senders may occupy in memory."""
        return self._limits.pending.limit

    async def ingest(self, body: bytes, signal: Signal, form: Form, sender: Sender, holding: Holding) -> ParsedRequest:
        """Append a whole request to the spans log; it is durable on return.

        Raises:
            BadInput: the request cannot be read, or has too many items.
            LogError: the spans log did not accept the request.
            TimeoutError: the spans log did not answer in time.
        """
        tenant = sender.tenant.name if sender.tenant else ""
        redactor = self.rules.redactors.by_tenant.get(tenant, self.rules.redactors.everybody)
        redactor = None if redactor is None else redactor.remembering(holding.received or len(body))
        most = self.settings.max_items
        read = partial(self.rules.parse, body, signal, form, max_items=most, redactor=redactor, tenant=tenant)
        parsed = await self._limits.cpu_shares.take(sender.key, len(body), read)
        if self._limits.rates:
            self._limits.count_items(sender, parsed.items)
        if parsed.records:
            if parsed.records[0].value is not body:
                holding.add_bytes(sum(map(len, map(_VALUE, parsed.records))))
            async with asyncio.timeout(self.settings.log_deadline):
                await append_shared(self.logs.spans, parsed.records)
        parsed.count(self.telemetry, self.source, len(body), time.time())
        return parsed

    async def ingest_documents(
        self, kind: feedback_ingest.DocumentKind, body: bytes, sender: Sender, holding: Holding
    ) -> feedback_ingest.ParsedDocuments:
        """Append references to the turns log, or feedback to the labels log; they are durable on return.

        Raises:
            Rejected: 404, this receiver has no such log; 403, this sender may not send feedback as an expert.
            BadInput: a document cannot be read, or there are too many; none of them is appended.
            LogError: the log did not accept the documents.
            TimeoutError: the log did not answer in time.
        """
        log = self.logs.turns if kind == "references" else self.logs.labels
        if log is None:
            raise Rejected(404, f"{kind} {'are' if kind == 'references' else 'is'} not accepted here")
        tenant = sender.tenant.name if sender.tenant else ""
        parse_as = partial(feedback_ingest.parse_references, body, log)
        if kind == "feedback":
            parse_as = partial(feedback_ingest.parse_feedback, body, self.rules.feedback)
        redactor = self.rules.redactors.by_tenant.get(tenant, self.rules.redactors.everybody)
        redactor = None if redactor is None else redactor.remembering(holding.received or len(body))
        read = partial(parse_as, tenant=tenant, max_items=self.settings.max_items, redactor=redactor)
        parsed = await self._limits.cpu_shares.take(sender.key, len(body), read)
        self._limits.count_items(sender, parsed.accepted)
        holding.add_bytes(sum(map(len, map(_VALUE, parsed.records))))
        try:
            async with asyncio.timeout(self.settings.log_deadline):
                await log.append(parsed.records)
        except RecordTooLarge:
            unit = "a reference" if kind == "references" else "a piece of feedback"
            raise TooLarge(f"{unit} is larger than the log accepts") from None
        parsed.count(self.telemetry, self.source, len(body))
        return parsed

    def count_rejection(self, rejection: Rejected, sender: Sender | None) -> None:
        """Count a request that was not accepted, by reason and sender; None if the sender is not known."""
        label = sender.label if sender else UNNAMED
        self.telemetry.counter(series.RECEIVE_REJECTED, self.source, rejection.reason, label).inc()

    def count_refused_connection(self) -> None:
        """Count a connection beyond the limit."""
        self.telemetry.counter(series.RECEIVE_REJECTED, self.source, "connections", UNNAMED).inc()
        self.telemetry.counter(series.REFUSED_CONNECTIONS, self.source).inc()

    def count_wrong_token(self) -> None:
        """Count a token that is not valid."""
        self.telemetry.counter(series.WRONG_TOKENS, self.source).inc()

    def count(self, signal: Incoming, status: str, started: float) -> None:
        """Count the answer to a request that arrived at `started`, by the monotonic clock."""
        self.telemetry.counter(series.RECEIVE_REQUESTS, self.source, signal, status).inc()
        self.telemetry.histogram(series.RECEIVE_DURATION, self.source, signal).observe(time.monotonic() - started)
