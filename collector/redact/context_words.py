"""Words before passwords, telephone numbers, accounts, codes and national ids, by language, of context_words.txt."""

from collections.abc import Mapping

from evaluators.texts.word_lists import load_words

_LISTS = load_words("collector.redact", "context_words.txt")


def _by_language(name: str) -> dict[str, str]:
    """The words of a list by their language, separated by `|`."""
    return {language: words for language, _, words in (line.partition(": ") for line in _LISTS[name])}


PASSWORDS, PHONES, ACCOUNTS = _by_language("PASSWORDS"), _by_language("PHONES"), _by_language("ACCOUNTS")
CODES, SEEDS, NATIONAL_IDS = _by_language("CODES"), _by_language("SEEDS"), _by_language("NATIONAL_IDS")
COPULAS = "|".join(_LISTS["COPULAS"])
"""The words that may stand between such a word and a password instead of a colon."""


def words_of(by_language: Mapping[str, str]) -> tuple[tuple[str, bool], ...]:
    """Each word once, with whether it may have an ending."""
    each = {word for words in by_language.values() for word in words.split("|")}
    return tuple(sorted((word.rstrip("*"), word.endswith("*")) for word in each))
