"""How the OTLP receivers listen, whom they let in, and how much they take."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collector.durations import Seconds
from collector.receive.access import AuthSettings, TlsSettings, is_loopback


class OtlpSettings(BaseModel):
    """What a receiver of OTLP holds to, by whichever protocol.

    What is too much for ever is answered with 413 over HTTP and INVALID_ARGUMENT over gRPC, what is too much now with
    503 and with RESOURCE_EXHAUSTED and a RetryInfo.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    max_body_bytes: int = Field(
        default=4 * 1024**2, ge=1024, description="Largest request, before and after decompression; beyond: refused."
    )
    max_items: int = Field(
        default=20_000, ge=1, description="Most spans or log records in one request; beyond: refused."
    )
    body_deadline: Seconds = Field(default=10.0, gt=0, description="Time for a body to arrive; beyond: refused.")
    log_deadline: Seconds = Field(
        default=10.0, gt=0, description="Time for the spans log to take it; beyond: told to come again."
    )
    max_requests: int = Field(
        default=256, ge=1, description="Requests being taken in at once; beyond: told to come again."
    )
    max_pending_bytes: int = Field(
        default=128 * 1024**2,
        ge=1024,
        description="Bytes of requests read but not yet durable; beyond: told to come again.",
    )
    max_connections: int = Field(default=1000, ge=1, description="Open connections; beyond: closed.")
    idle_timeout: Seconds = Field(
        default=30.0, gt=0, description="An idle connection, or one slow with its headers, is closed after this long."
    )
    retry_after: Seconds = Field(
        default=1.0, ge=0, description="What senders are asked to wait who are told to come again."
    )
    stop_grace: Seconds = Field(default=10.0, ge=0, description="Time for running requests to end at the stop.")
    auth: AuthSettings | None = Field(default=None, description="Bearer tokens that senders have to show.")
    tls: TlsSettings | None = Field(default=None, description="TLS, and mutual TLS.")
    insecure: bool = Field(default=False, description="Listen beyond this machine without authentication.")

    @model_validator(mode="after")
    def _not_open_to_all(self) -> Self:
        authentic = self.auth is not None or (self.tls is not None and self.tls.client_ca is not None)
        if not (authentic or self.insecure or is_loopback(self.host)):
            raise ValueError(
                f"host {self.host} lets anybody send who reaches it; write auth: {{tokens: [...]}} or "
                "tls: {client_ca: ...}, or insecure: true where the network keeps others out"
            )
        return self


class OtlpHttpSettings(OtlpSettings):
    """The OTLP/HTTP receiver."""

    port: int = Field(default=4318, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")


class OtlpGrpcSettings(OtlpSettings):
    """The OTLP/gRPC receiver. Needs the extra `grpc`."""

    port: int = Field(default=4317, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
