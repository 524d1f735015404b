"""Opik: feedback scores of spans and threads.

A span that came by OpenTelemetry gets a UUID of version 7: the time (ms) of its trace, which Opik alone knows, then the
first ten bytes of the SHA-256 of the span's id. So the span is looked up by the end of its UUID. A score replaces the
one with the same name and author. Source: its server's mapping of OpenTelemetry's ids, and its REST API, `PUT
/v1/private/spans/feedback-scores` and the like.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import orjson
from pydantic import Field, SecretStr

from collector.export.platforms import platform
from collector.export.platforms.corrections import object_of, objects_in
from collector.export.platforms.exporter import platform_exporter
from evaluators.results import Evaluation

_SPANS, _THREADS = "/v1/private/spans/feedback-scores", "/v1/private/traces/threads/feedback-scores"
_MOST = 100
_WITHIN = timedelta(days=7)
"""How long before its evaluation a span may have begun; Opik reads no further back."""


class OpikSettings(platform.PlatformSettings):
    """The section `export.opik`."""

    endpoint: str = Field(default="https://www.comet.com/opik/api", pattern=r"^https?://")
    """Opik's API: http://host:5173/api where you run it yourself."""
    project: str = Field(default="Default Project", min_length=1)
    """The project that has the traces."""
    workspace: str | None = Field(default=None, min_length=1)
    """The workspace, in Comet's cloud."""
    api_key: SecretStr | None = None
    """Comet's API key."""


class Opik(platform.Platform[OpikSettings]):
    """Opik's API."""

    name = "opik"

    def headers(self) -> Mapping[str, SecretStr]:
        """The plain key, and the workspace."""
        settings = self.settings
        known = {} if settings.api_key is None else {"Authorization": settings.api_key}
        return known if settings.workspace is None else {**known, "Comet-Workspace": SecretStr(settings.workspace)}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """One request for each turn, as its span is looked up; conversations that have a thread in batches.

        The score of a conversation without a thread id stands on the span of its last turn.
        """
        threads = [evaluation for evaluation in platform.scored(batch) if platform.session_of(evaluation) is not None]
        for piece in platform.chunks(threads, _MOST):
            scores = [{"thread_id": platform.session_of(evaluation), **self._score(evaluation)} for evaluation in piece]
            yield platform.PlatformRequest(path=_THREADS, method="PUT", body={"scores": scores}, evaluations=piece)
        for evaluation in platform.scored(batch):
            if platform.session_of(evaluation) is None and evaluation.subject.span_id:
                body = {"scores": [self._score(evaluation)]}
                yield platform.PlatformRequest(path=_SPANS, method="PUT", body=body, evaluations=(evaluation,))

    def lacks_trace(self, status: int, answer: bytes) -> bool:
        """A 404 of Opik itself: the project comes with its first trace."""
        return status == 404 and b"not found" in answer.lower() and answer.lstrip()[:1] == b"{"

    def look_up(self, request: platform.PlatformRequest) -> str | None:
        """The project's spans whose id has the end that is known."""
        if request.path == _THREADS:
            return None
        [evaluation] = request.evaluations
        end = id_end(evaluation.subject.span_id or "")
        wanted = [{"field": "id", "operator": "ends_with", "value": end, "type": "string"}]
        query = {
            "project_name": self.settings.project,
            "filters": orjson.dumps(wanted).decode(),
            "from_time": (evaluation.ended_at - _WITHIN).isoformat().replace("+00:00", "Z"),
            "size": "1",
            "truncate": "true",
        }
        return f"/v1/private/spans?{urlencode(query)}"

    def after_look_up(self, request: platform.PlatformRequest, answer: bytes) -> platform.PlatformRequest | None:
        """The score, with Opik's own id of the span."""
        if request.path == _THREADS:
            return request
        [evaluation] = request.evaluations
        span = _span_in(answer, id_end(evaluation.subject.span_id or ""))
        if span is None:
            raise platform.TraceMissing("no span of the project has its id")
        return replace(request, body={"scores": [{"id": span, **self._score(evaluation)}]})

    def _score(self, evaluation: Evaluation) -> dict[str, Any]:
        link = platform.page_link(evaluation, self._page)
        words = [evaluation.explanation if self.settings.explanation else None, link]
        known = {
            "project_name": self.settings.project,
            "name": evaluation.evaluator,
            "value": evaluation.score,
            "category_name": evaluation.label,
            "reason": "\n".join(word for word in words if word) or None,
            "source": "sdk",
        }
        return {name: value for name, value in known.items() if value is not None}


def id_end(span_id: str) -> str:
    """The last 17 characters of the UUID that Opik makes of a span's id (hex): the part that no time changes.

    In front of them stand the time, the version, and 12 further bits of the hash.
    """
    digest = hashlib.sha256(bytes.fromhex(span_id)).digest()[:10]
    tail = (bytes([digest[2] & 0x3F | 0x80]) + digest[3:]).hex()
    return f"{tail[:4]}-{tail[4:]}"


def _span_in(answer: bytes, end: str) -> str | None:
    ids = (span.get("id") for span in objects_in(object_of(answer), "content"))
    return next((id_ for id_ in ids if isinstance(id_, str) and id_.endswith(end)), None)


OpikExporter = platform_exporter(OpikSettings, Opik)
"""Writes feedback scores to Opik."""
