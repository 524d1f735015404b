"""Scores of turns and conversations, and how they are computed. A library: usable without the collector.

Modules are imported when a name of theirs is first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "AgentHandover": "turn.agent_handover",
    "AnswerCache": "judges.answer_cache",
    "AnswerLanguage": "turn.answer_language",
    "AnswerRelevancy": "turn.answer_relevancy",
    "ArgumentGrounding": "turn.argument_grounding",
    "ArgumentSchema": "turn.argument_schema",
    "Attachment": "cases",
    "AttackResistance": "turn.attack_resistance",
    "AttackSigns": "turn.attack_signs",
    "Bias": "turn.bias",
    "Cascade": "judges.cascade",
    "CitationSupport": "turn.citation_support",
    "Citations": "turn.citations",
    "Classifier": "turn.classifier",
    "Completeness": "conversation.completeness",
    "Composite": "turn.composite",
    "Contains": "turn.contains",
    "ContextRecall": "turn.context_recall",
    "ContextualRelevancy": "turn.contextual_relevancy",
    "Conversation": "cases",
    "ConversationOutcome": "conversation.outcome",
    "ConversationalClassifier": "conversation.classifier",
    "ConversationalComposite": "conversation.composite",
    "ConversationalGEval": "conversation.g_eval",
    "ConversationalPrompt": "conversation.prompt",
    "DecisionJudge": "judges.decision_judge",
    "DefinitionCache": "judges.definition_cache",
    "DividedJudge": "judges.divided",
    "EmbeddingJudge": "judges.embeddings",
    "Evaluation": "results",
    "EvaluationError": "errors",
    "Evaluator": "evaluator",
    "ExactMatch": "turn.exact_match",
    "ExternalOutcome": "turn.outcome",
    "FactualCorrectness": "turn.factual_correctness",
    "Failure": "results",
    "Faithfulness": "turn.faithfulness",
    "Feedback": "cases",
    "Frustration": "conversation.frustration",
    "GEval": "turn.g_eval",
    "GoalAccuracy": "conversation.goal_accuracy",
    "Hallucination": "turn.hallucination",
    "InstructionFollowing": "turn.instruction_following",
    "JsonSchema": "turn.json_schema",
    "JsonSimilarity": "turn.json_similarity",
    "Judge": "judge",
    "JudgeDenied": "errors",
    "JudgeError": "errors",
    "JudgeRejected": "errors",
    "JudgeReplyInvalid": "errors",
    "JudgeUnavailable": "errors",
    "JudgeUnreachable": "errors",
    "JudgedRefusal": "turn.judged_refusal",
    "Jury": "judges.jury",
    "KnowledgeRetention": "conversation.knowledge_retention",
    "LLMJudge": "turn.llm_judge",
    "LLMJudgeStrictJson": "turn.llm_judge_strict_json",
    "LLMJudgeTrajectory": "turn.llm_judge_trajectory",
    "Latency": "turn.latency",
    "Length": "turn.length",
    "Limited": "judges.limited",
    "LocalEmbeddingJudge": "judges.local_embeddings",
    "Message": "cases",
    "Moderation": "turn.moderation",
    "NoCompletion": "errors",
    "NoJudge": "judge",
    "NotApplicable": "errors",
    "OpenAIJudge": "judges.openai",
    "PairwiseDimensions": "turn.pairwise_dimensions",
    "PiiLeakage": "turn.pii_leakage",
    "PlanAdherence": "turn.plan_adherence",
    "Prompt": "judge",
    "PromptAttack": "turn.prompt_attack",
    "PromptEvaluator": "turn.prompt",
    "Refusal": "turn.refusal",
    "Regex": "turn.regex",
    "RepeatedCalls": "turn.repeated_calls",
    "Resolution": "conversation.resolution",
    "Result": "evaluation",
    "ResultUse": "turn.result_use",
    "RetrievalRanking": "turn.retrieval_ranking",
    "RetrievalSufficiency": "turn.retrieval_sufficiency",
    "Retrying": "judges.retrying",
    "RoleAdherence": "conversation.role_adherence",
    "Rubric": "mechanisms.rating",
    "RunLimits": "turn.run_limits",
    "Satisfaction": "conversation.satisfaction",
    "Score": "results",
    "Sight": "asking.sight",
    "Similarity": "turn.similarity",
    "Skipped": "results",
    "StepEfficiency": "turn.step_efficiency",
    "Summarization": "turn.summarization",
    "TaskCompletion": "turn.task_completion",
    "TaskCost": "conversation.task_cost",
    "ToolCall": "cases",
    "ToolCalls": "turn.tool_calls",
    "ToolDefinition": "cases",
    "ToolErrors": "turn.tool_errors",
    "ToolPolicy": "turn.tool_policy",
    "ToolSelection": "turn.tool_selection",
    "TopicAdherence": "conversation.topic_adherence",
    "Toxicity": "turn.toxicity",
    "Turn": "cases",
    "TurnRelevancy": "conversation.turn_relevancy",
    "Verdict": "judge",
    "ask_score": "mechanisms.scoring",
    "evaluate": "evaluation",
    "evaluate_many": "batch",
    "evaluate_pack": "packs.evaluate_pack",
    "evaluate_sync": "evaluation",
    "evaluation_id_of": "identity",
}
"""The module of each public name; `__init__.pyi` has their types."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the stub lists them


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        from evaluators.foreign_names import PACKAGE, missing

        raise AttributeError(missing(PACKAGE, f"module {__name__!r}", name))
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
