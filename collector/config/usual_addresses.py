"""Addresses that are valid and seldom meant: another protocol's port, an API without its path. `check` notes them."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from collector.config.configured import Config
from collector.config.endpoints import is_classic_azure
from collector.config.settings import Settings
from collector.export.judged_spans.destinations import JudgedSpansSettings
from collector.export.otlp_client import OtlpEndpointSettings
from collector.receive.access import is_loopback

_OTLP_GRPC, _OTLP_HTTP, _PROMETHEUS, _ALERTMANAGER = 4317, 4318, 9090, 9093


def address_notes(config: Config) -> Iterator[str]:
    """Yields a note for each: the key, the usual purpose of the address, and the remedy."""
    settings = config.settings
    for name, judge in settings.judges.items():
        url = judge.base_url
        if judge.kind == "openai" and urlsplit(url).path in ("", "/") and not is_classic_azure(url):
            yield f"judges.{name}.base_url: {url} has no path; most servers have their API at {url.rstrip('/')}/v1"
    for where, port, usual, what in _ports(config):
        if port == usual:
            yield f"{where}: {port} is the usual port of {what}"
    own = settings.receive.otlp_http
    for where, endpoint in _endpoints(config):
        parts = urlsplit(endpoint)
        if own is not None and parts.port == own.port and is_loopback(parts.hostname or ""):
            yield f"{where}: {endpoint} is receive.otlp_http of this service; name your Collector or backend"


def _ports(config: Config) -> Iterator[tuple[str, int | None, int, str]]:
    """Each port with its place, the port that it should not be, and what that usually is."""
    settings: Settings = config.settings
    http, grpc, watcher = settings.receive.otlp_http, settings.receive.otlp_grpc, settings.alerts.watcher
    yield "receive.otlp_http.port", http and http.port, _OTLP_GRPC, "OTLP/gRPC; senders of OTLP/HTTP expect 4318"
    yield "receive.otlp_grpc.port", grpc and grpc.port, _OTLP_HTTP, "OTLP/HTTP; senders of OTLP/gRPC expect 4317"
    for where, endpoint in _endpoints(config):
        yield where, urlsplit(endpoint).port, _OTLP_GRPC, "OTLP/gRPC, and this is sent over HTTP: usually to port 4318"
    metrics = config.prometheus
    yield (
        "export.prometheus.port",
        metrics and metrics.port,
        _PROMETHEUS,
        "Prometheus itself; /metrics is usually on 9464",
    )
    if watcher is not None:
        for key, url, usual, what in (
            ("alertmanager", watcher.alertmanager, _PROMETHEUS, "Prometheus; Alertmanager's is 9093"),
            ("webhook", watcher.webhook, _ALERTMANAGER, "Alertmanager; write it as alerts.watcher.alertmanager"),
        ):
            yield f"alerts.watcher.{key}", urlsplit(url or "").port, usual, what


def _endpoints(config: Config) -> Iterator[tuple[str, str]]:
    for name, exporter in config.exporters.items():
        if isinstance(exporter, OtlpEndpointSettings):
            yield f"export.{name}.endpoint", exporter.endpoint
        elif isinstance(exporter, JudgedSpansSettings) and exporter.otlp is not None:
            yield f"export.{name}.otlp.endpoint", exporter.otlp.endpoint
