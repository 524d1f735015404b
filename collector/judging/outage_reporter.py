"""Counts the requests to judges, and reports judges that are unavailable or give unusable answers.

There is one sentence when an outage begins, one from time to time, and one when it is over. All judges that use a model
at an endpoint share its limits.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from urllib.parse import urlsplit

from collector.backoff import StateLines
from collector.config.settings import JudgeSettings
from collector.evaluate.failures import remedy_of
from collector.records.grouping import group_by
from collector.telemetry import series
from collector.telemetry.registry import Telemetry
from evaluators import errors, results
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.rate_limited import EndpointLimiter, RateLimiter
from evaluators.judges.wrapper import JudgeWrapper


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """The limits on requests at a time, and on requests and tokens per minute; None is no limit."""

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
    """The base URL with the wire format (or the class of a custom judge), and the model.

    Providers limit each model separately, and an endpoint that takes chats may take no decisions.
    """
    if judge.kind != "openai":
        return judge.kind, judge.model
    return judge.base_url if judge.api == "chat" else f"{judge.base_url} {judge.api}", judge.model


def address_without_secrets(judge: JudgeSettings) -> str:
    """The base URL without the parts that may hold a key."""
    return urlsplit(judge.base_url)._replace(query="", fragment="").geturl()


def limits_by_endpoint(judges: Iterable[JudgeSettings]) -> Mapping[tuple[str, str], EndpointLimits]:
    """The limits of each endpoint: the strictest of its judges' settings."""
    return {
        endpoint: EndpointLimits(
            min(judge.concurrency for judge in group),
            _strictest(judge.requests_per_minute for judge in group),
            _strictest(judge.tokens_per_minute for judge in group),
        )
        for endpoint, group in group_by(judges, endpoint_of).items()
    }


