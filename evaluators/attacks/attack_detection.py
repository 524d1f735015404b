"""Signs that a text attacks the application: by its words, and by what hides them. No judge is asked."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic_core import SchemaValidator

from evaluators.attacks.injection_detection import IGNORES_INSTRUCTIONS, find_together, matcher, signs_in
from evaluators.attacks.word_lists import load_words

_WORDS = load_words("attack_words.txt")
_NO_LIMITS, _PERSONA, _JAILBREAK = map(matcher, (_WORDS["NO_LIMITS"], _WORDS["PERSONA"], _WORDS["JAILBREAK"]))
_YOU, _DISCLOSE, _OWN_PROMPT = map(matcher, (_WORDS["YOU"], _WORDS["DISCLOSE"], _WORDS["OWN_PROMPT"]))
_AUTHORITY, _OVERRIDE, _OF_IT = map(matcher, (_WORDS["AUTHORITY"], _WORDS["OVERRIDE"], _WORDS["OF_THE_APPLICATION"]))
_ASSISTANT, _CALL, _ACT = map(matcher, (_WORDS["ASSISTANT"], _WORDS["CALL"], _WORDS["ACT"]))
_ALL_ASSISTANTS = matcher(_WORDS["ALL_ASSISTANTS"])
_SEND, _DATA, _SECRETLY, _PEOPLE = map(matcher, (_WORDS["SEND"], _WORDS["DATA"], _WORDS["SECRETLY"], _WORDS["PEOPLE"]))
_INSTEAD, _BEFORE_ANSWER, _TOOL = map(matcher, (_WORDS["INSTEAD"], _WORDS["BEFORE_ANSWER"], _WORDS["TOOL"]))
_TURNS, _MODES, _WITHOUT, _BECOME = map(
    matcher, (_WORDS["TURNS"], _WORDS["MODES"], _WORDS["WITHOUT"], _WORDS["BECOME"])
)
_AWAY = matcher(_WORDS["AWAY"], whole=False)

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
