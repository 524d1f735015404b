"""Signs that a judged text speaks to its judge. They are reported beside a score and do not change it.

Instructions may hide in other readings of a text: look-alike letters, encodings, spaces between letters. Reading them
is linear in the length of the text; only a few pieces are decoded, each of bounded length.
"""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from urllib.parse import unquote

from pydantic_core import SchemaValidator, core_schema

from evaluators.asking.judge_input import iter_texts
from evaluators.asking.prompt_isolation import sanitize
from evaluators.cases import Json
from evaluators.texts.word_lists import load_words

_PIECES = 16


def _matcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


_TAGS = re.compile("[\U000e0020-\U000e007e]")
_UNTAGGED = {code: code - 0xE0000 for code in range(0xE0020, 0xE007F)}
_UNSEEN = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ud800-\udfff]")
_MIXED = re.compile("[A-Za-z][\u0370-\u058f]|[\u0370-\u058f][A-Za-z]")
_LOOK_ALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u043a\u043c\u0442\u043d\u0432"
    "\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1\u03b5\u03b9\u03bd\u03bf\u03c1\u03c5"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0405\u0578\u057d\u0585\u0570\u0581",
    "aeopcyxijshdqkmthbABEHIKMNOPTYXaeivopuABEKMHOPCTXISnuohg",
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-]{24,4000}={0,2}")
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2}){16,2000}")
_SPACED = re.compile(r"(?:\b\w[ \u00a0.\-]){5,200}\w\b(?:[ \u00a0]{1,5}\w(?:[ \u00a0.\-]\w){0,40}\b)*")
_BINARY = re.compile(r"\b(?:[01]{8}\s?){8,1000}\b")
_BYTE = re.compile("[01]{8}")
_ASSIGNED = re.compile(r"\b\w{1,12} ?= ?[\"'\u2018\u2019]([^\"'\u2018\u2019\n]{1,80})[\"'\u2018\u2019]")
_SPACED_LETTERS = r"(?:[\pL\d][ \x{a0}.\-]+){5}[\pL\d]"
_MAY_BE_SPACED = _matcher(_SPACED_LETTERS)
_ROT13 = ("vtaber", "qvfertneq", "vafgehpgvba", "rinyhngbe", "tenqre", "fpber", "ireqvpg", "ernfba")

_BACKWARDS = ("snoitcurtsni", "tpmorp", "erocs", "rewsna", "esnopser", "erongi", "etar ", "edarg", "selur", "siht ")
"""Words of such texts, spelt backwards."""
_LEET_WORD = r"[a-z]*(?:[a-z][013457@$]|[013457@$][a-z])[a-z013457@$]*"
_LEET_WORDS = rf"(?:^|[^a-z0-9]){_LEET_WORD} {_LEET_WORD}(?:$|[^a-z0-9])"
_LEET = _matcher(_LEET_WORDS)
_MAY_HIDE = _matcher(
    rf"(?i:{'|'.join((*_ROT13, *_BACKWARDS, _LEET_WORDS))})|{_SPACED_LETTERS}|[A-Za-z0-9+/_\-]{{24}}|[01]{{8}}|&#|%20|="
)
"""Matches each text in which ASCII may hide words: one search instead of ten."""
_UNLEET = str.maketrans("013457@$", "oieastas")