def _strictest(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


class InstrumentedJudge(JudgeWrapper):
    """A judge whose requests are counted and timed under its name in the configuration."""

    def __init__(self, judge: Judge, name: str, telemetry: Telemetry) -> None:
        super().__init__(judge)
        self._name = name
        self._telemetry = telemetry
        self._in_flight = telemetry.gauge(series.JUDGE_REQUESTS_IN_FLIGHT, name)
        self._duration = telemetry.histogram(series.JUDGE_REQUEST_DURATION, name)
        for result in ("ok", *results.JUDGE_ERRORS):  # `increase()` does not see what a new series begins with
            telemetry.counter(series.JUDGE_REQUESTS, name, result)

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask, and count the result: `ok` or the error's type."""
        started, result = time.monotonic(), ""
        self._in_flight.inc()
        try:
            verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
            result = "ok"
        except errors.EvaluationError as error:
            result = error.type
            raise
        finally:
            self._in_flight.dec()
            if result:
                self._telemetry.counter(series.JUDGE_REQUESTS, self._name, result).inc()
                self._duration.observe(time.monotonic() - started)
        return verdict


REPORT_AT = 5
"""Unusable answers in a row after which they are reported: any judge gives one now and then."""


@dataclass(eq=False, repr=False)
class UnusableAnswers:
    """Counts one judge's unusable answers in a row. `subject` names the judge, and `name` is its key under `judges`.

    Reports come at most every `repeat_after` seconds of the policy. They hold no judged text.
    """

    subject: str
    name: str
    policy: "ReportPolicy"
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.in_a_row = 0
        self._lines = StateLines(self.policy.repeat_after, self.clock)
        self._then = (
            "" if self.policy.awaited else "; `evalstream rejudge --what failed` makes failed evaluations again"
        )

    def add(self, error: errors.JudgeReplyInvalid, *, steps: bool = False) -> None:
        """Add an unusable answer; report if there are many in a row, and none were reported lately.

        An unusable answer to a question for evaluation `steps` is reported at once, because all evaluations that need
        the steps fail.
        """
        self.in_a_row += 1
        if (steps or self.in_a_row >= REPORT_AT) and self._lines.is_due(""):
            which = "evaluation steps" if steps else f"last {self.in_a_row:,} answers"
            self.policy.report(
                f"{self.subject} answers, but its {which} are of no use ({error}), "
                f"so these evaluations fail; {remedy_of(error.type, str(error), self.name)}{self._then}"
            )

    def end(self, *, steps: bool) -> None:
        """Note a usable answer. Evaluation `steps` are no score: only the next report no longer has to wait."""
        if steps:
            self._lines.forget("")
            return
        if self._lines.open:
            end = f"gives usable answers again, after {self.in_a_row:,} unusable"
            self.policy.report(f"judge {self.name} {end}{self._then}")
        self._lines.open.clear()
        self.in_a_row = 0


REPORT_AFTER = 1.0
"""Seconds after which an outage is reported; shorter ones do not matter."""
FIRST_ANSWER_WITHIN = 30.0
"""Seconds after which it is reported that a judge has never answered; they include the client's own start."""


@dataclass(frozen=True, slots=True)
class ReportPolicy:
    """The receiver of outage reports, the seconds until a repeated report, and whether a person waits for the end.

    If a person waits, a judge that has never answered and refuses connections is not retried: most often its address
    is misspelt.
    """

    report: Callable[[str], None]
    repeat_after: float
    awaited: bool


@dataclass(eq=False, repr=False)
class OutageReporter(JudgeWrapper):
    """A judge, inside the retries, whose outages are reported. Reports hold no judged text.

    `unavailable` has the judge's name and its problem from the first report of an outage until it answers.
    """

    judge: InitVar[Judge]
    name: str
    settings: JudgeSettings
    policy: ReportPolicy
    clock: Callable[[], float] = time.monotonic
    unavailable: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self, judge: Judge) -> None:
        super().__init__(judge)
        self._answered = False
        self._failing_since: float | None = None
        policy, where = self.policy, f"judge {self.name} {_where(self.settings)}"
        self._lines = StateLines(policy.repeat_after, self.clock)  # one for each cause
        self._unusable = UnusableAnswers(where, self.name, policy, self.clock)

    def expect_recovery(self) -> None:
        """Report the first answer: with an earlier configuration, the judge had an outage."""
        self._lines.open.add("before")

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask, and report an outage, or answers that are of no use.

        Raises:
            JudgeError: the judge is unreachable, has never answered, and a person waits: retrying is of no use.
        """
        started = self.clock()
        loop = asyncio.get_running_loop()
        timer = None if self._answered else loop.call_later(FIRST_ANSWER_WITHIN, self._report_silence)
        try:
            verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        except errors.ENDPOINT_ERRORS as error:
            if isinstance(error, errors.JudgeUnreachable) and self.policy.awaited and not self._answered:
                raise self._final(error) from None
            self._record_failure(error, started)
            raise
        except errors.JudgeError as error:
            self._record_success()  # it answers, so this is no outage
            if isinstance(error, errors.JudgeReplyInvalid):
                self._unusable.add(error, steps=prompt.constant)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        self._record_success()
        if self._unusable.in_a_row:
            self._unusable.end(steps=prompt.constant)
        return verdict

    def _record_success(self) -> None:
        self._answered = True
        self._failing_since = None
        self.unavailable.pop(self.name, None)
        if self._lines.open:
            self._lines.open.clear()
            self.policy.report(f"judge {self.name} is available again")

    def _record_failure(self, error: errors.JudgeError, started: float) -> None:
        self._failing_since = started if self._failing_since is None else self._failing_since
        wait = error.retry_after if isinstance(error, errors.JudgeUnavailable) else None
        if isinstance(error, errors.JudgeDenied) and not (self._answered and self._soon()):
            self._report_denied(error)
        elif not self._soon(wait or 0.0):
            how_long = f" for up to {self.settings.deadline:g} s" if self.policy.awaited else ""
            is_page = not self._answered and "not JSON" in str(error)
            doubt = f"; if that lasts, correct judges.{self.name}.base_url" if is_page else ""
            self._report(f"is unavailable ({error}); requests are retried{how_long}{doubt}", cause=_cause(error))

    def _soon(self, wait: float = 0.0) -> bool:
        """Whether the outage is still too short to be reported."""
        since = self.clock() if self._failing_since is None else self._failing_since
        return max(self.clock() - since, wait) < REPORT_AFTER

    def _report_denied(self, error: errors.JudgeDenied) -> None:
        kind, cause = _cause(error), f"{_cause(error)} {error.sent}"
        also = ", also with the new key" if any(kind in other and other != cause for other in self._lines.open) else ""
        then = "its evaluations fail" if self.policy.awaited else "its evaluations wait until that is mended"
        remedy = _remedy(error, self.name, self.settings)
        self._report(f"refuses every request{also} ({error}); {then}: {remedy}", cause)

    def _final(self, error: errors.JudgeUnreachable) -> errors.JudgeError:
        """The error as one that is not retried."""
        remedy = f"start it, or correct judges.{self.name}.base_url"
        if "CERTIFICATE" in str(error):
            remedy = f"name its authority's certificate as judges.{self.name}.tls.ca, or correct base_url"
        self._report(f"has never answered ({error}), so its evaluations fail at once; {remedy}")
        final = errors.JudgeError(str(error))
        final.type = error.type
        return final

    def _report_silence(self) -> None:
        if not self._answered:
            limit = f"requests time out after {self.settings.timeout:g} s (judges.{self.name}.timeout)"
            self._report(f"has not answered within {FIRST_ANSWER_WITHIN:g} s; {limit}")

    def _report(self, problem: str, cause: str = "") -> None:
        """Report the problem, unless the same cause was reported lately. A different cause is reported, since its
        remedy differs.
        """
        self.unavailable[self.name] = problem
        if self._lines.is_due(cause):
            self.policy.report(f"judge {self.name} {_where(self.settings)} {problem}")


_STATUS = re.compile(r"HTTP \d{3}")


def _cause(error: errors.JudgeError) -> str:
    """The kind of an outage: refused connections, HTTP 401, HTTP 503 …; texts of one kind may differ each time."""
    status = _STATUS.search(str(error))
    return status[0] if status else f"{type(error).__name__} {error.type}"


def _where(settings: JudgeSettings) -> str:
    return f"({settings.kind})" if settings.kind != "openai" else f"at {address_without_secrets(settings)}"


def _remedy(error: errors.JudgeDenied, name: str, settings: JudgeSettings) -> str:
    keys = (key for key in ("api_key", "api_key_file", "header_files", "headers") if key in settings.model_fields_set)
    key = f"judges.{name}.{next(keys, 'api_key')}"
    return {
        "key": f"give a key that is valid there ({key})",
        "credit": f"its account has no credit or quota left; add some, or use another key ({key})",
        "model or address": f"correct judges.{name}.model or judges.{name}.base_url",
        "address": f"correct judges.{name}.base_url",
    }[error.remedy]
