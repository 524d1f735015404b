"""Signs that a text attacks the application: by its words, and by what hides them. No judge is asked."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic_core import SchemaValidator

from evaluators.attacks import attack_words as words
from evaluators.attacks.injection_detection import IGNORES_INSTRUCTIONS, find_together, matcher, signs_in

_NO_LIMITS, _PERSONA, _JAILBREAK = map(matcher, (words.NO_LIMITS, words.PERSONA, words.JAILBREAK))
_YOU, _DISCLOSE, _OWN_PROMPT = map(matcher, (words.YOU, words.DISCLOSE, words.OWN_PROMPT))
_AUTHORITY, _OVERRIDE, _OF_IT = map(matcher, (words.AUTHORITY, words.OVERRIDE, words.OF_THE_APPLICATION))
_ASSISTANT, _CALL, _ACT = map(matcher, (words.ASSISTANT, words.CALL, words.ACT))
_ALL_ASSISTANTS = matcher(words.ALL_ASSISTANTS)
_SEND, _DATA, _SECRETLY, _PEOPLE = map(matcher, (words.SEND, words.DATA, words.SECRETLY, words.PEOPLE))
_INSTEAD, _BEFORE_ANSWER, _TOOL = map(matcher, (words.INSTEAD, words.BEFORE_ANSWER, words.TOOL))
_TURNS, _MODES, _WITHOUT, _BECOME = map(matcher, (words.TURNS, words.MODES, words.WITHOUT, words.BECOME))
_AWAY = matcher(words.AWAY, whole=False)

Signs = Mapping[str, Sequence[Sequence[SchemaValidator]]]

_OF_ANYBODY: Signs = {
    "asks_to_ignore_instructions": (IGNORES_INSTRUCTIONS,),
    "removes_limits": ((_NO_LIMITS, _PERSONA, _YOU), (_JAILBREAK,), (_TURNS, _MODES), (_WITHOUT, _BECOME)),
    "asks_for_instructions": ((_DISCLOSE, _OWN_PROMPT),),
    "claims_authority": ((_AUTHORITY, _OVERRIDE), (_AUTHORITY, _OF_IT)),
}
"""The words that one sentence must contain, by any author: all of one of the tuples."""

_OF_OTHERS: Signs = {
    **_OF_ANYBODY,
    "addresses_an_assistant": ((_CALL, _ASSISTANT, _ACT), (_ALL_ASSISTANTS,)),
    "gives_a_new_task": ((_INSTEAD, _ACT), (_BEFORE_ANSWER, _TOOL), (_BEFORE_ANSWER, _SEND, _DATA)),
    "sends_data_away": ((_SEND, _DATA, _AWAY),),
    "acts_secretly": ((_SECRETLY, _PEOPLE, _ACT), (_SECRETLY, _PEOPLE, _SEND)),
}
"""The same for passages and results of tools, which have nothing to demand; a user may."""

_MARKS = (
    "<|im_start|>",
    "<| im_start|>",
    "<|system|>",
    "<| system|>",
    "[inst]",
    "[ inst]",
    "<|im_end|>",
    "<system>",
    "</user>",
    "[admin]",
    "<<sys>>",
    "<< sys>>",
)


def detect_attack(text: str, *, by_user: bool) -> frozenset[str]:
    """The names of the signs in a text of the user, or in one of somebody else."""
    signs = _OF_ANYBODY if by_user else _OF_OTHERS
    return frozenset(signs_in(text, lambda lowered: _find(lowered, signs)))


def _find(lowered: str, signs: Signs) -> Iterator[str]:
    yield from find_together(lowered, signs)
    if any(mark in lowered for mark in _MARKS):
        yield "plays_a_role"
