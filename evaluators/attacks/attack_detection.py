"""Signs that a text attacks the application: its words, and characters that hide words. No judge is asked."""

from collections.abc import Iterator
from itertools import combinations

from evaluators.attacks.injection_detection import INJECTION_WORDS, Signs, Ways, matchers, parts_of, signs_in, ways_of

_WITHIN = ("AWAY", "HEADER", "SPEAKS_FOR_OTHERS", "LEAKING_PICTURE")
_WORDS = {**INJECTION_WORDS, **matchers("attack_words.txt", within=_WITHIN)}
_OF_ANYBODY: Ways = ways_of(
    _WORDS,
    {
        "asks_to_ignore_instructions": ("IGNORE INSTRUCTIONS PRIOR", "FORGET", "NEW_TASK", "HEADER"),
        "removes_limits": ("NO_LIMITS PERSONA YOU", "JAILBREAK", "TURNS MODES", "WITHOUT BECOME", "SWITCHED", "PREFIX"),
        "asks_for_instructions": ("DISCLOSE OWN_PROMPT", "REPEAT EARLIER"),
        "plays_a_role": ("SPEAKS_FOR_OTHERS",),
        "sends_data_away": ("LEAKING_PICTURE",),
        "claims_authority": (
            *("AUTHORITY OVERRIDE", "AUTHORITY OF_THE_APPLICATION"),
            *("MAKER TURNS", "MAKER OWN_PROMPT", "MAKER MODES", "MAKER IGNORE"),
        ),
    },
)
"""The words that one sentence must contain, by any author."""

_OF_OTHERS = Signs(
    _OF_ANYBODY
    | ways_of(
        _WORDS,
        {
            "addresses_an_assistant": ("CALL ASSISTANT ACT", "ALL_ASSISTANTS"),
            "gives_a_new_task": ("INSTEAD ACT", "LASTING", "UNASKED", "BEFORE_ANSWER TOOL", "BEFORE_ANSWER SEND DATA"),
            "sends_data_away": ("LEAKING_PICTURE", "SEND DATA AWAY"),
            "acts_secretly": ("SECRETLY PEOPLE ACT", "SECRETLY PEOPLE SEND"),
        },
    )
)
"""The signs in passages and results of tools: there a demand is a sign, while a user may make demands."""

_OF_USERS = Signs(
    {**_OF_ANYBODY, "asks_for_instructions": [*_OF_ANYBODY["asks_for_instructions"], (_WORDS["YOUR_PROMPT"],)]}
)
_ANYWHERE = Signs(
    ways_of(
        _WORDS,
        {"removes_limits": tuple(map(" ".join, combinations(("UNBOUND", "TABOO", "UNREFUSING", "PERSONAS"), 3)))},
    )
)
"""A persona without limits is described in many sentences: three of these lists in one part of a text are a sign."""

_MARKS = (
    "<|im_start|>", "<| im_start|>", "<|system|>", "<| system|>", "[inst]", "[ inst]", "<|im_end|>", "<system>",
    "</user>", "[admin]", "[system]", "[start output]", "[end of input]", "<interaction-config>", "end of user input",
    "end user ambiguity", "<<sys>>", "<< sys>>",
)  # fmt: skip


def detect_attack(text: str, *, by_user: bool) -> frozenset[str]:
    """The names of the signs in a text by the user or by another author."""
    signs = _OF_USERS if by_user else _OF_OTHERS
    return frozenset(signs_in(text, lambda lowered: _find(lowered, signs)))


def _find(lowered: str, signs: Signs) -> Iterator[str]:
    yield from signs.find(lowered)
    yield from _ANYWHERE.find(lowered, parts_of)
    if any(mark in lowered for mark in _MARKS):
        yield "plays_a_role"
