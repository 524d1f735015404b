# Written by `make reference`.
from evaluators.asking.sight import Sight as Sight
from evaluators.batch import evaluate_many as evaluate_many
from evaluators.cases import (
    Attachment as Attachment,
    Conversation as Conversation,
    Feedback as Feedback,
    Message as Message,
    ToolCall as ToolCall,
    ToolDefinition as ToolDefinition,
    Turn as Turn,
)
from evaluators.conversation.classifier import ConversationalClassifier as ConversationalClassifier
from evaluators.conversation.completeness import Completeness as Completeness
from evaluators.conversation.composite import ConversationalComposite as ConversationalComposite
from evaluators.conversation.frustration import Frustration as Frustration
from evaluators.conversation.g_eval import ConversationalGEval as ConversationalGEval
from evaluators.conversation.goal_accuracy import GoalAccuracy as GoalAccuracy
from evaluators.conversation.knowledge_retention import KnowledgeRetention as KnowledgeRetention
from evaluators.conversation.outcome import ConversationOutcome as ConversationOutcome
from evaluators.conversation.prompt import ConversationalPrompt as ConversationalPrompt
from evaluators.conversation.resolution import Resolution as Resolution
from evaluators.conversation.role_adherence import RoleAdherence as RoleAdherence
from evaluators.conversation.satisfaction import Satisfaction as Satisfaction
from evaluators.conversation.task_cost import TaskCost as TaskCost
from evaluators.conversation.topic_adherence import TopicAdherence as TopicAdherence
from evaluators.conversation.turn_relevancy import TurnRelevancy as TurnRelevancy
from evaluators.errors import (
    EvaluationError as EvaluationError,
    JudgeDenied as JudgeDenied,
    JudgeError as JudgeError,
    JudgeRejected as JudgeRejected,
    JudgeReplyInvalid as JudgeReplyInvalid,
    JudgeUnavailable as JudgeUnavailable,
    JudgeUnreachable as JudgeUnreachable,
    NoCompletion as NoCompletion,
    NotApplicable as NotApplicable,
)
from evaluators.evaluation import Result as Result, evaluate as evaluate, evaluate_sync as evaluate_sync
from evaluators.evaluator import Evaluator as Evaluator
from evaluators.identity import evaluation_id_of as evaluation_id_of
from evaluators.judge import Judge as Judge, NoJudge as NoJudge, Prompt as Prompt, Verdict as Verdict
from evaluators.judges.answer_cache import AnswerCache as AnswerCache
from evaluators.judges.cascade import Cascade as Cascade
from evaluators.judges.decision_judge import DecisionJudge as DecisionJudge
from evaluators.judges.definition_cache import DefinitionCache as DefinitionCache
from evaluators.judges.divided import DividedJudge as DividedJudge
from evaluators.judges.embeddings import EmbeddingJudge as EmbeddingJudge
from evaluators.judges.jury import Jury as Jury
from evaluators.judges.limited import Limited as Limited
from evaluators.judges.local_embeddings import LocalEmbeddingJudge as LocalEmbeddingJudge
from evaluators.judges.openai import OpenAIJudge as OpenAIJudge
from evaluators.judges.retrying import Retrying as Retrying
from evaluators.mechanisms.rating import Rubric as Rubric
from evaluators.mechanisms.scoring import ask_score as ask_score
from evaluators.packs.evaluate_pack import evaluate_pack as evaluate_pack
from evaluators.results import Evaluation as Evaluation, Failure as Failure, Score as Score, Skipped as Skipped
from evaluators.turn.agent_handover import AgentHandover as AgentHandover
from evaluators.turn.answer_language import AnswerLanguage as AnswerLanguage
from evaluators.turn.answer_relevancy import AnswerRelevancy as AnswerRelevancy
from evaluators.turn.argument_grounding import ArgumentGrounding as ArgumentGrounding
from evaluators.turn.argument_schema import ArgumentSchema as ArgumentSchema
from evaluators.turn.attack_resistance import AttackResistance as AttackResistance
from evaluators.turn.attack_signs import AttackSigns as AttackSigns
from evaluators.turn.bias import Bias as Bias
from evaluators.turn.citation_support import CitationSupport as CitationSupport
from evaluators.turn.citations import Citations as Citations
from evaluators.turn.classifier import Classifier as Classifier
from evaluators.turn.composite import Composite as Composite
from evaluators.turn.contains import Contains as Contains
from evaluators.turn.context_recall import ContextRecall as ContextRecall
from evaluators.turn.contextual_relevancy import ContextualRelevancy as ContextualRelevancy
from evaluators.turn.exact_match import ExactMatch as ExactMatch
from evaluators.turn.factual_correctness import FactualCorrectness as FactualCorrectness
from evaluators.turn.faithfulness import Faithfulness as Faithfulness
from evaluators.turn.g_eval import GEval as GEval
from evaluators.turn.hallucination import Hallucination as Hallucination
from evaluators.turn.instruction_following import InstructionFollowing as InstructionFollowing
from evaluators.turn.json_schema import JsonSchema as JsonSchema
from evaluators.turn.json_similarity import JsonSimilarity as JsonSimilarity
from evaluators.turn.judged_refusal import JudgedRefusal as JudgedRefusal
from evaluators.turn.latency import Latency as Latency
from evaluators.turn.length import Length as Length
from evaluators.turn.llm_judge import LLMJudge as LLMJudge
from evaluators.turn.llm_judge_strict_json import LLMJudgeStrictJson as LLMJudgeStrictJson
from evaluators.turn.llm_judge_trajectory import LLMJudgeTrajectory as LLMJudgeTrajectory
from evaluators.turn.moderation import Moderation as Moderation
from evaluators.turn.outcome import ExternalOutcome as ExternalOutcome
from evaluators.turn.pairwise_dimensions import PairwiseDimensions as PairwiseDimensions
from evaluators.turn.pii_leakage import PiiLeakage as PiiLeakage
from evaluators.turn.plan_adherence import PlanAdherence as PlanAdherence
from evaluators.turn.prompt import PromptEvaluator as PromptEvaluator
from evaluators.turn.prompt_attack import PromptAttack as PromptAttack
from evaluators.turn.refusal import Refusal as Refusal
from evaluators.turn.regex import Regex as Regex
from evaluators.turn.repeated_calls import RepeatedCalls as RepeatedCalls
from evaluators.turn.result_use import ResultUse as ResultUse
from evaluators.turn.retrieval_ranking import RetrievalRanking as RetrievalRanking
from evaluators.turn.retrieval_sufficiency import RetrievalSufficiency as RetrievalSufficiency
from evaluators.turn.run_limits import RunLimits as RunLimits
from evaluators.turn.similarity import Similarity as Similarity
from evaluators.turn.step_efficiency import StepEfficiency as StepEfficiency
from evaluators.turn.summarization import Summarization as Summarization
from evaluators.turn.syntax import Syntax as Syntax
from evaluators.turn.task_completion import TaskCompletion as TaskCompletion
from evaluators.turn.tool_calls import ToolCalls as ToolCalls
from evaluators.turn.tool_errors import ToolErrors as ToolErrors
from evaluators.turn.tool_policy import ToolPolicy as ToolPolicy
from evaluators.turn.tool_selection import ToolSelection as ToolSelection
from evaluators.turn.toxicity import Toxicity as Toxicity
