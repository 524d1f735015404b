"""The section `export.spans` of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from collector.durations import Seconds
from collector.export.exporter import ExporterSettings
from collector.logs.kafka_security import KafkaSecuritySettings
from collector.section import Section


class JudgedSpansOtlpSettings(Section):
    """An OTLP/HTTP endpoint for judged spans."""

    endpoint: str = Field(pattern=r"^https?://")
    """The OTLP/HTTP endpoint; /v1/traces is added."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Sent with every request, like Authorization; usually ${env:NAME}."""
    header_files: dict[str, Path] = Field(default_factory=dict)
    """Files with further headers, {Authorization: /run/secrets/otlp}; read again when they change."""
    gzip: bool = True
    """Compress requests."""
    timeout: Seconds = Field(default=10.0, gt=0)
    """Deadline of one request."""
    give_up_after: Seconds = Field(default=3600.0, ge=0)
    """How long a request is tried again that the endpoint refuses with a status like 401 or 500; then its spans are
    dropped and counted. An endpoint that does not answer is waited for."""
    batch_size: int = Field(default=200, ge=1, le=10_000)
    """Most spans in one request."""


class JudgedSpansKafkaSettings(Section):
    """A topic for judged spans, which others read."""

    bootstrap_servers: list[str] = Field(min_length=1)
    """Brokers, as host:port."""
    topic: str = Field(min_length=1)
    """The topic; it must exist."""
    encoding: Literal["otlp_proto", "otlp_json"] = "otlp_proto"
    """How each record has its span, as the Collector's Kafka exporter calls it."""
    security: KafkaSecuritySettings | None = None
    """TLS and login; without it connections are neither encrypted nor authenticated."""


class JudgedSpansSettings(ExporterSettings):
    """The destination of judged spans, and how long they are waited for."""

    otlp: JudgedSpansOtlpSettings | None = None
    """To an OTLP/HTTP endpoint."""
    kafka: JudgedSpansKafkaSettings | None = None
    """To a Kafka topic."""
    remember: Seconds = Field(default=21_600.0, gt=0)
    """How long after a span its evaluations may come; later ones are counted."""
    max_bytes: int = Field(default=128 << 20, ge=1 << 20)
    """Most bytes of remembered spans, packed, per partition; the oldest are forgotten first."""
    explanation: bool = True
    """Write the judge's explanation, which may quote judged text."""
    skipped: bool = False
    """Write skipped evaluations too, without a score."""

    @model_validator(mode="after")
    def _one_destination(self) -> Self:
        if (self.otlp is None) == (self.kafka is None):
            raise ValueError("needs either otlp: {endpoint: ...} or kafka: {bootstrap_servers: [...], topic: ...}")
        return self
