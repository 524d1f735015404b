"""Judges and answers for tests: a judge that decides, and an answer whose score token has alternatives."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from evaluators.answers.decided_answers import decided_answer
from evaluators.judge import Answer, Judge, Prompt, R, Token, Verdict
from evaluators.questions import Decision, TypedQuestion
from evaluators.results import Usage
from evaluators.testing import ScriptedAnswer


@dataclass
class DecidingJudge:
    """A judge that answers typed questions with the probabilities that a function gives for each.

    A question whose function gives none is refused. Questions whose answer must be written go to `writer`, if there is
    one. Each question costs 100 input tokens. `questions` are the prompts with typed questions, in order.
    """

    decide: Callable[[TypedQuestion], Mapping[str, float]]
    writer: Judge | None = None
    takes_packs: ClassVar[bool] = True
    decides: ClassVar[bool] = True
    model: str = "deciding"
    questions: list[Prompt] = field(default_factory=list[Prompt])

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Decide, or have it written."""
        if not prompt.groups:
            assert self.writer is not None, "the judge was asked to write"
            return await self.writer.ask(prompt, reply, logprobs=logprobs, samples=samples)
        self.questions.append(prompt)
        every = [question for group in prompt.groups for question in group.questions]
        decisions = [Decision(self.decide(question)) for question in every]
        if len(prompt.groups) > 1:
            usage = Usage(input_tokens=100, calls=1)
            return Verdict([Answer(reply.model_construct(), "", decisions=tuple(decisions))], self.model, None, usage)
        answer = decided_answer(reply, every, decisions)
        return Verdict([answer], self.model, None, Usage(input_tokens=100, calls=1), None)


def verdict_tokens(
    score: str, alternatives: dict[str, float], reason: str = "It is so.", before: str = ""
) -> ScriptedAnswer:
    """An answer whose score token weighed these alternatives, given as probabilities by token text.

    `before` is what the tokeniser puts before the digits in the same token, like a space.
    """
    head = f'{{"reason": "{reason}", "score":'
    head = head if before else head + " "
    chosen = before + score
    tokens = [
        Token(head, 0.0, ((head, 0.0),)),
        Token(
            chosen,
            math.log(alternatives.get(chosen, 1.0)),
            tuple((text, math.log(probability)) for text, probability in alternatives.items()),
        ),
        Token("}", 0.0, (("}", 0.0),)),
    ]
    return ScriptedAnswer("".join(token.text for token in tokens), tokens)
