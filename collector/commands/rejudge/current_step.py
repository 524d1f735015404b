"""The step of a command, reported while it lasts: a command that writes nothing looks as if it stood still."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

SAY_EVERY = 30.0
"""Seconds between two lines about a step that lasts; the first comes within twice as many."""


@dataclass(slots=True)
class CurrentStep:
    """The step that a command is in, as in `reading the logs` ("": none that could last), and since when."""

    say: Callable[[str], None]
    doing: str = ""
    since: float = 0.0

    def begin(self, doing: str) -> None:
        """Go on to the next step."""
        self.doing, self.since = doing, monotonic()


@asynccontextmanager
async def report_steps(say: Callable[[str], None]) -> AsyncGenerator[CurrentStep]:
    """Say the steps that last, until this is left."""
    step = CurrentStep(say)
    task = asyncio.create_task(_say_steps(step))
    try:
        yield step
    finally:
        task.cancel()


async def _say_steps(step: CurrentStep) -> None:
    while True:
        await asyncio.sleep(SAY_EVERY)
        if step.doing and (seconds := monotonic() - step.since) >= SAY_EVERY:
            step.say(f"still {step.doing}, for {seconds:.0f} s")
