"""The attachments of a case, put into every question about it."""

from __future__ import annotations

from dataclasses import replace

from evaluators.asking.sight import AttachmentView
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper


class Sighted(JudgeWrapper):
    """A judge that is shown what a case has beside its texts, and reads of what it is not shown.

    Questions about cases without attachments, and those that hold nothing of a case, stay as they are.
    """

    def __init__(self, judge: Judge, view: AttachmentView) -> None:
        super().__init__(judge)
        self._view = view

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask with the attachments."""
        if self._view.listed and not prompt.constant:
            material = {**prompt.material, "attachments": list(self._view.listed)}
            prompt = replace(prompt, material=material, media=self._view.visible)
        return await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
