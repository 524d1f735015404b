"""Signs that a judged text speaks to its judge. They are reported beside a score and change nothing about it.

Instructions may hide in other readings of a text: look-alike letters, encodings, spaces between letters. Reading them
is linear in the length of the text; only a few pieces are decoded, each of bounded length.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
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
_MAY_BE_SPACED = _matcher(r"(?:[\pL\d][ \x{a0}.\-]+){5}[\pL\d]")
_MAY_BE_ENCODED = _matcher(r"[A-Za-z0-9+/_\-]{24}")
_ROT13 = ("vtaber", "qvfertneq", "vafgehpgvba", "rinyhngbe", "tenqre", "fpber", "ireqvpg", "ernfba")

_BACKWARDS = ("snoitcurtsni", "tpmorp", "erocs", "rewsna", "esnopser", "erongi", "etar ", "edarg", "selur", "siht ")
"""Words of such texts from their end."""
_LEET_WORD = r"[a-z]*(?:[a-z][013457@$]|[013457@$][a-z])[a-z013457@$]*"
_LEET = _matcher(rf"(?:^|[^a-z0-9]){_LEET_WORD} {_LEET_WORD}(?:$|[^a-z0-9])")
_UNLEET = str.maketrans("013457@$", "oieastas")


def normalize(text: str) -> str:
    """The text as a reader sees it: without unseen characters, compatibility forms and look-alike letters replaced."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    return text.translate(_LOOK_ALIKES) if _MIXED.search(text) else text


def has_any(text: str, words: Iterable[str]) -> bool:
    """Whether one of some words is in a text."""
    for word in words:  # noqa: SIM110 - a generator costs more than the search
        if word in text:
            return True
    return False


def decoded(text: str) -> Iterator[str]:
    """The hidden parts of the text: each encoded piece that decodes to text."""
    if not text.isascii() and _TAGS.search(text):
        yield "".join(_TAGS.findall(text)).translate(_UNTAGGED)
    if "&#" in text:
        yield html.unescape(text)
    if "%20" in text:
        yield unquote(text)
    lowered = text.lower()
    if has_any(lowered, _ROT13):
        yield codecs.decode(text, "rot13")
    if has_any(lowered, _BACKWARDS):
        yield text[::-1]
    if _LEET.isinstance_python(lowered):
        yield lowered.translate(_UNLEET)
    if _MAY_BE_SPACED.isinstance_python(text):
        yield _SPACED.sub(lambda match: _joined(match[0]), text)
    if _MAY_BE_ENCODED.isinstance_python(text):
        yield from _decoded_pieces(text)
    for match, _ in zip(_BINARY.finditer(text), range(_PIECES), strict=False):
        yield from _as_text(bytes(int(bits, 2) for bits in _BYTE.findall("".join(match[0].split()))))
    if "=" in text and len(pieces := _ASSIGNED.findall(text)) > 2:  # a text in pieces that are given names
        yield "".join(pieces[:200])


def _decoded_pieces(text: str) -> Iterator[str]:
    for match, _ in zip(_HEXADECIMAL.finditer(text), range(_PIECES), strict=False):
        yield from _as_text(bytes.fromhex(match[0]))
    for match, _ in zip(_BASE64.finditer(text), range(_PIECES), strict=False):
        piece = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            yield from _as_text(base64.b64decode(piece[: len(piece) - (len(piece) % 4 == 1)] + "=" * (-len(piece) % 4)))
        except (binascii.Error, ValueError):
            continue


def _joined(spaced: str) -> str:
    """Words whose letters are separated by one space, dot or hyphen, and which are separated by more or another."""
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


class Matcher:
    """Searches in linear time, by the engine of pydantic: whole words, but in scripts without spaces anywhere.

    Without `whole` parts of words, too. It is compiled when it is first asked, which takes 2 ms.
    """

    def __init__(self, alternatives: Sequence[str], *, whole: bool = True) -> None:
        self._alternatives = alternatives
        self._whole = whole
        self._search: Callable[[str], bool] | None = None

    def occurs_in(self, text: str) -> bool:
        """Whether it occurs in the text."""
        if self._search is None:
            self._search = self._compile()
        return self._search(text)

    def _compile(self) -> Callable[[str], bool]:
        branches = [one for line in self._alternatives for one in _top_level(line)]
        if self._whole:
            apart = "|".join(one for one in branches if not _BEGINS_SPACELESS.match(one))
            glued = [one for one in branches if _BEGINS_SPACELESS.match(one)]
            branches = [rf"(?:^|[^\p{{L}}\p{{N}}])(?:{apart})(?:$|[^\p{{L}}\p{{M}}\p{{N}}])", *glued]
        return _matcher("|".join(branches)).isinstance_python


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
    """The lists of a file of this folder as matchers, by name; those of `within` match parts of words, too."""
    lists = load_words("evaluators.attacks", name)
    return {list_name: Matcher(words, whole=list_name not in within) for list_name, words in lists.items()}


Signs = Mapping[str, Sequence[Sequence[Matcher]]]
"""The words that one sentence must contain, by the sign's name: all of one of its ways."""


def signs_of(words: Mapping[str, Matcher], signs: Mapping[str, Sequence[str]]) -> Signs:
    """Signs whose ways name the lists of words that must come together."""
    return {sign: [tuple(words[name] for name in way.split()) for way in ways] for sign, ways in signs.items()}


