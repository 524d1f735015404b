"""The metrics of requests to a judge."""

from __future__ import annotations

import time

from collector.telemetry.registry import Telemetry
from collector.telemetry.series import JUDGE_REQUEST_DURATION, JUDGE_REQUESTS, JUDGE_REQUESTS_IN_FLIGHT
from evaluators.errors import EvaluationError
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper


class InstrumentedJudge(JudgeWrapper):
    """A judge whose requests are counted and timed under its name in the configuration."""

    def __init__(self, judge: Judge, name: str, telemetry: Telemetry) -> None:
        super().__init__(judge)
        self._name = name
        self._telemetry = telemetry
        self._in_flight = telemetry.gauge(JUDGE_REQUESTS_IN_FLIGHT, name)
        self._duration = telemetry.histogram(JUDGE_REQUEST_DURATION, name)
        telemetry.counter(JUDGE_REQUESTS, name, "ok")

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask, and count the result: `ok` or the error's type."""
        started = time.monotonic()
        self._in_flight.inc()
        try:
            verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        except EvaluationError as error:
            self._record(error.type, started)
            raise
        finally:
            self._in_flight.dec()
        self._record("ok", started)
        return verdict

    def _record(self, result: str, started: float) -> None:
        self._telemetry.counter(JUDGE_REQUESTS, self._name, result).inc()
        self._duration.observe(time.monotonic() - started)
