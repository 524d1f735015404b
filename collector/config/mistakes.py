"""Mistakes in the cascades of a configuration, and ports that two listeners would share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from collector.config.settings import Settings
from collector.wording import unknown


def cascade_mistakes(settings: Settings) -> Iterator[str]:
    """One sentence for each mistake."""
    known = sorted({*settings.judges, *settings.juries})
    for name, cascade in settings.cascades.items():
        if name in known:
            yield f"cascades.{name}: a judge or a jury has this name too; rename the cascade"
        for key, judge in (("first", cascade.first), ("then", cascade.then)):
            if judge in settings.cascades:
                yield f"cascades.{name}.{key}: {judge} is a cascade itself; name a judge or a jury"
            elif judge not in known:
                yield f"cascades.{name}.{key}: {unknown('judge', judge, known)}"
        if cascade.first == cascade.then:
            yield f"cascades.{name}.then: is the same as first; name a stronger judge, or write judge: {cascade.first}"


_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not listened on
_SAME = {"localhost": "127.0.0.1"}


def port_mistakes(settings: Settings, exporters: Mapping[str, BaseModel]) -> Iterator[str]:
    """One line for each port that belongs to a listener before it in the file's order: receive, export, page."""
    listeners: list[tuple[str, str, int]] = []
    for where, listener in _listeners(settings, exporters):
        host, port = getattr(listener, "host", None), getattr(listener, "port", None)
        if not isinstance(host, str) or not isinstance(port, int) or port == 0:
            continue
        for other, other_host, other_port in listeners:
            if port == other_port and _overlap(host, other_host):
                yield f"{where}.port: {port} is the port of {other}, too; choose another one"
                break
        listeners.append((where, host, port))


def _listeners(settings: Settings, exporters: Mapping[str, BaseModel]) -> Iterator[tuple[str, Any]]:
    yield "receive.otlp_http", settings.receive.otlp_http
    yield "receive.otlp_grpc", settings.receive.otlp_grpc
    yield from ((f"export.{name}", exporter) for name, exporter in exporters.items())
    yield "page", settings.page


def _overlap(host: str, other: str) -> bool:
    return _SAME.get(host, host) == _SAME.get(other, other) or not _EVERYWHERE.isdisjoint((host, other))
