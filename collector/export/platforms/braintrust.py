"""Braintrust: score spans below the judged span, as its own online scoring writes them.

A trace that came by OpenTelemetry has its id in hex as `root_span_id`, a span its own as `span_id`; the rows have other
ids, which nobody else knows, so nothing can be merged into them. A row with the id of an earlier one replaces it.
Source: the OpenTelemetry part of its SDK, and `POST /v1/project_logs/{project_id}/insert`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic import Field, SecretStr

from collector.export.attributes import conversation_id
from collector.export.platforms import platform
from collector.export.platforms.exporter import platform_exporter
from collector.records.json import not_none
from evaluators.results import Evaluation

_MOST = 100


class BraintrustSettings(platform.PlatformSettings):
    """The section `export.braintrust`."""

    endpoint: str = Field(default="https://api.braintrust.dev", pattern=r"^https?://")
    """Braintrust's API, or your data plane's."""
    project_id: str = Field(min_length=1)
    """The id of the project that has the traces."""
    api_key: SecretStr
    """Its API key."""


class Braintrust(platform.Platform[BraintrustSettings]):
    """Braintrust's API."""

    name = "braintrust"

    def headers(self) -> Mapping[str, SecretStr]:
        """The bearer token."""
        return {"Authorization": SecretStr(f"Bearer {self.settings.api_key.get_secret_value()}")}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """Batches of rows; a conversation's is below the span of its last turn."""
        path = f"/v1/project_logs/{quote(self.settings.project_id, safe='')}/insert"
        for piece in platform.chunks(platform.placed(batch), _MOST):
            body = {"events": [self._row(evaluation) for evaluation in piece]}
            yield platform.PlatformRequest(path=path, body=body, evaluations=piece)

    def _row(self, evaluation: Evaluation) -> dict[str, Any]:
        subject = evaluation.subject
        session = {"evalstream.conversation.id": conversation_id(subject)}
        reason = evaluation.explanation if self.settings.explanation else None
        return {
            "id": evaluation.evaluation_id,
            "span_id": evaluation.evaluation_id,
            "root_span_id": subject.trace_id,
            "span_parents": [subject.span_id],
            "span_attributes": {"name": evaluation.evaluator, "type": "score", "purpose": "scorer"},
            "created": evaluation.time.isoformat(),
            "metrics": {"start": evaluation.started_at.timestamp(), "end": evaluation.ended_at.timestamp()},
            "scores": {evaluation.evaluator: evaluation.score},
            "output": not_none(score=evaluation.score, label=evaluation.label, reason=reason),
            "metadata": platform.metadata_of(evaluation, self._page, session),
        }


BraintrustExporter = platform_exporter(BraintrustSettings, Braintrust)
"""Writes score spans to Braintrust."""