def normalize(text: str) -> str:
    """The text as a reader sees it: without unseen characters, compatibility forms and look-alike letters replaced."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    return text.translate(_LOOK_ALIKES) if _MIXED.search(text) else text


def decoded(text: str) -> Iterator[str]:
    """The hidden parts of the text: each encoded piece that decodes to text."""
    if not text.isascii() and _TAGS.search(text):
        yield "".join(_TAGS.findall(text)).translate(_UNTAGGED)
    if not _MAY_HIDE.isinstance_python(text):
        return
    if "&#" in text:
        yield html.unescape(text)
    if "%20" in text:
        yield unquote(text)
    lowered = text.lower()
    if any(word in lowered for word in _ROT13):
        yield codecs.decode(text, "rot13")
    if any(word in lowered for word in _BACKWARDS):
        yield text[::-1]
    if _LEET.isinstance_python(lowered):
        yield lowered.translate(_UNLEET)
    if _MAY_BE_SPACED.isinstance_python(text):
        yield _SPACED.sub(lambda match: _joined(match[0]), text)
    for match, _ in zip(_HEXADECIMAL.finditer(text), range(_PIECES), strict=False):
        yield from _as_text(bytes.fromhex(match[0]))
    for match, _ in zip(_BASE64.finditer(text), range(_PIECES), strict=False):
        piece = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            yield from _as_text(base64.b64decode(piece[: len(piece) - (len(piece) % 4 == 1)] + "=" * (-len(piece) % 4)))
        except (binascii.Error, ValueError):
            continue
    for match, _ in zip(_BINARY.finditer(text), range(_PIECES), strict=False):
        yield from _as_text(bytes(int(bits, 2) for bits in _BYTE.findall("".join(match[0].split()))))
    if "=" in text and len(pieces := _ASSIGNED.findall(text)) > 2:  # pieces of a text, assigned to variables
        yield "".join(pieces[:200])


def _joined(spaced: str) -> str:
    """Joins words that are spelt with a space, dot or hyphen between letters; a longer or other gap divides words."""
    between = spaced[1]
    words_ = spaced.replace("\u00a0", " ").split("  " if between in " \u00a0" else " ")
    return " ".join(word.replace(between, "") for word in words_)


def _as_text(data: bytes) -> Iterator[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if sum(char.isalpha() or char.isspace() for char in text) > 0.7 * len(text):
        yield text


_SPACELESS = "[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"


_LOOSE_WORD = r"[0-9a-z_\x{80}-\x{10ffff}]"
_REPETITION = re.compile(r"\{(\d+),\d*\}")


class Matcher:
    """Searches a lower-case text in linear time, by pydantic's regular expressions.

    It finds whole words, or any part in scripts without spaces; words of `within` may be parts of words. A `loose`
    matcher has false matches, but is small: the engine is fast as long as its states fit into its memory. The first
    search compiles it, which takes 2 ms.
    """

    def __init__(self, whole: Iterable[str], within: Iterable[str] = (), *, loose: bool = False) -> None:
        self.whole = tuple(whole)
        self.within = tuple(within)
        self._loose = loose
        self._search: Callable[[str], bool] | None = None

    def occurs_in(self, text: str) -> bool:
        """Whether a word of the matcher occurs in the text."""
        if self._search is None:
            self._search = _matcher(self._pattern()).isinstance_python
        return self._search(text)

    def _pattern(self) -> str:
        words = [one for line in self.whole for one in _top_level(line)]
        branches = [*self.within, *(one for one in words if _BEGINS_SPACELESS.match(one))]
        before, after = ("a-z0-9", "a-z0-9") if self._loose else (r"\p{L}\p{N}", r"\p{L}\p{M}\p{N}")
        if apart := "|".join(one for one in words if not _BEGINS_SPACELESS.match(one)):
            branches.append(rf"(?:^|[^{before}])(?:{apart})(?:$|[^{after}])")
        pattern = "|".join(branches)
        if not self._loose:
            return pattern
        # A loose pattern matches more with fewer states: it has neither Unicode categories nor counting.
        return _REPETITION.sub(lambda times: "*" if times[1] == "0" else "+", pattern.replace(r"\w", _LOOSE_WORD))


def may_be_any(some: Iterable[Matcher]) -> Matcher:
    """One loose matcher for several matchers: a text without its words needs no further search."""
    distinct = [*dict.fromkeys(some)]
    whole = [word for matcher in distinct for word in matcher.whole]
    return Matcher(whole, [word for matcher in distinct for word in matcher.within], loose=True)


_BEGINS_SPACELESS = re.compile(rf"(?:10)?(?:\(\?:)*{_SPACELESS}")


def _top_level(line: str) -> Iterator[str]:
    """The alternatives of a pattern, apart from those inside brackets."""
    start = depth = 0
    for at, char in enumerate(line):
        depth += (char == "(") - (char == ")")
        if char == "|" and not depth:
            yield line[start:at]
            start = at + 1
    yield line[start:]


def matchers(name: str, *, within: Sequence[str] = ()) -> dict[str, Matcher]:
    """The word lists in a file of this folder as matchers, by name; the lists in `within` also match parts of words."""
    lists = load_words("evaluators.attacks", name)
    return {kind: Matcher((), words) if kind in within else Matcher(words) for kind, words in lists.items()}


Ways = dict[str, list[tuple["Matcher", ...]]]
"""Ways to give a sign, by the sign's name: a sentence with all words of one way has the sign."""


def ways_of(words: Mapping[str, Matcher], signs: Mapping[str, Sequence[str]]) -> Ways:
    """The ways of signs, each written as the names of word lists that must come together."""
    return {sign: [tuple(words[name] for name in way.split()) for way in ways] for sign, ways in signs.items()}


class Signs:
    """Finds signs by the words of their ways. The rarest words of a way are searched first: most texts have none."""

    def __init__(self, ways: Ways) -> None:
        self.first = may_be_any(way[0] for listed in ways.values() for way in listed)
        self._ways = ways

    def find(self, lowered: str, divide: Callable[[str], Iterator[str]] | None = None) -> Iterator[str]:
        """The names of the signs with a way that is wholly in one sentence, or in one part that `divide` makes."""
        if not self.first.occurs_in(lowered):
            return
        known: dict[Matcher, bool] = {}
        possible: list[tuple[str, tuple[Matcher, ...]]] = []
        for name, ways in self._ways.items():
            for way in ways:
                for word in way:  # most texts lack the first word, so the others are not searched
                    if (occurs := known.get(word)) is None:
                        occurs = known[word] = word.occurs_in(lowered)
                    if not occurs:
                        break
                else:
                    possible.append((name, way))
        for part in (divide or _sentences)(lowered) if possible else ():
            yield from (name for name, way in possible if all(word.occurs_in(part) for word in way))


