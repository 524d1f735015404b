"""W&B Weave: feedback on calls.

A call that came by OpenTelemetry has the span's id in hex as its own, and so has a span of the Agents view, where a
conversation has its id. Feedback takes an id from the client, which is the evaluation's as a UUID. Source: its server's
`opentelemetry/python_spans.py` and `FeedbackCreateReq`, `POST /feedback/create`, and the refs of its SDK.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field, SecretStr

from collector.export.attributes import conversation_id
from collector.export.platforms import platform
from collector.export.platforms.exporter import platform_exporter
from evaluators.results import Evaluation


class WeaveSettings(platform.PlatformSettings):
    """The section `export.weave`."""

    endpoint: str = Field(default="https://trace.wandb.ai", pattern=r"^https?://")
    """Weave's trace server."""
    project: str = Field(pattern=r"^[^/\s]+/[^/\s]+$")
    """The project, as entity/project."""
    api_key: SecretStr
    """W&B's API key."""
    view: Literal["calls", "agents"] = "calls"
    """The place of the traces: `calls` for those sent to `/otel/v1/traces`, `agents` for those sent to
    `/agents/otel/v1/traces`, whose conversations are subjects, too."""


class Weave(platform.Platform[WeaveSettings]):
    """Weave's API."""

    name = "weave"

    def headers(self) -> Mapping[str, SecretStr]:
        """Basic authentication as the user `api`."""
        return platform.basic("api", self.settings.api_key)

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """One request for each; a conversation's is on the call of its last turn, where it is none itself."""
        for evaluation in platform.scored(batch):
            if self._place(evaluation) is not None:
                yield platform.PlatformRequest("/feedback/create", self._feedback(evaluation), (evaluation,))

    def _place(self, evaluation: Evaluation) -> str | None:
        span, in_agents = evaluation.subject.span_id, self.settings.view == "agents"
        conversation = platform.session_of(evaluation)
        if in_agents and conversation is not None:
            return f"agent_conversation/{quote(conversation, safe='')}"
        return None if not span else f"{'agent_span' if in_agents else 'call'}/{span}"

    def _feedback(self, evaluation: Evaluation) -> dict[str, Any]:
        known = {
            "score": evaluation.score,
            "label": evaluation.label,
            "passed": evaluation.passed,
            "explanation": evaluation.explanation if self.settings.explanation else None,
            "annotator_kind": platform.annotator_kind(evaluation),
            "conversation_id": conversation_id(evaluation.subject),
            **platform.metadata_of(evaluation, self._page),
        }
        return {
            "id": str(uuid.UUID(evaluation.evaluation_id)),
            "project_id": self.settings.project,
            "weave_ref": f"weave:///{self.settings.project}/{self._place(evaluation)}",
            "feedback_type": f"evalstream.{evaluation.evaluator}",
            "payload": {name: value for name, value in known.items() if value is not None},
        }


WeaveExporter = platform_exporter(WeaveSettings, Weave)
"""Writes feedback to Weave."""
