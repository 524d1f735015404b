"""W&B Weave: feedback on calls.

A call that came by OpenTelemetry has the span's id in hex as its own; feedback takes an id from the client, which is
the evaluation's as a UUID. Source: its server's `opentelemetry/python_spans.py` and `FeedbackCreateReq`,
`POST /feedback/create`.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field, SecretStr

from collector.export.attributes import conversation_id
from collector.export.platforms.exporter import PlatformExporter
from collector.export.platforms.platform import (
    Platform,
    PlatformRequest,
    PlatformSettings,
    WithoutLookUp,
    annotator_kind,
    metadata_of,
    scored,
)
from evaluators.results import Evaluation


class WeaveSettings(PlatformSettings):
    """The section `export.weave`."""

    endpoint: str = Field(default="https://trace.wandb.ai", pattern=r"^https?://", description="Weave's trace server.")
    project: str = Field(pattern=r"^[^/\s]+/[^/\s]+$", description="The project, as entity/project.")
    api_key: SecretStr = Field(description="W&B's API key, usually ${env:NAME}.")


class Weave(WithoutLookUp):
    """Weave's API."""

    name = "weave"

    def __init__(self, settings: WeaveSettings, page: str | None = None) -> None:
        self._settings = settings
        self._page = page
        self.endpoint = settings.endpoint

    def headers(self) -> Mapping[str, SecretStr]:
        """Basic authentication as the user `api`."""
        pair = f"api:{self._settings.api_key.get_secret_value()}"
        return {"Authorization": SecretStr(f"Basic {base64.b64encode(pair.encode()).decode()}")}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[PlatformRequest]:
        """One request for each; a conversation's is on the call of its last turn."""
        for each in scored(batch):
            if each.subject.span_id:
                yield PlatformRequest(path="/feedback/create", body=self._feedback(each), evaluations=(each,))

    def _feedback(self, evaluation: Evaluation) -> dict[str, Any]:
        known = {
            "score": evaluation.score,
            "label": evaluation.label,
            "passed": evaluation.passed,
            "explanation": evaluation.explanation if self._settings.explanation else None,
            "annotator_kind": annotator_kind(evaluation),
            "conversation_id": conversation_id(evaluation.subject),
            **metadata_of(evaluation, self._page),
        }
        return {
            "id": str(uuid.UUID(evaluation.evaluation_id)),
            "project_id": self._settings.project,
            "weave_ref": f"weave:///{self._settings.project}/call/{evaluation.subject.span_id}",
            "feedback_type": f"evalstream.{evaluation.evaluator}",
            "payload": {name: value for name, value in known.items() if value is not None},
        }


class WeaveExporter(PlatformExporter):
    """Writes feedback to Weave."""

    Settings: ClassVar[type[WeaveSettings]] = WeaveSettings

    @classmethod
    def platform(cls, settings: WeaveSettings, page: str | None) -> Platform:
        """Weave with these settings."""
        return Weave(settings, page)
