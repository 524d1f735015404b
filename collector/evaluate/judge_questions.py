"""The questions of an evaluation, put together again from its subject: what the judge was shown. No judge is asked.

They are not stored: the definition and the subject give them again. An evaluator that asks further questions by the
judge's answers shows only its first ones; a judge that read a run reads the same again, as the record says what.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from collector.evaluate.guardrails import RedactedCase
from collector.evaluate.plan import Assignment
from collector.redact.redactor import RedactionFailed
from evaluators.asking.reading import Look, looks_of
from evaluators.cases import Json
from evaluators.errors import JudgeRejected
from evaluators.evaluation import evaluate
from evaluators.judge import Answer, Judge, Prompt, R, Verdict
from evaluators.judges.definition_cache import AnswerStore, DefinitionCache
from evaluators.judges.requests import question_of, text_of
from evaluators.judges.wrapper import JudgeWrapper


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """A question: the fixed part, with the steps that a judge wrote of criteria, and the message with the material."""

    instructions: str
    message: str
    pictures: int


async def judge_questions(
    assignment: Assignment, case: RedactedCase, written: AnswerStore | None, reading: Json = None
) -> Sequence[JudgeQuestion]:
    """The first questions of an evaluation, () where its case cannot be redacted.

    `written` has the steps that judges wrote of criteria. Steps that are not there show as the question for them.
    `reading` are the steps and searches of a run that the judge read.
    """
    recorder = _Recorder(assignment.judge, looks_of(reading))
    try:
        visible = case.visible_to(assignment.evaluator)
    except RedactionFailed:
        return ()
    await evaluate(assignment.evaluator, visible, DefinitionCache(recorder, store=written))
    return tuple(_question(prompt) for prompt in recorder.prompts)


def _question(prompt: Prompt) -> JudgeQuestion:
    first, *others = question_of(prompt).chat
    return JudgeQuestion(text_of(first), "\n\n".join(map(text_of, others)), len(prompt.media))


class _Recorder(JudgeWrapper):
    """Notes what it is asked in place of the judge, and answers nothing but what it read."""

    def __init__(self, judge: Judge, looks: Iterator[Look]) -> None:
        super().__init__(judge)
        self._looks = looks
        self.prompts: list[Prompt] = []

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:  # noqa: ARG002 - the port's signature
        self.prompts.append(prompt)
        look = next(self._looks, None) if issubclass(reply, Look) else None
        if look is None:
            raise JudgeRejected("the question is only shown")
        return Verdict([Answer(cast("R", look), "")], self.model)
