"""What a score is and how it is computed. A library: usable without the collector.

Modules are imported when a name of theirs is first used, so that importing this package costs nothing. The function
that runs an evaluator is `evaluators.run.run`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluators.cases import Conversation, Message, ToolCall, Turn
    from evaluators.conversational.g_eval import ConversationalGEval
    from evaluators.errors import (
        EvaluationError,
        JudgeError,
        JudgeRejected,
        JudgeReplyInvalid,
        JudgeUnavailable,
        JudgeUnreachable,
        NotApplicable,
    )
    from evaluators.evaluator import Evaluator
    from evaluators.judge import Judge, Prompt, Verdict
    from evaluators.judges.limited import Limited
    from evaluators.judges.openai import OpenAIJudge
    from evaluators.judges.panel import Panel
    from evaluators.judges.remembered import Remembered
    from evaluators.judges.retrying import Retrying
    from evaluators.outcome import Evaluation, Failure, Score, Skipped
    from evaluators.output.exact_match import ExactMatch
    from evaluators.output.g_eval import GEval
    from evaluators.run import Result
    from evaluators.scoring import ask_score

__all__ = [
    "Conversation",
    "ConversationalGEval",
    "Evaluation",
    "EvaluationError",
    "Evaluator",
    "ExactMatch",
    "Failure",
    "GEval",
    "Judge",
    "JudgeError",
    "JudgeRejected",
    "JudgeReplyInvalid",
    "JudgeUnavailable",
    "JudgeUnreachable",
    "Limited",
    "Message",
    "NotApplicable",
    "OpenAIJudge",
    "Panel",
    "Prompt",
    "Remembered",
    "Result",
    "Retrying",
    "Score",
    "Skipped",
    "ToolCall",
    "Turn",
    "Verdict",
    "ask_score",
]

_HOMES = {
    "Conversation": "cases",
    "Message": "cases",
    "ToolCall": "cases",
    "Turn": "cases",
    "ConversationalGEval": "conversational.g_eval",
    "EvaluationError": "errors",
    "JudgeError": "errors",
    "JudgeRejected": "errors",
    "JudgeReplyInvalid": "errors",
    "JudgeUnavailable": "errors",
    "JudgeUnreachable": "errors",
    "NotApplicable": "errors",
    "Evaluator": "evaluator",
    "Judge": "judge",
    "Prompt": "judge",
    "Verdict": "judge",
    "Limited": "judges.limited",
    "OpenAIJudge": "judges.openai",
    "Panel": "judges.panel",
    "Remembered": "judges.remembered",
    "Retrying": "judges.retrying",
    "Evaluation": "outcome",
    "Failure": "outcome",
    "Score": "outcome",
    "Skipped": "outcome",
    "ExactMatch": "output.exact_match",
    "GEval": "output.g_eval",
    "Result": "run",
    "ask_score": "scoring",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
