"""Names of DeepEval, Ragas and Phoenix that people try here first, with the names to use."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

PACKAGE: Mapping[str, str] = {
    "LLMTestCase": "a case is evaluators.Turn(input=…, actual_output=…)",
    "ConversationalTestCase": "a case is evaluators.Conversation(turns=(Turn(…), …))",
    "MLLMTestCase": "a case is evaluators.Turn(…, attachments=(Attachment(…),))",
    "SingleTurnSample": "a case is evaluators.Turn(input=…, actual_output=…)",
    "MultiTurnSample": "a case is evaluators.Conversation(turns=(Turn(…), …))",
    "Golden": "a reference is Turn.expected_output; files of goldens are read by `evalstream score`",
    "EvaluationDataset": "a set of cases is a list, for evaluators.evaluate_many(…); `evalstream score` reads files",
    "LLMTestCaseParams": 'evaluation_params are names of fields: ["input", "actual_output"]',
    "BaseMetric": "derive from evaluators.Evaluator[Turn]",
    "DeepEvalBaseLLM": "derive from evaluators.Judge, or use evaluators.OpenAIJudge(model, base_url=…)",
    "assert_test": "use evaluators.testing.assert_score(case, evaluator, judge)",
    "llm_classify": "use evaluators.Classifier(…) with evaluators.evaluate_many(…)",
}
EVALUATOR: Mapping[str, str] = {
    "measure": "use evaluators.evaluate_sync(evaluator, case, judge)",
    "a_measure": "use await evaluators.evaluate(evaluator, case, judge)",
    "is_successful": "see `passed` of the Evaluation that evaluators.evaluate(…) returns",
    "reason": "see `explanation` of the Evaluation that evaluators.evaluate(…) returns",
    "score": "see `score` of the Evaluation that evaluators.evaluate(…) returns",
    "single_turn_ascore": "use await evaluators.evaluate(evaluator, case, judge)",
    "model": "the judge is an argument of evaluators.evaluate(evaluator, case, judge)",
}
_JUDGE = "give the judge apart: `judge: NAME` in a configuration, evaluate(evaluator, case, judge) in code"
ARGUMENTS: Mapping[str, str] = {
    "model": _JUDGE,
    "llm": _JUDGE,
    "async_mode": "leave it out; evaluate is asynchronous, and evaluate_sync is not",
    "verbose_mode": "leave it out; Evaluation.explanation and .details have what was found",
    "include_reason": 'write reason="before", "after" or "none"',
}

CASE: Mapping[str, str] = {"question": "input", "answer": "actual_output", "response": "actual_output"}
"""Names of fields that are like none of ours."""


def refused_argument(names: frozenset[str]) -> str | None:
    """The advice on the first of these constructor arguments that belongs to another library."""
    return next((f"{name}: {advice}" for name, advice in ARGUMENTS.items() if name in names), None)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this name, or all known names."""
    names = list(known)
    nearest = get_close_matches(name, names, n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"choose from {', '.join(names)}"


def missing(advices: Mapping[str, str], owner: str, name: str) -> str:
    """The message of an AttributeError."""
    advice = advices.get(name)
    return f"{owner} has no attribute {name!r}{f'; {advice}' if advice else ''}"
