"""The layers around a judge, as a list: a question passes the layers in the order of the list.

`open_judges` wraps the judge that sends the requests in these layers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.config.settings import JudgeSettings
from collector.judging.outage_reporter import InstrumentedJudge, OutageReporter, ReportPolicy
from collector.logs.log import Confirm, certain
from collector.telemetry import series
from collector.telemetry.registry import Telemetry
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.answer_cache import AnswerCache
from evaluators.judges.audited import Audited
from evaluators.judges.circuit_breaker import CircuitBreaker, CircuitBreakerJudge, QueueWhileOpen
from evaluators.judges.definition_cache import AnswerStore, DefinitionCache
from evaluators.judges.divided import DividedJudge
from evaluators.judges.rate_limited import EndpointLimiter, RateLimited
from evaluators.judges.retrying import Retrying
from evaluators.judges.shared_prefix import SharedPrefix
from evaluators.judges.wrapper import JudgeWrapper, with_members


class ConfirmedJudge(JudgeWrapper):
    """A judge that waits for `confirm` before each question.

    This layer is close to the request, after every layer in which a question may wait: if the process was frozen during
    such a wait, another process may have asked the same question.
    """

    def __init__(self, judge: Judge, confirm: Confirm) -> None:
        super().__init__(judge)
        self._confirm = confirm

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Wait for the confirmation, then ask."""
        await self._confirm()
        return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)


UNLIMITED_ATTEMPTS = 1_000_000
"""Practically no limit: only the deadline of a question limits its attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerContext:
    """The parts that one judge's layers use. Judges of one endpoint share `limiter`; with the same key and
    headers they share `breaker`, too.

    `unavailable` maps the judges that are unavailable now to their problems; `was_unavailable`: by the configuration
    before, this one was. `confirm` waits until this process
    certainly owns its partitions.
    """

    name: str
    settings: JudgeSettings
    telemetry: Telemetry
    policy: ReportPolicy
    definitions: AnswerStore
    limiter: EndpointLimiter
    breaker: CircuitBreaker
    unavailable: dict[str, str]
    confirm: Confirm
    was_unavailable: bool


Layer = Callable[[Judge, LayerContext], Judge]
"""Wraps a judge."""


def layers_of(settings: JudgeSettings) -> Sequence[Layer]:
    """The layers of a judge, from the outermost, which gets the question, to the innermost, next to the request."""
    return [
        *([_cache_answers] if settings.cache_size else []),
        _cache_definitions,
        *([lambda judge, _: SharedPrefix(judge, longest=settings.timeout)] if settings.subject_first else []),
        _queue_while_open,
        # The rate limit is inside the retries: a question that waits for its next attempt holds no slot.
        _retry,
        # The breaker is inside the rate limit, so a question that waited for a slot while the breaker opened is not
        # sent.
        lambda judge, context: RateLimited(judge, context.limiter),
        lambda judge, context: CircuitBreakerJudge(judge, context.breaker),
        lambda judge, context: judge if context.confirm is certain else ConfirmedJudge(judge, context.confirm),
        _report_outages,
        _instrument,
    ]


def wrapped(judge: Judge, context: LayerContext) -> Judge:
    """The judge with its layers around it."""
    for layer in reversed(layers_of(context.settings)):
        judge = layer(judge, context)
    return judge


def wrapped_for_batches(judge: Judge, context: LayerContext) -> Judge:
    """The judge with the layers for questions that go into a batch: without those that act on single requests."""
    # Innermost first.
    for layer in (_instrument, _cache_definitions, *([_cache_answers] if context.settings.cache_size else [])):
        judge = layer(judge, context)
    return judge


def without_answer_cache(judge: Judge) -> Judge:
    """The judge without its answer cache, so that every question is asked; in a jury or cascade, no member has one."""
    return with_members(judge, _behind_cache)


def _behind_cache(judge: Judge) -> Judge:
    if isinstance(judge, DividedJudge):
        return DividedJudge(_behind_cache(judge.extract), _behind_cache(judge.decide))
    if isinstance(judge, Audited):
        return without_answer_cache(judge.judge)
    return judge.inner if isinstance(judge, AnswerCache) else judge


def _cache_answers(judge: Judge, context: LayerContext) -> Judge:
    def count(result: str) -> None:
        context.telemetry.counter(series.JUDGE_CACHE_REQUESTS, context.name, result).inc()

    return AnswerCache(judge, capacity=context.settings.cache_size, count=count)


def _cache_definitions(judge: Judge, context: LayerContext) -> Judge:
    return DefinitionCache(judge, store=context.definitions)


def _queue_while_open(judge: Judge, context: LayerContext) -> Judge:
    """Let questions wait while the endpoint is unavailable. If a person waits for results, questions fail instead."""
    breaker = context.settings.breaker
    return QueueWhileOpen(
        judge,
        context.breaker,
        longest=breaker.max_pause if not context.policy.awaited and breaker.when_open == "pause" else 0.0,
        on_wait=context.telemetry.gauge(series.JUDGE_PAUSED_REQUESTS, context.name).inc,
        on_shed=context.telemetry.counter(series.JUDGE_ABANDONED_REQUESTS, context.name).inc,
    )


def _retry(judge: Judge, context: LayerContext) -> Judge:
    return Retrying(
        judge,
        attempts=UNLIMITED_ATTEMPTS,
        deadline=context.settings.deadline,
        denied=not context.policy.awaited,  # in the service, questions wait until an operator corrects the key
    )


def _report_outages(judge: Judge, context: LayerContext) -> Judge:
    reporter = OutageReporter(judge, context.name, context.settings, context.policy, unavailable=context.unavailable)
    if context.was_unavailable:
        reporter.expect_recovery()
    return reporter


def _instrument(judge: Judge, context: LayerContext) -> Judge:
    return InstrumentedJudge(judge, context.name, context.telemetry)
