"""Datadog's LLM Observability: evaluation metrics of spans.

Of spans that came by OpenTelemetry both ids are decimal numbers as text, and the tag `source:otel` says so. A metric
has no id: an evaluation that is sent again after a crash appears twice, with its id as a tag. Source: its page on
OpenTelemetry instrumentation, and `POST /api/intake/llm-obs/v2/eval-metric`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, SecretStr

from collector.export.platforms import platform
from collector.export.platforms.exporter import platform_exporter
from evaluators.results import Evaluation

_MOST = 100
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_]")
_LONGEST_LABEL = 200


class DatadogSettings(platform.PlatformSettings):
    """The section `export.datadog`."""

    site: str = Field(default="datadoghq.com", pattern=r"^[a-z0-9.-]+$")
    """Datadog's site."""
    endpoint: str | None = Field(default=None, pattern=r"^https?://")
    """Another address than https://api.<site>, like a proxy's."""
    api_key: SecretStr
    """Its API key."""
    ml_app: str | None = Field(default=None, min_length=1)
    """Datadog's name of the application; the turn's service if left out."""


class Datadog(platform.Platform[Any]):
    """Datadog's API."""

    name = "datadog"

    def __init__(self, settings: DatadogSettings, page: str | None = None) -> None:
        super().__init__(settings, page)
        self.endpoint = settings.endpoint or f"https://api.{settings.site}"

    def headers(self) -> Mapping[str, SecretStr]:
        """The key."""
        return {"DD-API-KEY": self.settings.api_key}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """Batches of metrics; a conversation's is on the span of its last turn."""
        for piece in platform.chunks(platform.placed(batch), _MOST):
            attributes = {"metrics": [self._metric(evaluation) for evaluation in piece]}
            body = {"data": {"type": "evaluation_metric", "attributes": attributes}}
            yield platform.PlatformRequest(path="/api/intake/llm-obs/v2/eval-metric", body=body, evaluations=piece)

    def _metric(self, evaluation: Evaluation) -> dict[str, Any]:
        subject, service = evaluation.subject, evaluation.attributes.get("service")
        known = {
            "join_on": {"span": {"span_id": _decimal(subject.span_id), "trace_id": _decimal(subject.trace_id)}},
            "ml_app": self.settings.ml_app or str(service or "unknown"),
            "timestamp_ms": round(evaluation.time.timestamp() * 1000),
            "metric_type": "score",
            "label": label_of(evaluation.evaluator),
            "score_value": evaluation.score,
            "assessment": None if evaluation.passed is None else "pass" if evaluation.passed else "fail",
            "reasoning": evaluation.explanation if self.settings.explanation else None,
            "metadata": platform.metadata_of(evaluation, self._page),
            "tags": [
                "source:otel",
                f"evaluation_id:{evaluation.evaluation_id}",
                f"monitor:{evaluation.monitor}",
                f"scope:{evaluation.scope}",
            ],
        }
        return {name: value for name, value in known.items() if value is not None}


def label_of(name: str) -> str:
    """An evaluator's name as Datadog takes it: ASCII letters, digits and underscores, a letter first."""
    plain = _NOT_IN_LABELS.sub("_", name)
    return (plain if plain[:1].isalpha() else f"e_{plain}")[:_LONGEST_LABEL]


def _decimal(hexadecimal: str | None) -> str:
    return str(int(hexadecimal or "0", 16))


DatadogExporter = platform_exporter(DatadogSettings, Datadog)
"""Writes evaluation metrics to Datadog."""