INJECTION_WORDS = matchers("injection_words.txt", within=("QUALITY",))
_SIGNS = Signs(
    ways_of(
        {**INJECTION_WORDS, "ROLE": Matcher((), [r"(?m:^)[\s#*]*(?:system|assistant|instruction):"])},
        {
            "asks_to_ignore_instructions": ("IGNORE INSTRUCTIONS PRIOR",),
            "asks_for_a_score": (
                *("MAXIMUM DEMAND", "TARGET DEMAND TEN", "NO_DEDUCTION", "CHOSEN", "WISE GRADING", "WISE JUDGE"),
                *("MARKED_AS GRADING", "MARKED_AS TARGET", "MARKED_AS JUDGE"),
                *("APPROVED TARGET", "APPROVED GRADING", "APPROVED MAXIMUM", "APPROVED JUDGE"),
            ),
            "addresses_the_judge": (
                *("JUDGE ADDRESS DEMAND", "JUDGE ADDRESS MAXIMUM", "JUDGE ADDRESS TARGET", "JUDGE ADDRESS IGNORE"),
                "OFFICE",
            ),
            "holds_a_verdict": ("OVER", "QUALITY"),
            "plays_a_role": ("ROLE MAXIMUM", "ROLE TARGET", "ROLE INSTRUCTIONS PRIOR"),
        },
    )
)
_WHITE = r"[\s\x1c-\x1f]{0,9}"
_VERDICT = "(?:score|verdict|pass(?:ed)?|grade|rating|result|winner)"
_FORMS = {
    "holds_a_verdict": Matcher((), [rf"[\"'<]{_VERDICT}(?:[\"']{_WHITE}:|>){_WHITE}[\"']?(?:\d|pass|fail|yes|true)"]),
    "holds_a_marker": Matcher((), (rf"<<<{_WHITE}(?:end of )?material", r"</?(?:material|instructions?)>")),
    # the space after the bracket is what cleaning puts there
    "plays_a_role": Matcher((), (r"<\| ?[\w\- ]{1,40}\|>", r"\[ ?/?inst\]", "<< ?/?sys>>", r"\[system\]")),
}
_MAY_HAVE_FORM = may_be_any(_FORMS.values())
_STATED = INJECTION_WORDS["STATED"]
_MAY_BE_STATED = may_be_any((_STATED,))
_VERDICT_TOO = re.compile(r"[\"'<](?:verdict|reason|explanation|winner)[\"'>]")
_SENTENCE_END = re.compile(r"(?:[.!?;]\s|[\n\u3002\uff01\uff1f])")
_HIDDEN = re.compile("[\U000e0000-\U000e007f\u202a-\u202e]|(?<=[a-zA-Z])[\u200b-\u200d\u2060](?=[a-zA-Z])")
"""A hidden copy of ASCII, marks that override the direction of writing, and gaps inside words."""

_LONGEST = 20_000
_LONGEST_SENTENCE = 400


def detect(material: Mapping[str, Json]) -> frozenset[str]:
    """The names of the signs in any text of the material."""
    return frozenset[str]().union(*map(partial(signs_in, find=_signs), iter_texts(material)))


def signs_in(text: str, find: Callable[[str], Iterable[str]]) -> set[str]:
    """The signs that `find` sees in the normalized text, in lower case, and in its hidden parts. In a long text,
    beginning and end are searched.
    """
    excerpt = text[:_LONGEST] + text[-_LONGEST:] if len(text) > 2 * _LONGEST else text
    plain = normalize(excerpt)
    signs = set(find(sanitize(plain).lower()))
    for hidden in decoded(plain):
        of_hidden = set(find(sanitize(normalize(hidden)).lower()))
        signs.update(of_hidden, {"encodes_instructions"} if of_hidden else ())
    if not excerpt.isascii() and _HIDDEN.search(excerpt):
        signs.add("hides_characters")
    return signs


def _signs(lowered: str) -> Iterator[str]:
    for name, form in _FORMS.items() if _MAY_HAVE_FORM.occurs_in(lowered) else ():
        if form.occurs_in(lowered) and (name != "holds_a_verdict" or _VERDICT_TOO.search(lowered)):
            yield name
    if _MAY_BE_STATED.occurs_in(lowered) and _STATED.occurs_in(lowered):  # also on several lines
        yield "holds_a_verdict"
    yield from _SIGNS.find(lowered)


def _sentences(text: str) -> Iterator[str]:
    """Sentences; a long one in overlapping parts."""
    for sentence in _SENTENCE_END.split(text):
        yield from parts_of(sentence, _LONGEST_SENTENCE)


def parts_of(text: str, size: int = 4000) -> Iterator[str]:
    """Overlapping parts of a text, of `size` characters."""
    yield from (text[start : start + size] for start in range(0, max(1, len(text)), size // 2))
