"""The port of a platform: how evaluations become requests of its API. Pure; the sender does the rest."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar
from urllib.parse import quote

from pydantic import Field, SecretStr

from collector.durations import Seconds
from collector.errors import EvalstreamError
from collector.export.attributes import conversation_id
from collector.export.exporter import ExporterSettings
from evaluators.cases import Json
from evaluators.results import Evaluation


class PlatformSettings(ExporterSettings):
    """The settings that every platform's section has."""

    timeout: Seconds = Field(default=10.0, gt=0)
    """Deadline of one request."""
    give_up_after: Seconds = Field(default=3600.0, ge=0)
    """How long a request that is refused with a status like 401, 403 or 500 is repeated; then its evaluations are
    dropped and counted. Evaluations wait for a platform that does not answer."""
    wait_for_trace: Seconds = Field(default=60.0, ge=0)
    """If a platform lacks the trace, evaluations that are older than this are dropped, and counted."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Rate limit of the API."""
    explanation: bool = True
    """Send the judge's explanation, which may quote judged text."""


class AddressedSettings(Protocol):
    """The settings of a platform whose address is the key `endpoint`."""

    @property
    def endpoint(self) -> str:
        """The address of its API."""
        ...


S = TypeVar("S", bound=AddressedSettings)


@dataclass(frozen=True, slots=True)
class PlatformRequest:
    """One request: where to, what, and the evaluations in it. `path` begins with a slash."""

    path: str
    body: Json
    evaluations: tuple[Evaluation, ...]
    _: KW_ONLY
    content_type: str = "application/json"
    method: Literal["POST", "PUT"] = "POST"


class TraceMissing(EvalstreamError):
    """The platform does not have the trace or span of an evaluation, as its answer says."""


class Platform(ABC, Generic[S]):
    """A platform's API. `endpoint` is its address without a slash at the end.

    Unless a subclass says otherwise, the evaluation's id prevents a second one, and acceptance of a request is for all
    in it. `page` is the address of evalstream's page.
    """

    name: ClassVar[str]

    def __init__(self, settings: S, page: str | None = None) -> None:
        self.settings = settings
        self._page = page
        self.endpoint = settings.endpoint

    @abstractmethod
    def headers(self) -> Mapping[str, SecretStr]:
        """Headers of every request, which authenticate."""

    @abstractmethod
    def requests(self, batch: Sequence[Evaluation]) -> Iterator[PlatformRequest]:
        """The requests for a batch. Values without a place on the platform are left out."""

    def signature(self, request: PlatformRequest, body: bytes, now: float) -> Mapping[str, str]:
        """Further headers of one request, made from its body and the time of sending (s since the epoch)."""
        return {}

    def refused(self, answer: bytes) -> int:
        """How many evaluations of an accepted request the response says were refused."""
        return 0

    def lacks_trace(self, status: int, answer: bytes) -> bool:
        """Whether an answer says that the platform does not have the trace or span.

        Most never say so: scores wait there for their trace, or stay without.
        """
        return False

    def look_up(self, request: PlatformRequest) -> str | None:
        """The path to GET before the request; None where the evaluation's id and the span's say all."""
        return None

    def after_look_up(self, request: PlatformRequest, answer: bytes) -> PlatformRequest | None:
        """The request to send after the answer to `look_up`; None if the platform has the evaluation already.

        Raises:
            TraceMissing: the platform does not have the trace or span.
        """
        return request


def basic(name: str, secret: SecretStr) -> Mapping[str, SecretStr]:
    """The header of HTTP's Basic authentication."""
    pair = f"{name}:{secret.get_secret_value()}"
    return {"Authorization": SecretStr(f"Basic {base64.b64encode(pair.encode()).decode()}")}


def page_link(evaluation: Evaluation, page: str | None) -> str | None:
    """The address of an evaluation on evalstream's page; None where the page has no address."""
    return None if page is None else f"{page.rstrip('/')}/?evaluation={quote(evaluation.evaluation_id, safe='')}"


def metadata_of(
    evaluation: Evaluation, page: str | None, others: Mapping[str, str | None] = MappingProxyType({})
) -> dict[str, Any]:
    """The origin of a score, for the platforms that keep an object beside it: ids, version, sampling, no texts.

    `page` is the address of evalstream's page, to which `evalstream.url` leads. `others` come after these, if known.
    """
    known: dict[str, Any] = {
        "evalstream.evaluation.id": evaluation.evaluation_id,
        "evalstream.evaluator.version": evaluation.evaluator_version,
        "evalstream.monitor": evaluation.monitor,
        "evalstream.scope": evaluation.scope,
        "evalstream.passed": evaluation.passed,
        "evalstream.method": evaluation.method,
        "evalstream.judge.model": evaluation.judge.model if evaluation.judge else None,
        "evalstream.sampling.probability": float(evaluation.sampling.probability),
        "evalstream.supersedes": list(evaluation.supersedes) or None,
        "evalstream.cost_usd": evaluation.cost_usd,
        "evalstream.url": page_link(evaluation, page),
        **others,
    }
    return {name: value for name, value in known.items() if value is not None}


def annotator_kind(evaluation: Evaluation) -> str:
    """LLM or CODE, as several platforms call who judged."""
    return "CODE" if evaluation.judge is None else "LLM"


def session_of(evaluation: Evaluation) -> str | None:
    """The id of the conversation that was judged, as the traffic had it; None for a turn, or without such an id."""
    return conversation_id(evaluation.subject) if evaluation.scope == "conversation" else None


def scored(batch: Sequence[Evaluation]) -> list[Evaluation]:
    """Those with a score: these platforms can show nothing of the others."""
    return [evaluation for evaluation in batch if evaluation.outcome == "scored" and evaluation.score is not None]


def placed(batch: Sequence[Evaluation]) -> list[Evaluation]:
    """Those with a score whose span is known."""
    return [evaluation for evaluation in scored(batch) if evaluation.subject.trace_id and evaluation.subject.span_id]


def chunks(items: Sequence[Evaluation], size: int) -> Iterator[tuple[Evaluation, ...]]:
    """The items in pieces of at most `size`."""
    yield from (tuple(items[start : start + size]) for start in range(0, len(items), size))