INJECTION_WORDS = matchers("injection_words.txt", within=("QUALITY",))
_SIGNS: Signs = signs_of(
    {**INJECTION_WORDS, "ROLE": Matcher([r"(?m:^)[\s#*]*(?:system|assistant|instruction):"], whole=False)},
    {
        "asks_to_ignore_instructions": ("IGNORE INSTRUCTIONS PRIOR",),
        "asks_for_a_score": (
            *("DEMAND MAXIMUM", "DEMAND TARGET TEN", "NO_DEDUCTION", "CHOSEN", "WISE GRADING", "WISE JUDGE"),
            *("MARKED_AS GRADING", "MARKED_AS TARGET", "MARKED_AS JUDGE"),
            *("APPROVED TARGET", "APPROVED GRADING", "APPROVED MAXIMUM", "APPROVED JUDGE"),
        ),
        "addresses_the_judge": (
            *("ADDRESS JUDGE DEMAND", "ADDRESS JUDGE MAXIMUM", "ADDRESS JUDGE TARGET", "ADDRESS JUDGE IGNORE"),
            "OFFICE",
        ),
        "holds_a_verdict": ("OVER", "QUALITY"),
        "plays_a_role": ("ROLE MAXIMUM", "ROLE TARGET", "ROLE INSTRUCTIONS PRIOR"),
    },
)

_FORMS: Mapping[str, re.Pattern[str]] = {
    "holds_a_verdict": re.compile(
        r"(?:[\"']|<)(?:score|verdict|pass(?:ed)?|grade|rating|result|winner)(?:[\"']\s{0,9}:|>)\s{0,9}[\"']?(?:\d|pass|fail|yes|true)"
    ),
    "holds_a_marker": re.compile(r"<<<\s{0,9}(?:end of )?material|</?(?:material|instructions?)>"),
    # the space after the bracket is what cleaning puts there
    "plays_a_role": re.compile(r"<\| ?[\w\- ]{1,40}\|>|\[ ?/?inst\]|<< ?/?sys>>|\[system\]"),
}
_HINTS = {
    "holds_a_verdict": tuple(
        f"{name}{end}"
        for name in ("score", "dict", "pass", "passed", "ade", "ating", "sult", "inner")
        for end in "\"'>"
    ),
    "holds_a_marker": ("<<<", "material>", "instruction"),
    "plays_a_role": ("<|", "inst]", "sys>>", "[system]"),
}
"""One of these is in a text of each form: most texts have none."""
_VERDICT_TOO = re.compile(r"[\"'<](?:verdict|reason|explanation|winner)[\"'>]")
_SENTENCE_END = re.compile(r"(?:[.!?;]\s|[\n\u3002\uff01\uff1f])")
_HIDDEN = re.compile("[\U000e0000-\U000e007f\u202a-\u202e]|(?<=[a-zA-Z])[\u200b-\u200d\u2060](?=[a-zA-Z])")
"""A hidden copy of ASCII, marks that override the direction of writing, and gaps inside words."""

_LONGEST = 20_000
_LONGEST_SENTENCE = 400


def detect(material: Mapping[str, Json]) -> frozenset[str]:
    """The names of the signs in any text of the material."""
    return frozenset(sign for text in iter_texts(material) for sign in signs_in(text, _signs))


def signs_in(text: str, find: Callable[[str], Iterable[str]]) -> set[str]:
    """The signs that `find` sees in a text as its reader sees it, in lower case, and in what is hidden in it.

    Of a long text beginning and end are looked at.
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
    for name, form in _FORMS.items():
        if (
            has_any(lowered, _HINTS[name])
            and form.search(lowered)
            and (name != "holds_a_verdict" or _VERDICT_TOO.search(lowered))
        ):
            yield name
    if INJECTION_WORDS["STATED"].occurs_in(lowered):  # on several lines, too
        yield "holds_a_verdict"
    yield from find_together(lowered, _SIGNS)


def find_together(lowered: str, signs: Signs, divide: Callable[[str], Iterator[str]] | None = None) -> Iterator[str]:
    """The names of the signs of which all parts of one way are in one sentence, or in one part by `divide`."""
    known: dict[Matcher, bool] = {}
    possible: list[tuple[str, Sequence[Matcher]]] = []
    for name, ways in signs.items():
        for way in ways:
            for word in way:  # of most ways the first is nowhere, and the others are not sought
                if (occurs := known.get(word)) is None:
                    occurs = known[word] = word.occurs_in(lowered)
                if not occurs:
                    break
            else:
                possible.append((name, way))
    for part in (divide or _sentences)(lowered) if possible else ():
        for name, way in possible:
            if all(word.occurs_in(part) for word in way):
                yield name


def _sentences(text: str) -> Iterator[str]:
    """Sentences; a long one in overlapping parts."""
    for sentence in _SENTENCE_END.split(text):
        yield from parts_of(sentence, _LONGEST_SENTENCE)


def parts_of(text: str, size: int = 4000) -> Iterator[str]:
    """Overlapping parts of a text, of `size` characters."""
    for start in range(0, max(1, len(text)), size // 2):
        yield text[start : start + size]
