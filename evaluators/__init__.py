"""Scores of turns and conversations, and how they are computed. A library: usable without the collector.

Modules are imported when a name of theirs is first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluators.asking.sight import Sight
    from evaluators.batch import evaluate_many
    from evaluators.cases import Attachment, Conversation, Feedback, Message, ToolCall, ToolDefinition, Turn
    from evaluators.conversation.classifier import ConversationalClassifier
    from evaluators.conversation.completeness import Completeness
    from evaluators.conversation.composite import ConversationalComposite
    from evaluators.conversation.frustration import Frustration
    from evaluators.conversation.g_eval import ConversationalGEval
    from evaluators.conversation.goal_accuracy import GoalAccuracy
    from evaluators.conversation.knowledge_retention import KnowledgeRetention
    from evaluators.conversation.outcome import ConversationOutcome
    from evaluators.conversation.prompt import ConversationalPrompt
    from evaluators.conversation.resolution import Resolution
    from evaluators.conversation.role_adherence import RoleAdherence
    from evaluators.conversation.satisfaction import Satisfaction
    from evaluators.conversation.task_cost import TaskCost
    from evaluators.conversation.topic_adherence import TopicAdherence
    from evaluators.conversation.turn_relevancy import TurnRelevancy
    from evaluators.errors import (
        EvaluationError,
        JudgeDenied,
        JudgeError,
        JudgeRejected,
        JudgeReplyInvalid,
        JudgeUnavailable,
        JudgeUnreachable,
        NoCompletion,
        NotApplicable,
    )
    from evaluators.evaluation import Result, evaluate, evaluate_sync
    from evaluators.evaluator import Evaluator
    from evaluators.identity import evaluation_id_of
    from evaluators.judge import Judge, NoJudge, Prompt, Verdict
    from evaluators.judges.answer_cache import AnswerCache
    from evaluators.judges.cascade import Cascade
    from evaluators.judges.decision_judge import DecisionJudge
    from evaluators.judges.definition_cache import DefinitionCache
    from evaluators.judges.divided import DividedJudge
    from evaluators.judges.embeddings import EmbeddingJudge
    from evaluators.judges.jury import Jury
    from evaluators.judges.limited import Limited
    from evaluators.judges.local_embeddings import LocalEmbeddingJudge
    from evaluators.judges.openai import OpenAIJudge
    from evaluators.judges.retrying import Retrying
    from evaluators.mechanisms.rating import Rubric
    from evaluators.mechanisms.scoring import ask_score
    from evaluators.packs.evaluate_pack import evaluate_pack
    from evaluators.results import Evaluation, Failure, Score, Skipped
    from evaluators.turn.agent_handover import AgentHandover
    from evaluators.turn.answer_language import AnswerLanguage
    from evaluators.turn.answer_relevancy import AnswerRelevancy
    from evaluators.turn.argument_grounding import ArgumentGrounding
    from evaluators.turn.argument_schema import ArgumentSchema
    from evaluators.turn.attack_resistance import AttackResistance
    from evaluators.turn.attack_signs import AttackSigns
    from evaluators.turn.bias import Bias
    from evaluators.turn.citation_support import CitationSupport
    from evaluators.turn.citations import Citations
    from evaluators.turn.classifier import Classifier
    from evaluators.turn.composite import Composite
    from evaluators.turn.contains import Contains
    from evaluators.turn.contextual_relevancy import ContextualRelevancy
    from evaluators.turn.exact_match import ExactMatch
    from evaluators.turn.faithfulness import Faithfulness
    from evaluators.turn.g_eval import GEval
    from evaluators.turn.hallucination import Hallucination
    from evaluators.turn.instruction_following import InstructionFollowing
    from evaluators.turn.json_schema import JsonSchema
    from evaluators.turn.json_similarity import JsonSimilarity
    from evaluators.turn.judged_refusal import JudgedRefusal
    from evaluators.turn.latency import Latency
    from evaluators.turn.length import Length
    from evaluators.turn.llm_judge import LLMJudge
    from evaluators.turn.llm_judge_strict_json import LLMJudgeStrictJson
    from evaluators.turn.llm_judge_trajectory import LLMJudgeTrajectory
    from evaluators.turn.moderation import Moderation
    from evaluators.turn.outcome import ExternalOutcome
    from evaluators.turn.pairwise_dimensions import PairwiseDimensions
    from evaluators.turn.pii_leakage import PiiLeakage
    from evaluators.turn.plan_adherence import PlanAdherence
    from evaluators.turn.prompt import PromptEvaluator
    from evaluators.turn.prompt_attack import PromptAttack
    from evaluators.turn.refusal import Refusal
    from evaluators.turn.regex import Regex
    from evaluators.turn.repeated_calls import RepeatedCalls
    from evaluators.turn.result_use import ResultUse
    from evaluators.turn.retrieval_ranking import RetrievalRanking
    from evaluators.turn.retrieval_sufficiency import RetrievalSufficiency
    from evaluators.turn.run_limits import RunLimits
    from evaluators.turn.similarity import Similarity
    from evaluators.turn.task_completion import TaskCompletion
    from evaluators.turn.tool_calls import ToolCalls
    from evaluators.turn.tool_errors import ToolErrors
    from evaluators.turn.tool_policy import ToolPolicy
    from evaluators.turn.tool_selection import ToolSelection
    from evaluators.turn.toxicity import Toxicity

__all__ = [
    "AgentHandover",
    "AnswerCache",
    "AnswerLanguage",
    "AnswerRelevancy",
    "ArgumentGrounding",
    "ArgumentSchema",
    "Attachment",
    "AttackResistance",
    "AttackSigns",
    "Bias",
    "Cascade",
    "CitationSupport",
    "Citations",
    "Classifier",
    "Completeness",
    "Composite",
    "Contains",
    "ContextualRelevancy",
    "Conversation",
    "ConversationOutcome",
    "ConversationalClassifier",
    "ConversationalComposite",
    "ConversationalGEval",
    "ConversationalPrompt",
    "DecisionJudge",
    "DefinitionCache",
    "DividedJudge",
    "EmbeddingJudge",
    "Evaluation",
    "EvaluationError",
    "Evaluator",
    "ExactMatch",
    "ExternalOutcome",
    "Failure",
    "Faithfulness",
    "Feedback",
    "Frustration",
    "GEval",
    "GoalAccuracy",
    "Hallucination",
    "InstructionFollowing",
    "JsonSchema",
    "JsonSimilarity",
    "Judge",
    "JudgeDenied",
    "JudgeError",
    "JudgeRejected",
    "JudgeReplyInvalid",
    "JudgeUnavailable",
    "JudgeUnreachable",
    "JudgedRefusal",
    "Jury",
    "KnowledgeRetention",
    "LLMJudge",
    "LLMJudgeStrictJson",
    "LLMJudgeTrajectory",
    "Latency",
    "Length",
    "Limited",
    "LocalEmbeddingJudge",
    "Message",
    "Moderation",
    "NoCompletion",
    "NoJudge",
    "NotApplicable",
    "OpenAIJudge",
    "PairwiseDimensions",
    "PiiLeakage",
    "PlanAdherence",
    "Prompt",
    "PromptAttack",
    "PromptEvaluator",
    "Refusal",
    "Regex",
    "RepeatedCalls",
    "Resolution",
    "Result",
    "ResultUse",
    "RetrievalRanking",
    "RetrievalSufficiency",
    "Retrying",
    "RoleAdherence",
    "Rubric",
    "RunLimits",
    "Satisfaction",
    "Score",
    "Sight",
    "Similarity",
    "Skipped",
    "TaskCompletion",
    "TaskCost",
    "ToolCall",
    "ToolCalls",
    "ToolDefinition",
    "ToolErrors",
    "ToolPolicy",
    "ToolSelection",
    "TopicAdherence",
    "Toxicity",
    "Turn",
    "TurnRelevancy",
    "Verdict",
    "ask_score",
    "evaluate",
    "evaluate_many",
    "evaluate_pack",
    "evaluate_sync",
    "evaluation_id_of",
]

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
"""The module of each public name."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        from evaluators.foreign_names import PACKAGE, missing

        raise AttributeError(missing(PACKAGE, f"module {__name__!r}", name))
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
