"""One score of a conversation out of those of several evaluators."""

from typing import ClassVar

from evaluators.cases import Conversation, Scope
from evaluators.evaluator import Example
from evaluators.mechanisms.composition import Composition


class ConversationalComposite(Composition[Conversation]):
    """One score of a conversation out of those of other evaluators: do all pass, does any, or their weighted mean.

    As `composite`, of conversations: its members score conversations, and `if` draws by the conversation's id.
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
