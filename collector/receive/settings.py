"""Settings of the OTLP receivers: address, authentication, limits."""

from collections.abc import Iterator

from pydantic import Field

from collector.durations import Seconds
from collector.logs.addresses import ListeningHost
from collector.receive.access import SenderAuthSettings, SenderTlsSettings, is_loopback
from collector.receive.tenants import Tenant, guaranteed_shares
from collector.section import Section

_MOST_GUARANTEED = 0.9


class OtlpSettings(Section):
    """The limits of a receiver of OTLP, for both protocols.

    Requests that are always too much are answered with 413 over HTTP and INVALID_ARGUMENT over gRPC, those that are
    too much now with 503 and with RESOURCE_EXHAUSTED and a RetryInfo.
    """

    host: ListeningHost = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(ge=0, le=65535)
    """Port to listen on; 0 takes any free one."""
    max_body_bytes: int = Field(default=4 * 1024**2, ge=1024)
    """Largest request, before and after decompression; beyond: rejected."""
    max_items: int = Field(default=20_000, ge=1)
    """Most spans or log records in one request; beyond: rejected."""
    body_deadline: Seconds = Field(default=10.0, gt=0)
    """Time for a body to arrive; beyond: rejected."""
    log_deadline: Seconds = Field(default=10.0, gt=0)
    """Time for the spans log to store it; beyond: the sender must retry."""
    max_requests: int = Field(default=256, ge=1)
    """Most requests at once; beyond: the sender must retry."""
    max_pending_bytes: int = Field(default=128 * 1024**2, ge=1024)
    """Bytes of requests read but not yet durable; beyond: the sender must retry."""
    max_connections: int = Field(default=1000, ge=1)
    """Open connections; beyond: closed."""
    idle_timeout: Seconds = Field(default=30.0, gt=0)
    """An idle connection, or one slow with its headers, is closed after this long."""
    retry_after: Seconds = Field(default=1.0, ge=0)
    """How long senders that must retry are asked to wait."""
    stop_grace: Seconds = Field(default=10.0, ge=0)
    """Time for running requests to finish at the stop."""
    auth: SenderAuthSettings | None = None
    """Bearer tokens that senders must present."""
    tls: SenderTlsSettings | None = None
    """TLS, and mutual TLS."""
    insecure: bool = False
    """Listen beyond this machine without authentication."""

    @property
    def tenants(self) -> tuple[Tenant, ...]:
        """Every tenant that is named, once for each of its credentials."""
        return (*(self.auth.tenants if self.auth else ()), *(self.tls.tenants if self.tls else ()))

    def _mistakes(self) -> Iterator[str]:
        if sum(guaranteed_shares(self.tenants).values()) > _MOST_GUARANTEED:
            yield f"the shares of all tenants come to more than {_MOST_GUARANTEED}; some must stay for others"
        authentic = self.auth is not None or (self.tls is not None and self.tls.client_ca is not None)
        if not (authentic or self.insecure or is_loopback(self.host)):
            yield (
                f"host {self.host} lets anybody send who reaches it; write auth: {{tokens: [...]}} or "
                "tls: {client_ca: ...}, or insecure: true where the network keeps others out"
            )


class OtlpHttpSettings(OtlpSettings):
    """The OTLP/HTTP receiver."""

    port: int = Field(default=4318, ge=0, le=65535)
    """Port to listen on; 0 takes any free one."""
    origins: list[str] = Field(default_factory=list)
    """Origins of pages that may send from a browser, such as https://app.example.com; '*' means any."""


class OtlpGrpcSettings(OtlpSettings):
    """The OTLP/gRPC receiver. Needs the extra `grpc`."""

    port: int = Field(default=4317, ge=0, le=65535)
    """Port to listen on; 0 takes any free one."""
