"""The JSON that a judge is shown of a whole conversation: its turns, and what is said of it as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from evaluators.asking.judge_input import JudgeInput, shorten_all, to_json_value
from evaluators.asking.transcript import TranscriptSettings, build_transcript
from evaluators.cases import Conversation

ConversationField = Literal["scenario", "expected_outcome", "chatbot_role"]
"""The fields that describe a conversation as a whole."""

OF_THE_WHOLE: tuple[str, ...] = get_args(ConversationField)


def required_fields(names: Sequence[str]) -> frozenset[str]:
    """The names as a conversation has them: one of a turn is there if any turn has it."""
    return frozenset(name if name in OF_THE_WHOLE else f"turns.{name}" for name in names)


def build_conversation_input(case: Conversation, names: Sequence[str], settings: TranscriptSettings) -> JudgeInput:
    """The named fields: those of turns with each turn, those of the whole once.

    Raises:
        NotApplicable: the conversation has no turn.
    """
    of_turns = [name for name in names if name not in OF_THE_WHOLE]
    transcript = build_transcript(case, of_turns, settings, always=())
    whole = {name: to_json_value(getattr(case, name)) for name in names if name in OF_THE_WHOLE}
    visible = shorten_all(whole, settings.longest_text)
    content = {**visible.content, "turns": transcript.content} if of_turns else visible.content
    if not of_turns:
        return JudgeInput(content, visible.truncated)
    return JudgeInput(content, visible.truncated or transcript.truncated, transcript.omitted)
