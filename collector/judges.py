"""From the configuration to judges: who is asked, how often, and what is done when there is no answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from collector.config.loading import Config
from collector.config.settings import JudgeSettings
from collector.evaluate.definitions import Definitions
from collector.judge_breakers import Breakers
from collector.judge_notices import Manner, Noticing
from collector.measured import MeasuredJudge
from collector.telemetry import JUDGE_CACHE, Telemetry
from evaluators.judge import Judge
from evaluators.judges.cached import Cached
from evaluators.judges.openai import OpenAIJudge
from evaluators.judges.paced import Endpoint, Paced
from evaluators.judges.pacing import Pacing
from evaluators.judges.panel import Panel
from evaluators.judges.remembered import Remembered
from evaluators.judges.retrying import Retrying

logger = logging.getLogger(__name__)

ENDLESS = 1_000_000
"""Attempts at a question: its deadline bounds them."""
TOLD_AGAIN, LOGGED_AGAIN = 60.0, 600.0
"""Seconds after which a command, and the service's log, say again that a judge does not answer."""


@asynccontextmanager
async def open_judges(
    config: Config, definitions: Definitions, telemetry: Telemetry | None = None
) -> AsyncGenerator[Mapping[str, Judge]]:
    """The judges that evaluators name, and their fallbacks, ready to be asked; their connections close on leaving.

    Without `telemetry` it is a command that asks, with somebody who waits for it: questions to an endpoint that is out
    fail instead of waiting for it, and trouble is told on stderr instead of in the log.
    """
    manner = Manner(_say, TOLD_AGAIN, awaited=True) if telemetry is None else _LOGGED
    telemetry = telemetry or Telemetry()
    async with AsyncExitStack() as stack:
        configured = config.settings.judges
        used = {each.judge for each in config.evaluators.values() if each.judge}
        named = {member for judge in used for member in config.settings.members(judge)}
        named |= {fallback for name in named if (fallback := configured[name].fallback)}
        endpoints = _endpoints([configured[name] for name in named])
        judges: dict[str, Judge] = {}
        breakers = Breakers(telemetry, manner)
        for name in sorted(named):
            settings = configured[name]
            endpoint = endpoints[settings.base_url, settings.model]
            asked = await _asked(name, settings, endpoint, telemetry, breakers, manner, stack)
            judge: Judge = Remembered(asked, store=definitions)
            if settings.cache:
                judge = Cached(judge, capacity=settings.cache, count=partial(_count_cached, telemetry, name))
            judges[name] = judge
        for name in used & set(config.settings.juries):
            jury = config.settings.juries[name]
            members = [judges[each] for each in jury.judges]
            judges[name] = Panel(members, combine=jury.combine, quorum=jury.quorum)
        yield judges


def _endpoints(judges: Iterable[JudgeSettings]) -> dict[tuple[str, str], Endpoint]:
    """One for each model at an endpoint, for that is what limits hold for; of several settings the strictest."""
    groups: dict[tuple[str, str], list[JudgeSettings]] = {}
    for each in judges:
        groups.setdefault((each.base_url, each.model), []).append(each)
    return {
        key: Endpoint(
            Pacing(
                min(each.concurrency for each in group),
                requests_per_minute=_least(each.requests_per_minute for each in group),
                tokens_per_minute=_least(each.tokens_per_minute for each in group),
            )
        )
        for key, group in groups.items()
    }


def _say(notice: str) -> None:
    print(f"evalstream: {notice}", file=sys.stderr, flush=True)  # noqa: T201 - stderr is talk


_LOGGED = Manner(logger.warning, LOGGED_AGAIN, awaited=False)


def _count_cached(telemetry: Telemetry, judge: str, result: str) -> None:
    telemetry.counter(JUDGE_CACHE, judge, result).inc()


def _least(limits: Iterable[int | None]) -> int | None:
    return min((each for each in limits if each is not None), default=None)


async def _asked(
    name: str,
    settings: JudgeSettings,
    endpoint: Endpoint,
    telemetry: Telemetry,
    breakers: Breakers,
    manner: Manner,
    stack: AsyncExitStack,
) -> Judge:
    asked = await stack.enter_async_context(
        OpenAIJudge(
            settings.model,
            base_url=settings.base_url,
            api_key=settings.api_key.get_secret_value(),
            timeout=settings.timeout,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            top_logprobs=settings.top_logprobs,
            input_price=settings.usd_per_million_input_tokens,
            output_price=settings.usd_per_million_output_tokens,
            on_headers=endpoint.told,
        )
    )
    # Inside the retries: what waits to ask again holds no place.
    measured = Noticing(MeasuredJudge(asked, name, telemetry), name, settings, manner)
    # The breaker stands inside the pacing: what waited while the endpoint went out does not go out any more.
    paced = Paced(breakers.breaking(name, settings, measured), endpoint)
    return breakers.pausing(name, settings, Retrying(paced, attempts=ENDLESS, deadline=settings.deadline))
