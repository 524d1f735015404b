"""Liveness and readiness of this process: the answers of /healthz and /readyz."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from collector.telemetry.registry import Telemetry
from collector.telemetry.series import HEALTH_CHECK

Check = Callable[[], str | None]
"""The present problem in a few words; None if there is none. It answers at once: /readyz waits for it."""

Status = Literal["ok", "degraded", "failing"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check. A `degraded` process still handles all that it receives; a `failing` one does not."""

    status: Status
    detail: str = ""


class Health:
    """The state of one process. It is alive as long as it answers; it is ready once started and until it drains.

    Named checks say what is wrong meanwhile. Only those that are `vital` make it unready: where a judge or an exporter
    is unavailable, what is accepted waits in the log, and no other process could do more.
    """

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry
        self._started = False
        self._draining = False
        self._checks: dict[str, tuple[Check, bool]] = {}
        self.unavailable_judges: Mapping[str, str] = {}
        """Their problems by their names: evaluations wait for them, which changes what another check says."""

    def start(self) -> None:
        """Everything runs."""
        self._started = True

    def drain(self) -> None:
        """No more work is taken."""
        self._draining = True

    def add(self, name: str, check: Check, *, vital: bool) -> None:
        """Ask this, too. `name` is its name in /readyz and in the metrics."""
        self._checks[name] = (check, vital)
        if self._telemetry is not None:
            gauge = self._telemetry.gauge(HEALTH_CHECK, name)
            gauge.set_function(lambda: float(_result(check, vital=False).status == "ok"))

    @property
    def results(self) -> Mapping[str, CheckResult]:
        """The present result of each check, by name."""
        return {name: _result(*check) for name, check in self._checks.items()}

    def takes_work(self, results: Mapping[str, CheckResult]) -> bool:
        """Whether work should be sent here: it has started, does not drain, and no vital check fails."""
        return self._started and not self._draining and all(result.status != "failing" for result in results.values())

    def problems(self, results: Mapping[str, CheckResult]) -> list[str]:
        """The problems, given the results of the checks; none if all is well."""
        if self._draining:
            return ["draining"]
        if not self._started:
            return ["starting"]
        return [f"{name}: {result.detail}" for name, result in results.items() if result.status != "ok"]


def _result(check: Check, vital: bool) -> CheckResult:
    try:
        problem = check()
    except Exception as error:  # noqa: BLE001 - a check that cannot be made takes no work away
        return CheckResult("degraded", f"cannot be checked: {error!r}")
    return CheckResult("ok" if problem is None else "failing" if vital else "degraded", problem or "")
