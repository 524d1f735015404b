"""The limits of a model at an endpoint, from the settings of all judges that use it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from collector.config.settings import JudgeSettings
from evaluators.judges.rate_limited import EndpointLimiter, RateLimiter


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """Requests at once, and requests and tokens per minute; None is no limit."""

    concurrency: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @property
    def text(self) -> str:
        """The limits in words."""
        rates = ((self.requests_per_minute, "requests/min"), (self.tokens_per_minute, "tokens/min"))
        return ", ".join([f"{self.concurrency:,} at once", *(f"{rate:,} {unit}" for rate, unit in rates if rate)])

    def limiter(self) -> EndpointLimiter:
        """The limiter that holds requests to these limits."""
        return EndpointLimiter(
            RateLimiter(
                self.concurrency, requests_per_minute=self.requests_per_minute, tokens_per_minute=self.tokens_per_minute
            )
        )


def endpoint_of(judge: JudgeSettings) -> tuple[str, str]:
    """The base URL with the wire format, or the class of a judge of one's own, and the model.

    Providers limit each model by itself, and what takes chats may take no decisions.
    """
    if judge.kind != "openai":
        return judge.kind, judge.model
    return judge.base_url if judge.api == "chat" else f"{judge.base_url} {judge.api}", judge.model


def address_without_secrets(judge: JudgeSettings) -> str:
    """The base URL without what may hold a key."""
    return urlsplit(judge.base_url)._replace(query="", fragment="").geturl()


def limits_by_endpoint(judges: Iterable[JudgeSettings]) -> Mapping[tuple[str, str], EndpointLimits]:
    """The limits of each endpoint; of several settings the strictest."""
    groups: dict[tuple[str, str], list[JudgeSettings]] = {}
    for judge in judges:
        groups.setdefault(endpoint_of(judge), []).append(judge)
    return {
        endpoint: EndpointLimits(
            min(judge.concurrency for judge in group),
            _strictest(judge.requests_per_minute for judge in group),
            _strictest(judge.tokens_per_minute for judge in group),
        )
        for endpoint, group in groups.items()
    }


def _strictest(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
