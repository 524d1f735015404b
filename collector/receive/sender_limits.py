"""The limits that all OTLP receivers of a process share among their senders: bytes in memory, and rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from collector.admission.fair_limit import FairLimit
from collector.receive.rejection import Rejected
from collector.receive.settings import OtlpSettings
from collector.receive.tenants import UNNAMED, Sender, guaranteed_shares, tenant_key
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_PENDING_BYTES

_BURST = 10.0  # seconds of a rate that may come at once


class SenderLimits:
    """One account of everything that is held in memory for senders, by whichever protocol, until it is durable."""

    def __init__(
        self, receivers: Sequence[OtlpSettings], telemetry: Telemetry, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        tenants = [tenant for settings in receivers for tenant in settings.tenants]
        telemetry.reserve("tenant", UNNAMED, *(tenant.name for tenant in tenants))
        self._guaranteed = guaranteed_shares(tenants)
        self.pending = FairLimit(
            max(settings.max_pending_bytes for settings in receivers),
            "pending bytes",
            floor=max(
                2 * settings.max_body_bytes for settings in receivers
            ),  # compressed and not: one request always fits
            guaranteed=self._guaranteed,
            on_change=telemetry.gauge(RECEIVE_PENDING_BYTES).inc,
        )
        self._rates = {tenant_key(tenant.name): _Bucket(tenant.rate, clock) for tenant in tenants if tenant.rate}

    def places(self, settings: OtlpSettings) -> FairLimit:
        """A new limit on the requests of one receiver."""
        return FairLimit(settings.max_requests, "requests", guaranteed=self._guaranteed)

    def require_rate(self, sender: Sender) -> None:
        """Reject a tenant that has passed its rate.

        Raises:
            Rejected: 429, with the time until it is below it again.
        """
        bucket = self._rates.get(sender.key)
        if bucket is not None and (wait := bucket.wait()) > 0:
            raise Rejected(
                429, f"tenant {sender.label} sends more than its rate allows", retry_after=wait, reason="rate"
            )

    def count_items(self, sender: Sender, items: int) -> None:
        """Charge what a request held, which is known once it is read; the next has to wait for it."""
        bucket = self._rates.get(sender.key)
        if bucket is not None:
            bucket.charge(items)


class _Bucket:
    """A rate, of which some seconds may come at once. A request is accepted while the level is above 0."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._level = rate * _BURST
        self._at = clock()

    def wait(self) -> float:
        """Seconds until a request may come; 0 for at once."""
        now = self._clock()
        self._level = min(self._rate * _BURST, self._level + (now - self._at) * self._rate)
        self._at = now
        return 0.0 if self._level > 0 else max(-self._level / self._rate, 0.001)

    def charge(self, items: int) -> None:
        self._level -= items
