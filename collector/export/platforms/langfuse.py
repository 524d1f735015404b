"""Langfuse: scores of observations, traces and sessions.

Its ids of traces and observations are OpenTelemetry's, in hex. A score with the id of an earlier one replaces it, and
one whose trace comes later waits for it. Source: the types of its SDK, `POST /api/public/scores`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pydantic import Field, SecretStr

from collector.export.platforms import corrections, platform
from collector.export.platforms.exporter import platform_exporter
from collector.records.json import not_none
from collector.wording import as_utc
from evaluators.results import Evaluation, Subject

_PATH = "/api/public/scores"
_MOST = 50


class LangfuseSettings(corrections.CorrectedPlatformSettings):
    """The section `export.langfuse`."""

    endpoint: str = Field(default="https://cloud.langfuse.com", pattern=r"^https?://")
    """Langfuse's address."""
    public_key: str = Field(min_length=1)
    """The project's public key, pk-lf-…."""
    secret_key: SecretStr
    """The project's secret key."""
    environment: str | None = Field(default=None, min_length=1)
    """Langfuse's environment of the scores."""
    labels: bool = True
    """Send a classifier's chosen label as a categorical score `<name>.label`, too."""


class Langfuse(platform.Platform[LangfuseSettings]):
    """Langfuse's API."""

    name = "langfuse"
    asks_by_subject = False

    def headers(self) -> Mapping[str, SecretStr]:
        """Basic authentication by the two keys."""
        return platform.basic(self.settings.public_key, self.settings.secret_key)

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """Lists of scores; conversations are scores of the session, or of the last turn's trace without one.

        One evaluation by itself is sent as single scores: servers that know no lists refuse them, and get these.
        """
        placed = [evaluation for evaluation in platform.scored(batch) if _place(evaluation) is not None]
        for piece in platform.chunks(placed, _MOST):
            scores = [score for evaluation in piece for score in self._scores(evaluation)]
            if len(piece) > 1:
                yield platform.PlatformRequest(path=_PATH, body=scores, evaluations=piece)
            else:
                yield from (platform.PlatformRequest(path=_PATH, body=score, evaluations=piece) for score in scores)

    def refused(self, answer: bytes) -> int:
        """The number of rejected events in a 207."""
        rejected = corrections.object_of(answer).get("rejected")
        return rejected if isinstance(rejected, int) else 0

    def correction_paths(self, since: datetime, subjects: Sequence[Subject]) -> Iterator[str]:
        """The scores that people gave; needs Langfuse's read API of version 3."""
        yield _corrections_path({"fromTimestamp": as_utc(since.timestamp())})

    def corrections_in(self, path: str, answer: bytes) -> corrections.CorrectionPage:
        """Those of a page."""
        parsed = corrections.object_of(answer)
        known = [_correction(each) for each in corrections.objects_in(parsed, "data")]
        cursor = corrections.object_in(parsed, "meta").get("cursor")
        since = dict(parse_qsl(path.partition("?")[2])).get("fromTimestamp", "")
        following = _corrections_path({"fromTimestamp": since, "cursor": cursor}) if isinstance(cursor, str) else None
        return corrections.CorrectionPage([each for each in known if each is not None], following)

    def _scores(self, evaluation: Evaluation) -> Iterator[dict[str, Any]]:
        comment = evaluation.explanation if self.settings.explanation else None
        common = {
            **(_place(evaluation) or {}),
            "metadata": platform.metadata_of(evaluation, self._page),
            "environment": self.settings.environment,
            "timestamp": evaluation.time.isoformat(),  # an update needs the id and this
        }
        value = {"name": evaluation.evaluator, "value": evaluation.score, "dataType": "NUMERIC", "comment": comment}
        yield not_none(id=evaluation.evaluation_id, **common, **value)
        if self.settings.labels and evaluation.label is not None:
            label = {"name": f"{evaluation.evaluator}.label", "value": evaluation.label, "dataType": "CATEGORICAL"}
            yield not_none(id=f"{evaluation.evaluation_id}-label", **common, **label)


def _correction(score: dict[str, Any]) -> dict[str, Any] | None:
    place = corrections.object_in(score, "subject")
    kind, data_type, value = place.get("kind"), score.get("dataType"), score.get("value")
    names = {"trace": "trace_id", "observation": "span_id", "session": "conversation_id"}
    if not isinstance(kind, str) or kind not in names or data_type == "CORRECTION":
        return None  # a score of an experiment, or a text that the application should have answered
    about = {"trace_id": place.get("traceId"), names[kind]: place.get("id")}
    form = "comment" if data_type == "TEXT" else "label" if isinstance(value, str) else "value"
    return {
        "comment": score.get("comment"), form: value, **about,
        "id": score.get("id"), "name": score.get("name"),
        "author": score.get("authorUserId"), "at": score.get("updatedAt"),
    }  # fmt: skip


def _place(evaluation: Evaluation) -> dict[str, str] | None:
    subject = evaluation.subject
    session = platform.session_of(evaluation)
    if session is not None:
        return {"sessionId": session}
    if not subject.trace_id:
        return None
    if evaluation.scope == "conversation" or not subject.span_id:
        return {"traceId": subject.trace_id}
    return {"traceId": subject.trace_id, "observationId": subject.span_id}


def _corrections_path(query: Mapping[str, str]) -> str:
    wanted = {"source": "ANNOTATION", "fields": "details,subject,annotation", "limit": "100", **query}
    return f"/api/public/v3/scores?{urlencode(wanted)}"


LangfuseExporter = platform_exporter(LangfuseSettings, Langfuse)
"""Writes scores to Langfuse."""
