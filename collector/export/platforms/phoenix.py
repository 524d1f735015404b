"""Phoenix: annotations of spans, traces and sessions.

Its ids of spans and traces are OpenTelemetry's, in hex; an annotation with the name and identifier of an earlier one of
the same subject replaces it. Source: its OpenAPI schema, `POST /v1/span_annotations` and the like, with `sync`.
"""

from __future__ import annotations

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
    chunks,
    metadata_of,
    scored,
)
from evaluators.results import Evaluation

_MOST = 100


class PhoenixSettings(PlatformSettings):
    """The section `export.phoenix`."""

    endpoint: str = Field(default="http://127.0.0.1:6006", pattern=r"^https?://", description="Phoenix's address.")
    api_key: SecretStr | None = Field(default=None, description="Its API key, where it has authentication.")


class Phoenix(WithoutLookUp):
    """Phoenix's API."""

    name = "phoenix"

    def __init__(self, settings: PhoenixSettings, page: str | None = None) -> None:
        self._settings = settings
        self._page = page
        self.endpoint = settings.endpoint

    def headers(self) -> Mapping[str, SecretStr]:
        """The bearer token, if there is one."""
        key = self._settings.api_key
        return {} if key is None else {"Authorization": SecretStr(f"Bearer {key.get_secret_value()}")}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[PlatformRequest]:
        """Batches by kind of subject."""
        by_kind: dict[str, list[Evaluation]] = {}
        for each in scored(batch):
            kind = _kind(each)
            if kind is not None:
                by_kind.setdefault(kind, []).append(each)
        for kind, some in by_kind.items():
            for piece in chunks(some, _MOST):
                data = [self._annotation(each, kind) for each in piece]
                yield PlatformRequest(path=f"/v1/{kind}_annotations?sync=true", body={"data": data}, evaluations=piece)

    def lacks_trace(self, status: int, answer: bytes) -> bool:
        """A 404 that says of spans, traces or sessions that they do not exist; another one is not Phoenix's."""
        return status == 404 and b"do not exist" in answer

    def _annotation(self, evaluation: Evaluation, kind: str) -> dict[str, Any]:
        subject = evaluation.subject
        ids = {"span": subject.span_id, "trace": subject.trace_id, "session": conversation_id(subject)}
        result = {
            "score": evaluation.score,
            "label": evaluation.label,
            "explanation": evaluation.explanation if self._settings.explanation else None,
        }
        return {
            f"{kind}_id": ids[kind],
            "name": evaluation.evaluator,
            "annotator_kind": annotator_kind(evaluation),
            "result": {name: value for name, value in result.items() if value is not None},
            "metadata": metadata_of(evaluation, self._page),
            "identifier": evaluation.evaluation_id,
        }


def _kind(evaluation: Evaluation) -> str | None:
    subject = evaluation.subject
    if evaluation.scope == "conversation":
        return "session" if conversation_id(subject) else "trace" if subject.trace_id else None
    return "span" if subject.span_id else "trace" if subject.trace_id else None


class PhoenixExporter(PlatformExporter):
    """Writes annotations to Phoenix."""

    Settings: ClassVar[type[PhoenixSettings]] = PhoenixSettings

    @classmethod
    def platform(cls, settings: PhoenixSettings, page: str | None) -> Platform:
        """Phoenix with these settings."""
        return Phoenix(settings, page)
