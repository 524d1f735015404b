"""MLflow 3: assessments of traces.

A trace that came by OpenTelemetry is `tr-` and its id in hex, a span its id in hex. Assessments get ids of the server,
so the trace's are read before: one that has the evaluation's id in its metadata is not made again.
Source: its REST API, `POST /api/3.0/mlflow/traces/{trace_id}/assessments`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, SecretStr

from collector.export.platforms import platform
from collector.export.platforms.exporter import platform_exporter
from evaluators.results import Evaluation


class MlflowSettings(platform.PlatformSettings):
    """The section `export.mlflow`."""

    endpoint: str = Field(default="http://127.0.0.1:5000", pattern=r"^https?://")
    """The tracking server."""
    username: str | None = Field(default=None, min_length=1)
    """For a server with basic authentication."""
    password: SecretStr | None = None
    """Its password."""
    token: SecretStr | None = None
    """A bearer token in place of username and password, as for Databricks."""


class Mlflow(platform.Platform[MlflowSettings]):
    """MLflow's API."""

    name = "mlflow"

    def headers(self) -> Mapping[str, SecretStr]:
        """The token, or name and password, if there are any."""
        settings = self.settings
        if settings.token is not None:
            return {"Authorization": SecretStr(f"Bearer {settings.token.get_secret_value()}")}
        if settings.username is not None and settings.password is not None:
            return platform.basic(settings.username, settings.password)
        return {}

    def requests(self, batch: Sequence[Evaluation]) -> Iterator[platform.PlatformRequest]:
        """One request for each: the API takes no batches. Failures are assessments with an error."""
        for evaluation in batch:
            if evaluation.outcome != "skipped" and evaluation.subject.trace_id:
                body = {"assessment": self._assessment(evaluation)}
                yield platform.PlatformRequest(f"{_trace_path(evaluation)}/assessments", body, (evaluation,))

    def lacks_trace(self, status: int, answer: bytes) -> bool:
        """A 404 with MLflow's own error code."""
        return status == 404 and b"RESOURCE_DOES_NOT_EXIST" in answer

    def look_up(self, request: platform.PlatformRequest) -> str | None:
        """The trace, with its assessments."""
        [evaluation] = request.evaluations
        return _trace_path(evaluation)

    def after_look_up(self, request: platform.PlatformRequest, answer: bytes) -> platform.PlatformRequest | None:
        """None if one of them has the evaluation's id, which is unique."""
        [evaluation] = request.evaluations
        return None if evaluation.evaluation_id.encode() in answer else request

    def _assessment(self, evaluation: Evaluation) -> dict[str, Any]:
        judge = evaluation.judge.model if evaluation.judge else evaluation.evaluator
        of_llm = platform.annotator_kind(evaluation) == "LLM"
        feedback: dict[str, Any] = {"value": evaluation.score}
        if evaluation.error is not None:
            feedback = {"error": {"error_code": evaluation.error.type, "error_message": evaluation.error.message}}
        others = {"evalstream.label": evaluation.label, "mlflow.trace.session": platform.session_of(evaluation)}
        ended = evaluation.ended_at.isoformat().replace("+00:00", "Z")
        metadata = platform.metadata_of(evaluation, self._page, others)
        known = {
            "assessment_name": evaluation.evaluator,
            "trace_id": _trace_id(evaluation),
            "span_id": evaluation.subject.span_id if evaluation.scope == "turn" else None,
            "source": {"source_type": "LLM_JUDGE" if of_llm else "CODE", "source_id": judge},
            "create_time": ended,
            "last_update_time": ended,
            "feedback": feedback,
            "rationale": evaluation.explanation if self.settings.explanation else None,
            "metadata": {name: str(value) for name, value in metadata.items()},
        }
        return {name: value for name, value in known.items() if value is not None}


def _trace_id(evaluation: Evaluation) -> str:
    return f"tr-{evaluation.subject.trace_id}"


def _trace_path(evaluation: Evaluation) -> str:
    return f"/api/3.0/mlflow/traces/{_trace_id(evaluation)}"


MlflowExporter = platform_exporter(MlflowSettings, Mlflow)
"""Writes assessments to MLflow."""
