"""Circuit breakers, one per judge endpoint, with their metrics."""

from __future__ import annotations

from functools import partial
from typing import get_args

from collector.config.settings import JudgeSettings
from collector.judging.endpoint_limits import endpoint_of
from collector.judging.outage_reporter import ReportPolicy
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import BREAKER_OPENED, BREAKER_STATE
from evaluators.judges.circuit_breaker import CircuitBreaker, State


class EndpointBreakers:
    """The breakers of a process. Judges with the same base URL, model, key and headers share one.

    Another model or another key at the same address may be in order where this one is refused.
    """

    def __init__(self, telemetry: Telemetry, policy: ReportPolicy) -> None:
        self._telemetry = telemetry
        self._policy = policy
        self._by_endpoint: dict[tuple[object, ...], CircuitBreaker] = {}

    def breaker(self, name: str, settings: JudgeSettings) -> CircuitBreaker:
        """The breaker of a judge's endpoint. The settings of the first judge at an endpoint apply."""
        headers = tuple(sorted((header, value.get_secret_value()) for header, value in settings.headers.items()))
        endpoint = (*endpoint_of(settings), settings.api_key.get_secret_value(), headers)
        breaker = self._by_endpoint.get(endpoint)
        if breaker is None:
            breaker = self._by_endpoint[endpoint] = CircuitBreaker(
                failures=settings.breaker.failures,
                first_wait=settings.breaker.first_wait,
                longest_wait=settings.breaker.longest_wait,
                on_open=lambda: self._opened(name, settings),
            )
        self._telemetry.counter(BREAKER_OPENED, name)
        for state in get_args(State):
            self._telemetry.gauge(BREAKER_STATE, name, state).set_function(partial(_is_in, breaker, state))
        return breaker

    def _opened(self, name: str, settings: JudgeSettings) -> None:
        self._telemetry.counter(BREAKER_OPENED, name).inc()
        queues = not self._policy.awaited and settings.breaker.when_open == "pause"
        then = "requests wait" if queues else "requests fail"
        self._policy.report(f"the circuit breaker of judge {name} is open: {then} until a probe is answered")


def _is_in(breaker: CircuitBreaker, state: State) -> float:
    return float(breaker.state == state)
