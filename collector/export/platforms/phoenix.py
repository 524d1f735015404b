"""Phoenix: annotations of spans, traces and sessions.

Its ids of spans and traces are OpenTelemetry's, in hex; an annotation with the name and identifier of an earlier one of
the same subject replaces it. Source: its OpenAPI schema, `POST /v1/span_annotations` and the like, with `sync`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from pydantic import Field, SecretStr

from collector.export.attributes import conversation_id
from collector.export.platforms import platform
from collector.export.platforms.corrections import (
    CorrectedPlatformSettings,
    CorrectionPage,
    object_in,
    object_of,
    objects_in,
)
from collector.export.platforms.exporter import platform_exporter
from collector.records.grouping import group_by
from collector.records.json import not_none
from evaluators.results import Evaluation, Subject

_MOST = 100


class PhoenixSettings(CorrectedPlatformSettings):
    """The section `export.phoenix`."""

    endpoint: str = Field(default="http://127.0.0.1:6006", pattern=r"^https?://")
    """Phoenix's address."""
    api_key: SecretStr | None = None
    """Its API key, where it has authentication."""
    project: str = Field(default="default", min_length=1)
    """The project whose corrections are read."""


class Phoenix(platform.Platform[PhoenixSettings]):
    """Phoenix's API."""

    name = "phoenix"
    asks_by_subject = True

    def headers(self) -> Mapping[str, SecretStr]:
        """The bearer token, if there is one."""
        key = self.settings.api_key
        return {} if key is None else {"Authorization": SecretStr(f"Bearer {key.get_secret_value()}")}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """Batches by kind of subject."""
        for kind, some in group_by(platform.scored(batch), _kind).items():
            for piece in platform.chunks(some, _MOST) if kind else ():
                data = [self._annotation(evaluation, kind) for evaluation in piece]
                yield platform.PlatformRequest(f"/v1/{kind}_annotations?sync=true", {"data": data}, piece)

    def lacks_trace(self, status: int, answer: bytes) -> bool:
        """A 404 that says of spans, traces or sessions that they do not exist; otherwise the address is not
        Phoenix's.
        """
        return status == 404 and b"do not exist" in answer

    def correction_paths(self, since: datetime, subjects: Sequence[Subject]) -> Iterator[str]:
        """The annotations of what was judged: its API lists them by ids alone."""
        known: dict[str, dict[str, None]] = {"span": {}, "trace": {}, "session": {}}
        for subject in subjects:
            for kind, name in (
                {"span": subject.span_id} if subject.turn_id else {"session": conversation_id(subject)}
            ).items():
                if name:
                    known[kind][name] = None
            if subject.trace_id:
                known["trace"][subject.trace_id] = None
        for kind, names in known.items():
            ids = list(names)
            for first in range(0, len(ids), _MOST):
                yield self._corrections_path(kind, [(f"{kind}_ids", each) for each in ids[first : first + _MOST]])

    def corrections_in(self, path: str, answer: bytes) -> CorrectionPage:
        """Those that a person made; the page that follows, if there is one."""
        parsed = object_of(answer)
        location, _, query = path.partition("?")
        kind = location.rpartition("/")[2].removesuffix("_annotations")
        corrections = [_correction(each, kind) for each in objects_in(parsed, "data") if _is_persons(each)]
        cursor = parsed.get("next_cursor")
        following = None
        if isinstance(cursor, str):
            former = [each for each in parse_qsl(query) if each[0] not in ("cursor", "limit")]
            following = self._corrections_path(kind, [*former, ("cursor", cursor)])
        return CorrectionPage(corrections, following)

    def _corrections_path(self, kind: str, query: Sequence[tuple[str, str]]) -> str:
        project = quote(self.settings.project, safe="")
        return f"/v1/projects/{project}/{kind}_annotations?{urlencode([*query, ('limit', '1000')])}"

    def _annotation(self, evaluation: Evaluation, kind: str) -> dict[str, Any]:
        subject = evaluation.subject
        ids = {"span": subject.span_id, "trace": subject.trace_id, "session": conversation_id(subject)}
        explanation = evaluation.explanation if self.settings.explanation else None
        return {
            f"{kind}_id": ids[kind],
            "name": evaluation.evaluator,
            "annotator_kind": platform.annotator_kind(evaluation),
            "result": not_none(score=evaluation.score, label=evaluation.label, explanation=explanation),
            "metadata": platform.metadata_of(evaluation, self._page),
            "identifier": evaluation.evaluation_id,
        }


def _is_persons(annotation: dict[str, Any]) -> bool:
    ours = "evalstream.evaluation.id" in object_in(annotation, "metadata")
    return annotation.get("annotator_kind") == "HUMAN" and not ours


def _correction(annotation: dict[str, Any], kind: str) -> dict[str, Any]:
    result, ids = object_in(annotation, "result"), {"session": "conversation_id"}
    return {
        ids.get(kind, f"{kind}_id"): annotation.get(f"{kind}_id"),
        "id": annotation.get("id"), "name": annotation.get("name"),
        "value": result.get("score"), "label": result.get("label"), "comment": result.get("explanation"),
        "author": annotation.get("user_id"), "at": annotation.get("updated_at"),
    }  # fmt: skip


def _kind(evaluation: Evaluation) -> str:
    subject = evaluation.subject
    otherwise = "trace" if subject.trace_id else ""
    if evaluation.scope == "conversation":
        return "session" if conversation_id(subject) else otherwise
    return "span" if subject.span_id else otherwise


PhoenixExporter = platform_exporter(PhoenixSettings, Phoenix)
"""Writes annotations to Phoenix."""
