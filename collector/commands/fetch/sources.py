"""The sources by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from collector.commands.fetch import jaeger, langfuse, mlflow, phoenix, tempo
from collector.commands.fetch.source import Source

SOURCES: Mapping[str, Source] = MappingProxyType({
    "tempo": tempo.SOURCE,
    "jaeger": jaeger.SOURCE,
    "phoenix": phoenix.SOURCE,
    "langfuse": langfuse.SOURCE,
    "mlflow": mlflow.SOURCE,
})  # fmt: skip
