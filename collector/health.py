"""Whether this process lives and whether work should be sent to it: what /healthz and /readyz answer."""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[], str | None]
"""What is wrong now, in a few words; None if nothing is."""


class Health:
    """The state of one process. It is alive as long as it answers; it is ready once started and until it drains."""

    def __init__(self) -> None:
        self._started = False
        self._draining = False
        self._checks: list[Check] = []

    def start(self) -> None:
        """Everything runs."""
        self._started = True

    def drain(self) -> None:
        """No more work is taken."""
        self._draining = True

    def add(self, check: Check) -> None:
        """Ask this, too, before saying that the process is ready."""
        self._checks.append(check)

    @property
    def problems(self) -> list[str]:
        """Why no work should be sent here; nothing if the process is ready."""
        if self._draining:
            return ["draining"]
        if not self._started:
            return ["starting"]
        return [problem for check in self._checks if (problem := check()) is not None]
