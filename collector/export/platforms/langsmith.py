"""LangSmith: feedback on runs.

A run that came by OpenTelemetry has as id eight zero bytes and the span's eight, as its SDK's
`langsmith_run_id_from_otel_span_id` says; a feedback with the id of an earlier one replaces it.
Source: its API reference, `POST /feedback`.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from pydantic import Field, SecretStr

from collector.export.attributes import conversation_id
from collector.export.platforms import corrections, platform
from collector.export.platforms.exporter import platform_exporter
from collector.wording import as_utc
from evaluators.results import Evaluation, Subject

_MOST_READ = 100
_PEOPLE, _OURS = ("app",), ("model", "api")
"""Sources of feedback: its pages, and links to them."""
_DECIMALS = 4
"""Decimal places of a score that its API takes; more are refused."""


class LangSmithSettings(corrections.CorrectedPlatformSettings):
    """The section `export.langsmith`."""

    endpoint: str = Field(default="https://api.smith.langchain.com", pattern=r"^https?://")
    """LangSmith's API."""
    api_key: SecretStr
    """Its API key."""
    workspace: str | None = Field(default=None, min_length=1)
    """The workspace's id, for a key of several workspaces."""
    project_id: UUID | None = None
    """The id of the project that has the runs. Newer deployments, as the cloud in the United States, find no run
    without it."""
    corrected_scores: bool = True
    """With `corrections`, read also how people corrected the scores themselves. This takes one request for each hundred
    evaluations of `corrections_back`."""


class LangSmith(platform.Platform[LangSmithSettings]):
    """LangSmith's API."""

    name = "langsmith"
    asks_by_subject = False

    def headers(self) -> Mapping[str, SecretStr]:
        """The key, and the workspace where one is named."""
        workspace = self.settings.workspace
        known = {"x-api-key": self.settings.api_key}
        return known if workspace is None else {**known, "x-tenant-id": SecretStr(workspace)}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """One request for each; a conversation's is on the run of its last turn."""
        for evaluation in platform.scored(batch):
            if evaluation.subject.span_id:
                yield platform.PlatformRequest("/feedback", self._feedback(evaluation), (evaluation,))

    def lacks_trace(self, status: int, answer: bytes) -> bool:
        """A 404 of the feedback itself: the run is not there."""
        return status == 404 and b"un" in answer and b"not found" in answer.lower()

    def correction_paths(self, since: datetime, subjects: Sequence[Subject]) -> Iterator[str]:
        """The feedback that people gave in its pages, and our own, which they may have corrected."""
        yield _corrections_path(_PEOPLE, as_utc(since.timestamp()), 0)
        if self.settings.corrected_scores:
            yield _corrections_path(_OURS, as_utc(since.timestamp()), 0)

    def corrections_in(self, path: str, answer: bytes) -> corrections.CorrectionPage:
        """Those of a page, a hundred at most."""
        feedback = corrections.array_of(answer)
        pairs = parse_qsl(path.partition("?")[2])
        query, sources = dict(pairs), tuple(value for name, value in pairs if name == "source")
        following = _corrections_path(sources, query["min_created_at"], int(query["offset"]) + _MOST_READ)
        known = [_correction(each) if sources == _PEOPLE else _corrected(each) for each in feedback]
        return corrections.CorrectionPage(
            [each for each in known if each is not None], following if len(feedback) == _MOST_READ else None
        )

    def _feedback(self, evaluation: Evaluation) -> dict[str, Any]:
        session = {"evalstream.conversation.id": conversation_id(evaluation.subject)}
        metadata = platform.metadata_of(evaluation, self._page, session)
        known = {
            "id": str(uuid.UUID(evaluation.evaluation_id)),
            "run_id": str(run_id(evaluation.subject.span_id or "")),
            "session_id": None if self.settings.project_id is None else str(self.settings.project_id),
            "key": evaluation.evaluator,
            "score": None if evaluation.score is None else round(evaluation.score, _DECIMALS),
            "value": evaluation.label,
            "comment": evaluation.explanation if self.settings.explanation else None,
            "created_at": evaluation.time.isoformat(),
            "modified_at": evaluation.time.isoformat(),
            "feedback_source": {"type": "model" if evaluation.judge else "api", "metadata": metadata},
        }
        return {name: value for name, value in known.items() if value is not None}


def _corrections_path(sources: Sequence[str], since: str, offset: int) -> str:
    query = {"source": sources, "min_created_at": since, "limit": str(_MOST_READ), "offset": str(offset)}
    return f"/feedback?{urlencode(query, doseq=True)}"


def _correction(feedback: dict[str, Any]) -> dict[str, Any] | None:
    run, source = feedback.get("run_id"), corrections.object_in(feedback, "feedback_source")
    try:
        number = uuid.UUID(str(run)).int
    except ValueError:
        return None
    if number >> 64:
        return None  # a run that did not come by OpenTelemetry
    value = feedback.get("value")
    return {
        "span_id": f"{number:016x}", "id": feedback.get("id"), "name": feedback.get("key"),
        "value": feedback.get("score"), "label": value if isinstance(value, str) else None,
        "comment": feedback.get("comment"),
        "author": source.get("user_name") or source.get("user_id"), "at": feedback.get("modified_at"),
    }  # fmt: skip


def _corrected(feedback: dict[str, Any]) -> dict[str, Any] | None:
    """The score that a person gives instead of ours; the API does not name the person."""
    evaluation = corrections.object_in(corrections.object_in(feedback, "feedback_source"), "metadata").get(
        "evalstream.evaluation.id"
    )
    correction = corrections.object_in(feedback, "correction")
    score, value = correction.get("score"), correction.get("value")
    if not isinstance(evaluation, str) or not (isinstance(score, int | float) or isinstance(value, str)):
        return None
    return {
        "evaluation_id": evaluation,
        "id": feedback.get("id"),
        "name": feedback.get("key"),
        "value": score,
        "label": value if isinstance(value, str) else None,
        "comment": correction.get("comment") or correction.get("explanation"),
        "at": feedback.get("modified_at"),
    }


def run_id(span_id: str) -> uuid.UUID:
    """The run of a span, given its id in hex."""
    return uuid.UUID(hex=span_id.rjust(32, "0"))


LangSmithExporter = platform_exporter(LangSmithSettings, LangSmith)
"""Writes feedback to LangSmith."""
