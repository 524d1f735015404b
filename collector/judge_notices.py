"""What whoever waits for a judge is told while it does not answer: one sentence soon, and then rarely."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from collector.config.settings import JudgeSettings
from evaluators.errors import JudgeError, JudgeUnavailable, JudgeUnreachable
from evaluators.judge import Judge, Prompt, R, Verdict

SOON = 1.0
"""Seconds of trouble after which it is told: what passes faster is nobody's business."""
SILENCE = 30.0
"""Seconds after which it is told that a judge has never answered yet; the client's own start is among them."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How notices are given: to whom, after how many seconds again, and whether somebody waits for the end.

    For whoever waits, a judge that nobody knows and where nobody listens is not tried again: most often its address is
    misspelt.
    """

    say: Callable[[str], None]
    again_after: float
    awaited: bool


class Noticing:
    """A judge around a judge, inside the retries, that tells of its trouble. Notices hold no word of what is judged."""

    def __init__(
        self,
        judge: Judge,
        name: str,
        settings: JudgeSettings,
        manner: Manner,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._judge = judge
        self._name = name
        self._settings = settings
        self._manner = manner
        self._clock = clock
        self._answered = False
        self._since: float | None = None
        self._said: float | None = None

    @property
    def model(self) -> str:
        """The judge's model."""
        return self._judge.model

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask, and tell if there is no answer.

        Raises:
            JudgeError: nobody listens there, nobody ever did, and somebody waits: asking again is of no use.
        """
        began = self._clock()
        alarm = None if self._answered else asyncio.get_running_loop().call_later(SILENCE, self._silent)
        try:
            verdict = await self._judge.ask(prompt, reply, logprobs=logprobs, samples=samples)
        except JudgeUnreachable as error:
            if self._manner.awaited and not self._answered:
                raise self._nobody_there(error) from None
            self._failed(error, began)
            raise
        except JudgeUnavailable as error:
            self._failed(error, began)
            raise
        except JudgeError:
            self._works()
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
        self._works()
        return verdict

    def _works(self) -> None:
        self._answered = True
        self._since = None
        if self._said is not None:
            self._said = None
            self._manner.say(f"judge {self._name} answers now")

    def _failed(self, error: JudgeUnavailable, began: float) -> None:
        self._since = began if self._since is None else self._since
        if max(self._clock() - self._since, error.retry_after or 0.0) < SOON:
            return
        long = f" for up to {self._settings.deadline:g} s" if self._manner.awaited else ""
        self._tell(f"does not answer ({error}); questions are asked again{long}")

    def _nobody_there(self, error: JudgeUnreachable) -> JudgeError:
        remedy = f"start it, or mend judges.{self._name}.base_url"
        self._tell(f"has never answered ({error}), so its evaluations fail at once; {remedy}")
        final = JudgeError(str(error))
        final.type = error.type
        return final

    def _silent(self) -> None:
        if not self._answered:
            limit = f"a request may take {self._settings.timeout:g} s (judges.{self._name}.timeout)"
            self._tell(f"has not answered yet after {SILENCE:g} s; {limit}")

    def _tell(self, what: str) -> None:
        now = self._clock()
        if self._said is None or now - self._said >= self._manner.again_after:
            self._said = now
            where = urlsplit(self._settings.base_url)._replace(query="", fragment="").geturl()
            self._manner.say(f"judge {self._name} at {where} {what}")
