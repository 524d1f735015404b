"""One breaker per judge endpoint, out of the configuration, with its metrics."""

from __future__ import annotations

from collector.config.settings import JudgeSettings
from collector.judge_notices import Manner
from collector.telemetry import BREAKER_OPENED, BREAKER_STATE, JUDGE_PAUSED, JUDGE_SHED, Telemetry
from evaluators.judge import Judge
from evaluators.judges.breaker import Breaker, Breaking, Pausing, State

_NUMBERS: dict[State, float] = {"closed": 0.0, "half_open": 1.0, "open": 2.0}


class Breakers:
    """The breakers of a process: judges behind the same base URL share one."""

    def __init__(self, telemetry: Telemetry, manner: Manner) -> None:
        """Questions wait unless somebody waits for the end."""
        self._manner = manner
        self._telemetry = telemetry
        self._by_endpoint: dict[str, Breaker] = {}

    def breaking(self, name: str, settings: JudgeSettings, judge: Judge) -> Judge:
        """The judge, asked only while its endpoint's breaker lets it."""
        return Breaking(judge, self._breaker(name, settings))

    def pausing(self, name: str, settings: JudgeSettings, judge: Judge) -> Judge:
        """The judge, with its questions waiting or given up while the breaker is open."""
        paused = self._telemetry.gauge(JUDGE_PAUSED, name)
        shed = self._telemetry.counter(JUDGE_SHED, name)
        waits = not self._manner.awaited and settings.breaker.when_open == "pause"
        longest = settings.breaker.max_pause if waits else 0.0
        breaker = self._breaker(name, settings)
        return Pausing(judge, breaker, longest=longest, on_wait=paused.inc, on_shed=shed.inc)

    def _breaker(self, name: str, settings: JudgeSettings) -> Breaker:
        breaker = self._by_endpoint.get(settings.base_url)
        if breaker is None:
            breaker = self._by_endpoint[settings.base_url] = Breaker(
                failures=settings.breaker.failures,
                first_wait=settings.breaker.first_wait,
                longest_wait=settings.breaker.longest_wait,
                on_open=lambda: self._opened(name),
            )
        self._telemetry.counter(BREAKER_OPENED, name)
        self._telemetry.gauge(BREAKER_STATE, name).set_function(lambda: _NUMBERS[breaker.state])
        return breaker

    def _opened(self, name: str) -> None:
        self._telemetry.counter(BREAKER_OPENED, name).inc()
        until = "questions fail at once until it answers" if self._manner.awaited else "it is probed now and then"
        self._manner.say(f"the endpoint of judge {name} does not answer and is left alone: {until}")
