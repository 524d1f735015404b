"""The questions that an evaluation asked its judge, built again from its subject. No judge is asked.

Questions are not stored, since the definition and the subject determine them. If an evaluator asks further questions
after the judge's first answers, only its first questions are shown. A judge that read an agent's run reads the same
steps again, because the evaluation's record names them.
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
from evaluators.judges.chats import text_of
from evaluators.judges.definition_cache import AnswerStore, DefinitionCache
from evaluators.judges.requests import question_of
from evaluators.judges.wrapper import JudgeWrapper


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """A question: the fixed part with the steps that a judge derived from criteria, and the message with the case."""

    instructions: str
    message: str
    pictures: int


async def judge_questions(
    assignment: Assignment, case: RedactedCase, written: AnswerStore | None, reading: Json = None
) -> Sequence[JudgeQuestion]:
    """The first questions of an evaluation; () if its case cannot be redacted.

    `written` has the steps that judges derived from criteria. If steps are missing, the question that asks for them is
    shown. `reading` are the steps and searches of an agent's run that the judge read.
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
    """Stands in for the judge: notes each question, and answers only which steps of a run it read."""

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
