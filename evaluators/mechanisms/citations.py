"""Citations in an answer: their places, the sources that they name, and the sources that a turn has."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluators.asking.judge_input import iter_texts, list_results
from evaluators.cases import Json, Turn

MOST_CITATIONS = 500
"""The most citations of an answer that are read."""

_CODE = re.compile(r"```[^`]*+(?:```|\Z)|`[^`\n]{0,200}`")
_NUMBERS = re.compile(
    r"[\[\u3010]\^?"
    r"(?:(?:sources?|src|documents?|docs?|passages?|context|refs?|references?|citations?|quellen?)[ :#]{0,2})?"
    r"(\d{1,3}(?: ?[,;\u2013-] ?\d{1,3}){0,20})(?:[\u2020:][^\]\u3011\n\[]{0,60})?[\]\u3011](?!\()",
    re.IGNORECASE,
)
_ENDINGS = "(?:pdf|docx?|txt|md|html?|csv|xlsx?|pptx?|json)"
_NAMES = re.compile(
    rf"[\[\u3010](?:source: ?)?([\w\-./ ]{{1,120}}\.{_ENDINGS})(?:[,#:][^\]\u3011\n\[]{{0,60}})?[\]\u3011](?!\()",
    re.IGNORECASE,
)
_LINK = re.compile(r"https?://[^\s<>\"'()\[\]{}|\\^`\u3010\u3011\u201c\u201d]{3,2000}", re.IGNORECASE)
_RANGE = re.compile(r"(\d{1,3}) ?[\u2013-] ?(\d{1,3})")
_DIGITS = re.compile(r"\d{1,3}")
_OWN_NUMBER = re.compile(
    r"\s{0,3}(?:[\[\u3010(]\^?(\d{1,3})[\])\u3011]"
    r"|[\[\u3010(]?(?:source|document|doc|passage)[ #:]{0,2}(\d{1,3})[\]):.\u3011\n])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\u201d\u00bb]{0,2}(?=\s)|(?<=[\u3002\uff01\uff1f])|(?=\n)")
_LONGEST = 200_000


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation at a place of an answer: a number, a link or a file name."""

    start: int
    end: int
    target: int | str

    @property
    def is_link(self) -> bool:
        """Whether it is a link."""
        return isinstance(self.target, str) and self.target.startswith("http")


def find_citations(answer: str) -> Sequence[Citation]:
    """The citations of an answer in order, without citations in code; `[1-3]` are three."""
    text = _CODE.sub(lambda match: " " * len(match.group()), answer[:_LONGEST])
    citations = [*_numbered(text), *_named(text)]
    return sorted(citations, key=lambda citation: (citation.start, str(citation.target)))[:MOST_CITATIONS]


def _numbered(text: str) -> Iterator[Citation]:
    cited: set[int] = set()
    for match in _NUMBERS.finditer(text):
        numbers = list(_expand(match.group(1)))
        line = text.rfind("\n", 0, match.start()) + 1
        is_entry = not text[line : match.start()].strip(" \t>*-") and cited.issuperset(numbers)
        if not is_entry:  # an entry belongs to the list of references at the end, and is no citation
            cited.update(numbers)
            yield from (Citation(match.start(), match.end(), number) for number in numbers)


def _expand(numbers: str) -> Iterator[int]:
    ranges = {match.group(): match for match in _RANGE.finditer(numbers)}
    for first, last in ((int(match.group(1)), int(match.group(2))) for match in ranges.values()):
        yield from range(first, min(last, first + 50) + 1)
    yield from map(int, _DIGITS.findall(_RANGE.sub(" ", numbers)))


def _named(text: str) -> Iterator[Citation]:
    for match in _NAMES.finditer(text):
        yield Citation(match.start(), match.end(), match.group(1).strip().casefold())
    yield from (Citation(match.start(), match.end(), _plain_link(match.group())) for match in _LINK.finditer(text))


def _plain_link(link: str) -> str:
    """A link for comparison: no fragment, `www.`, closing mark or slash; the host in lower case, `https` as `http`."""
    link = link.partition("#")[0].rstrip(".,;:!?*").rstrip("/")
    scheme, _, rest = link.partition("://")
    host, slash, path = rest.partition("/")
    return f"http://{host.casefold().removeprefix('www.')}{slash}{path}" if scheme else link


@dataclass(frozen=True, slots=True)
class CitedSources:
    """The sources that a turn can cite: by number, links, and the texts that contain file names."""

    numbered: Mapping[int, Json]
    links: frozenset[str]
    names: str

    def has(self, citation: Citation) -> bool | None:
        """Whether the cited source exists; None for a file name if no source names any file."""
        if isinstance(citation.target, int):
            return citation.target in self.numbered
        if citation.is_link:
            return citation.target in self.links
        return citation.target in self.names if self.names else None


def cited_sources(case: Turn, first_number: int = 1) -> CitedSources:
    """The sources that an answer can cite: passages by number, or results of tools if there are no passages.

    If every source begins with a different number, these numbers count, else the places of the sources, from
    `first_number` on. Links may also come from the user, from earlier messages and from the instructions.
    """
    sources: Sequence[Json] = case.retrieval_context or list_results(case)
    own = [_own_number(source) for source in sources]
    numbers = [number for number in own if number is not None]
    if len(numbers) < len(own) or len(set(numbers)) < len(own):
        numbers = list(range(first_number, first_number + len(sources)))
    of_tools = [call.result for call in case.tools_called]
    texts = [text for source in (*case.retrieval_context, *of_tools) for text in iter_texts(source)]
    messages = [case.input, case.system_prompt, *(message.content for message in case.history)]
    return CitedSources(
        dict(zip(numbers, sources, strict=True)),
        frozenset(_links([*texts, *(message for message in messages if message)])),
        "\n".join(text.casefold() for text in texts if _FILE.search(text)),
    )


def _own_number(source: Json) -> int | None:
    match = _OWN_NUMBER.match(next(iter_texts(source), "") if not isinstance(source, str) else source)
    return int(match.group(1) or match.group(2)) if match else None


def _links(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (_plain_link(match.group()) for match in _LINK.finditer(text))


_FILE = re.compile(rf"\w\.{_ENDINGS}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CitedStatement:
    """A sentence of an answer with all its citations."""

    text: str
    citations: Sequence[Citation]


def cited_statements(answer: str) -> Sequence[CitedStatement]:
    """The sentences of an answer that cite something. A citation behind a full stop belongs to its sentence."""
    citations = find_citations(answer)
    if not citations:
        return ()
    ends = [*(match.end() for match in _SENTENCE_END.finditer(answer[:_LONGEST])), len(answer)]
    statements: list[CitedStatement] = []
    start = at = 0
    pending = ""
    for end in ends:
        own: list[Citation] = []
        while at < len(citations) and citations[at].start < end:
            own.append(citations[at])
            at += 1
        text = answer[start:end]
        start = end
        if own and pending and not _words_of(text, own, end):
            if statements and statements[-1].text == pending.strip():
                own = [*statements.pop().citations, *own]
            statements.append(CitedStatement(pending.strip(), own))
            continue
        if text.strip():
            pending = text
        if own:
            statements.append(CitedStatement(text.strip(), own))
    return statements


def _words_of(text: str, citations: Sequence[Citation], end: int) -> bool:
    """Whether a piece of the answer, which ends at `end`, has words beside its citations."""
    at = 0
    for start, stop in sorted({(citation.start, citation.end) for citation in citations}):
        if any(char.isalnum() for char in text[at : start - (end - len(text))]):
            return True
        at = max(at, stop - (end - len(text)))
    return any(char.isalnum() for char in text[at:])
