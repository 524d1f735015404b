"""One score of a conversation, made of the scores of several evaluators."""

from typing import ClassVar

from evaluators.cases import Conversation, Scope
from evaluators.evaluator import Example
from evaluators.mechanisms.composition import Composition


class ConversationalComposite(Composition[Conversation]):
    """One score of a conversation, made of other evaluators' scores: all pass, any passes, or a weighted mean.

    Works like `composite`: its members score conversations, and `if` draws by the conversation's id.
    """

    kind: ClassVar[str] = "conversational_composite"
    scope: ClassVar[Scope] = "conversation"
    example: ClassVar[Example] = {
        "combine": "weighted",
        "of": {
            "cheap": {"kind": "task_cost", "max_tool_calls": 10, "threshold": 0.5},
            "calm": {"kind": "frustration", "threshold": 0.5},
        },
    }
