"""The questions of one evaluation, their usage and cost, collected so that no evaluator counts tokens.

The attachments of a case, put into every question about it.
"""

import hashlib
from dataclasses import replace
from operator import attrgetter

from evaluators.answers.quote_check import unsupported_quotes
from evaluators.asking.sight import AttachmentView
from evaluators.attacks.read_material import ReadMaterial, ReadMaterials
from evaluators.errors import JudgeError, JudgeReplyInvalid
from evaluators.judge import Judge, Prompt, R, Verdict
from evaluators.judges.wrapper import JudgeWrapper
from evaluators.packs.pack import PackSeat
from evaluators.results import JudgeStamp, Usage

COPIED = "the judge's verdict stands with its reason in the judged material"
"""The message of a failure by a verdict that the judge seems to have copied."""


class Sighted(JudgeWrapper):
    """A judge that is shown a case's attachments, and reads a list of the attachments that it is not shown.

    Questions about cases without attachments, and questions that hold nothing of a case, stay unchanged.
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


class Metered(JudgeWrapper):
    """A judge that adds up the questions asked through it; one for each evaluation."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(judge)
        self._prompts: list[str] = []
        self._verdicts: list[tuple[str, str | None]] = []
        self.costs: list[float | None] = []
        """The cost of each question, in US dollars; None if no price is known."""
        self._materials: list[ReadMaterial] = []
        self.seat = judge if isinstance(judge, PackSeat) else None
        """The evaluator's place in a pack, if it is asked in a pack."""
        self._known = ReadMaterials() if self.seat is None else self.seat.materials
        self.usage = Usage()
        self.has_verdicts_alone = False
        """Whether an answer was cut off in its reason, so that the verdict was asked for again alone."""

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask the judge, and add the cost, also if it gave no answer.

        Raises:
            JudgeError: the judge raised it. JudgeReplyInvalid: the judge repeated a verdict that was planted in the
            material.
        """
        self._prompts.append(prompt.hash)
        material = self._known.of(prompt.material) if prompt.material else None
        if material is not None:
            self._materials.append(material)
        try:
            verdict = await self.inner.ask(prompt, reply, logprobs=logprobs, samples=samples)
        except JudgeError as error:
            self._add(error.usage, error.cost_usd)
            raise
        self._add(verdict.usage, verdict.cost_usd)
        self._verdicts.append((verdict.model, verdict.fingerprint))
        for answer in verdict.answers:
            self.has_verdicts_alone |= answer.alone
            # A decision repeats nothing.
            if material is not None and not answer.decisions and material.holds(answer.reply.model_dump()):
                raise JudgeReplyInvalid(COPIED)
        return verdict

    def _add(self, usage: Usage, cost_usd: float | None) -> None:
        self.usage = self.usage + usage
        if usage.calls or cost_usd is not None:  # it may carry only a part of the price of a pack's requests
            self.costs.append(None if cost_usd is None else cost_usd + 0.0)

    @property
    def injection_signs(self) -> frozenset[str]:
        """Signs that the judged texts spoke to the judge."""
        return frozenset[str]().union(*map(ReadMaterial.signs, self._materials))

    def unsupported_quotes(self, reason: str) -> tuple[str, ...]:
        """Quotes in a reason that do not occur in the shown texts."""
        return unsupported_quotes(reason, map(attrgetter("content"), self._materials))

    @property
    def has_questions(self) -> bool:
        """Whether any question was asked."""
        return bool(self._prompts)

    @property
    def stamp(self) -> JudgeStamp | None:
        """The judge that answered; None if no question was asked. Model and fingerprint come from the last answer, or
        the configured model's name if there was none. The hash is over the fixed part of the question, or over the
        fixed parts of several questions.
        """
        if not self._prompts:
            return None
        model, fingerprint = self._verdicts[-1] if self._verdicts else (self.model, None)
        distinct = sorted(set(self._prompts))  # the same for any number and order of these questions
        text = distinct[0] if len(distinct) == 1 else hashlib.sha256("".join(distinct).encode()).hexdigest()[:16]
        return JudgeStamp(model=model, fingerprint=fingerprint, prompt_hash=text)
