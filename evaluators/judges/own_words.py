"""An endpoint's own words about a refusal, fit for records and logs: without the question's text, and short."""

import re
from collections.abc import Collection, Iterable
from functools import partial

_LONGEST = 240
_MOST_READ = 2000
_GONE = "[…]"
_ESCAPE = re.compile(r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|[nrtbf])")
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r"'[^']{1,400}'|\"[^\"]{1,400}\"|`[^`]{1,400}`|“[^”]{1,400}”|«[^»]{1,400}»|「[^」]{1,400}」")
_TOKEN = re.compile(r"[\w*.\-]++")
_DIGIT = re.compile(r"\d")
_SHORTEST_KEY = 20
_NAMED = re.compile(r"(?i:key|token|bearer|password|secret)\W{1,4}(?:\w{1,20}\W{1,4}){0,2}$")
"""The words before a key that is quoted: a short one, or one of letters alone, may be a common word elsewhere."""
_DISTINCT = 8
"""Characters from which on a key with another sign than letters is no word of a sentence."""
_SEVERAL = re.compile(rf"{re.escape(_GONE)}(?:\W*{re.escape(_GONE)})*")
_PLAIN = re.compile(r"[a-z_]+")
_PART = 5
"""The fewest letters of a word that counts as part of a word in the question: shorter words match by chance."""
_RUN = 3
"""So many words in a row that also stand in the question are the question's text; fewer words are too, if they are no
plain words."""


def own_words(spoken: str, question: str, keys: Iterable[str] = ()) -> str:
    """An endpoint's words, at most 240 characters, with `[…]` for what it quotes of the question and for keys.

    `keys` are those that were sent; other texts count as keys by their form.
    """
    sent = frozenset(filter(None, keys))
    for key in sent:
        spoken = spoken if len(key) < _DISTINCT or key.isalpha() else spoken.replace(key, _GONE)
    spoken = _TOKEN.sub(partial(_unless_key, sent), spoken)
    spoken = " ".join(_SEVERAL.sub(_GONE, without_question(spoken, question)).split())
    spoken = "".join(letter for letter in spoken if letter.isprintable())
    return spoken if len(spoken) <= _LONGEST else spoken[:_LONGEST].rstrip() + " …"


def without_question(spoken: str, question: str) -> str:
    """An endpoint's words, with `[…]` for what it quotes of the question."""
    spoken, written = _decoded(spoken[:_MOST_READ]), _WORD.findall(_decoded(question))
    question_words = f" {' '.join(written).lower()} "
    spoken = _QUOTED.sub(lambda quoted: _GONE if _stands_in(quoted[0], question_words) else quoted[0], spoken)
    return _without(spoken, question_words, frozenset(filter(_PLAIN.fullmatch, written)))


def words_beside(spoken: str, question: str) -> str:
    """An endpoint's words without the words of the question, so that judged text cannot pass for a complaint."""
    question_words = set(_WORD.findall(_decoded(question).lower()))
    return _WORD.sub(lambda word: "" if word[0].lower() in question_words else word[0], _decoded(spoken))


def _unless_key(sent: Collection[str], token: re.Match[str]) -> str:
    """The token, unless it may be a key: sent and named so, masked, of a known form, or long with a digit in it."""
    word = token[0]
    if (bare := word.strip(".-")) in sent and _NAMED.search(token.string, max(0, token.start() - 60), token.start()):
        return word.replace(bare, _GONE)
    parts = word.replace("*", ".").split(".")
    is_long = any(len(part) >= _SHORTEST_KEY and _DIGIT.search(part) for part in parts)
    return _GONE if is_long or "***" in word or "sk-" in word else word


def _decoded(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)


def _stands_in(quoted: str, question_words: str) -> bool:
    words = " ".join(_WORD.findall(quoted.lower()))
    return bool(words) and not _PLAIN.fullmatch(words) and words in question_words


def _begins_sentence(spoken: str, word: re.Match[str]) -> bool:
    """Whether a word, of which the first letter alone may be a capital, stands where every word has one."""
    before = spoken[: word.start()].rstrip()
    return word[0] == word[0].capitalize() and (not before or before[-1] in ".!?:\"'")


def _without(spoken: str, question_words: str, plain: frozenset[str]) -> str:
    words = list(_WORD.finditer(spoken))
    lowered = [word[0].lower() for word in words]
    gone = [
        (word if len(word) >= _PART else f" {word} ") in question_words
        and not _PLAIN.fullmatch(words[number][0])
        and not (word in plain and _begins_sentence(spoken, words[number]))
        for number, word in enumerate(lowered)
    ]
    for number in range(len(words) - _RUN + 1):
        if " ".join(lowered[number : number + _RUN]) in question_words:
            gone[number : number + _RUN] = [True] * _RUN
    parts: list[str] = []
    end = 0
    for word, left_out in zip(words, gone, strict=True):
        parts += [spoken[end : word.start()], _GONE if left_out else word[0]]
        end = word.end()
    return "".join([*parts, spoken[end:]])
