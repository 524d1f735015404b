"""Addresses that may be right and seldom are: a note of `check` each; those that cannot be are mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from collector.config.loading import check
from collector.config.usual_addresses import address_notes

WHOLE: dict[str, Any] = {
    "evaluators": {"refusal": {"kind": "refusal"}},
    "monitors": {"all": {"evaluators": ["refusal"]}},
}
FROM_KAFKA = {"kafka": [{"bootstrap_servers": ["h:9092"], "traces": ["t"]}]}


def endpoint(url: str, **receive: Any) -> dict[str, Any]:
    return {"export": {"otlp": {"endpoint": url}}, "receive": receive or FROM_KAFKA}


def judge(url: str, **keys: Any) -> dict[str, Any]:
    return {"judges": {"main": {"model": "m", "base_url": url, **keys}}}


@pytest.mark.parametrize(
    ("part", "note"),
    [
        (endpoint("http://collector:4317"), "export.otlp.endpoint: 4317 is the usual port of OTLP/gRPC, and this is"),
        (
            {"export": {"spans": {"otlp": {"endpoint": "http://collector:4317"}}}},
            "export.spans.otlp.endpoint: 4317 is the usual port of OTLP/gRPC",
        ),
        ({"receive": {"otlp_http": {"port": 4317}}}, "receive.otlp_http.port: 4317 is the usual port of OTLP/gRPC;"),
        ({"receive": {"otlp_grpc": {"port": 4318}}}, "receive.otlp_grpc.port: 4318 is the usual port of OTLP/HTTP;"),
        (
            endpoint("http://localhost:4318", otlp_http={}),
            "export.otlp.endpoint: http://localhost:4318 is receive.otlp_http of this service; name your Collector",
        ),
        ({"export": {"prometheus": {"port": 9090}}}, "export.prometheus.port: 9090 is the usual port of Prometheus"),
        (
            {"alerts": {"watcher": {"alertmanager": "http://a:9090"}}},
            "alerts.watcher.alertmanager: 9090 is the usual port of Prometheus; Alertmanager's is 9093",
        ),
        (
            {"alerts": {"watcher": {"webhook": "http://a:9093/x"}}},
            "alerts.watcher.webhook: 9093 is the usual port of Alertmanager; write it as",
        ),
        (
            judge("http://localhost:11434"),
            "judges.main.base_url: http://localhost:11434 has no path; most servers have their API at http://localhost:11434/v1",
        ),
    ],
)
def test_a_note(part: dict[str, Any], note: str) -> None:
    (said,) = address_notes(check({**WHOLE, **part}, "c.yaml"))
    assert said.startswith(note)


@pytest.mark.parametrize(
    "part",
    [
        endpoint("http://127.0.0.1:4318"),
        endpoint("http://127.0.0.1:4320", otlp_http={}),
        endpoint("https://collector", otlp_http={}),
        {"receive": {"otlp_http": {}, "otlp_grpc": {}}, "export": {"prometheus": {}}},
        {"alerts": {"watcher": {"alertmanager": "http://a:9093/prefix", "webhook": "https://hooks.example.com/x"}}},
        judge("http://localhost:11434/v1"),
        judge("https://r.openai.azure.com", client_options={"api_version": "2024-10-21"}),
    ],
)
def test_no_note(part: dict[str, Any]) -> None:
    assert list(address_notes(check({**WHOLE, **part}, "c.yaml"))) == []
