"""The losses of a trace to its sender's limits: texts that were cut, attributes and events that were dropped.

A limit on the length of attributes leaves no mark. It shows if a document is unfinished, or if several texts end at the
same length and no attribute of the service is longer.
"""

from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field

from collector.assemble.model_calls import normalize_whitespace
from collector.assemble.read_spans import ParsedSpan
from collector.dialects.decode import as_dict, as_list, begins_document, is_json, is_unfinished
from collector.dialects.program_fields import is_marked
from collector.otlp.span import CLOSING, SHORT, LogRecord, Span
from evaluators.cases import Json

_SHORTEST_LIMIT = 32
"""The fewest characters of a limit; a shorter text is whole."""
_USUAL_LIMITS = frozenset((*(1 << power for power in range(6, 17)), *range(50, 1000, 50), *range(1000, 50_001, 500)))
"""Limits (characters) that people choose. A single text of such a length that ends within a sentence was cut."""
_ENDS = frozenset(".!?。！？؟।…\"'`”’»」』)]}>|*:;\n")
_SHORTEST_UNUSUAL = 256
"""The fewest characters of a limit that is not usual; shorter texts often have the same length by chance."""
_DISTINCTIVE_LENGTH = 16
_LONGEST_ENDING = 64
"""The characters in which the last two words of a text are looked for: few texts have longer ones, and a text may have
millions of characters to split.
"""
PROMPT_FIELDS = ("history", "system_prompt")
_SEARCH_FIELDS = ("retrieval_context", "tools_called")


@dataclass(frozen=True, slots=True)
class Losses:
    """The texts of a trace that were cut, by the ids of their spans, and the ids of all spans that lost anything.

    `grounds` say why a cut is suspected.
    """

    texts: Mapping[str, AbstractSet[str]] = field(default_factory=dict[str, AbstractSet[str]])
    spans: frozenset[str] = frozenset()
    grounds: tuple[str, ...] = ()

    def has_cut(self, texts: Iterable[str | None], own: Iterable[Span]) -> bool:
        """Whether a turn's text comes from a cut text of its own spans. An empty text may be the rest of a dropped
        one.
        """
        ids = ("", *(span.span_id for span in own))  # "": log records without a span
        cut = {text for span_id in ids for text in self.texts.get(span_id, ())}
        known = [normalize_whitespace(text) for text in texts if text is not None] if cut else []
        cut = {normalize_whitespace(text) for text in cut} if known else set[str]()
        return any(
            one.endswith(text) or one in text or (len(text) >= _DISTINCTIVE_LENGTH and text in one)
            for text in known
            for one in cut
        )

    def parts(self, own: Iterable[str]) -> Sequence[str]:
        """The fields of a turn that may not be whole, given the ids of its spans."""
        if not self.spans:
            return ()
        return _SEARCH_FIELDS if self.spans.isdisjoint(own) else (*PROMPT_FIELDS, *_SEARCH_FIELDS)


NO_LOSSES = Losses()


_Texts = tuple[str, list[str]]
"""The id of a span, "" for none, and its longest texts, all of one length."""


def find_losses(parsed_spans: Iterable[ParsedSpan], spans: Sequence[Span], records: Sequence[LogRecord]) -> Losses:
    """Find what was cut or dropped in a trace."""
    services: dict[str, list[_Texts]] = {}
    cut: list[_Texts] = []
    short: list[Span] = []
    holders: Iterable[Span | LogRecord] = (*spans, *records) if records else spans
    for holder in holders:
        if isinstance(holder, Span) and holder.doubtful is not None and not (holder.doubtful or holder.events):
            short.append(holder)
        else:
            _add_longest(holder, services, cut)
    for span in short:
        known = services.get(str(span.resource.get("service.name")))
        if span.attributes and not (known and len(known[0][1][0]) >= SHORT):  # else limits are longer than its texts
            _add_longest(span, services, cut)
    grounds = [f"JSON in {f'span {span_id}' if span_id else 'a log record'} is unfinished" for span_id, _ in cut]
    for name, service in services.items():
        if _is_limit(service):
            cut += service
            length = len(service[0][1][0])
            grounds.append(f"no text of {name} exceeds {length:,} characters, where a sentence or JSON breaks off")
    lost = [
        span.span_id
        for span, call in parsed_spans
        if span.dropped_attributes
        or (span.dropped_events > 0 and call.kind in {"tool", "retrieval"})
        or call.input_incomplete in _LOSSES
        or call.output_incomplete in _LOSSES
    ]
    if not (cut or lost):
        return NO_LOSSES
    by_span: dict[str, set[str]] = {}
    for span_id, texts in cut:
        lost.append(span_id)
        whole = [text for text in texts if not is_unfinished(text) or is_marked(text)]
        if whole:
            by_span.setdefault(span_id, set()).update(whole)
    return Losses(by_span, frozenset(lost), tuple(grounds))


_LOSSES = frozenset(("truncated", "evicted_attributes"))


def _add_longest(holder: Span | LogRecord, services: dict[str, list[_Texts]], cut: list[_Texts]) -> None:
    """Add the longest texts of a span or log record to those that are cut, and to the longest ones of its service."""
    texts = _list_longest(holder)
    if not texts:
        return
    if any(text[0] in CLOSING and text[-1] != CLOSING[text[0]] and is_unfinished(text) for text in texts):
        cut.append((holder.span_id or "", texts))
    known = services.setdefault(str(holder.resource.get("service.name")), [])
    longer = len(texts[0]) - len(known[0][1][0]) if known else 0
    if longer > 0:
        known.clear()
    if longer >= 0:
        known.append((holder.span_id or "", texts))


def _list_longest(holder: Span | LogRecord) -> list[str]:
    """The longest texts of attributes and events, all of one length; none if they are too short to be cut."""
    attributes = holder.attributes
    if not isinstance(holder, Span):
        return _find_longest(attributes.values(), [])
    texts = _find_longest(map(attributes.get, holder.doubtful), []) if holder.doubtful else list[str]()
    if attributes and (not texts or len(texts[0]) < SHORT):  # otherwise all texts of that length are among these
        texts = _find_longest(attributes.values(), [])
    for event in holder.events:
        if event.name != "exception":
            texts = _find_longest(event.attributes.values(), texts)
    return texts


def _find_longest(values: Iterable[Json], texts: list[str]) -> list[str]:
    """The longest ones, which have the same length, among these texts and the texts in values; none too short to be
    cut.
    """
    length = len(texts[0]) if texts else _SHORTEST_LIMIT
    for value in values:
        if type(value) is str:
            if len(value) >= length:
                if len(value) > length:
                    length, texts = len(value), []
                texts.append(value)
        elif value and (type(value) is list or type(value) is dict):
            texts = _find_longest(as_dict(value).values() or as_list(value), texts)
            length = len(texts[0]) if texts else length
    return texts


def _is_limit(longest: Sequence[_Texts]) -> bool:
    """Whether the longest texts end at a limit, rather than where their authors ended them."""
    texts = {text for _, some in longest for text in some}
    length = len(longest[0][1][0])
    is_usual = length in _USUAL_LIMITS
    prose: dict[tuple[str, ...], list[str]] = {}
    for text in texts:
        if text[-1] not in _ENDS and " " in text:
            prose.setdefault(tuple(text[-_LONGEST_ENDING:].split()[-2:]), []).append(text)
        # most documents are whole, and parsing takes a tenth of the time of counting brackets
        if (text[0] in CLOSING or begins_document(text)) and not is_json(text):
            is_balanced = text.count("{") == text.count("}") and text.count("[") == text.count("]")
            if is_unfinished(text, at_once=not is_usual and is_balanced):
                return True
    # a limit cuts at arbitrary places; texts with the same last words are whole, such as those with one signature
    alone = [text for text, *others in prose.values() if not others]
    if is_usual:
        return bool(alone)
    return length >= _SHORTEST_UNUSUAL and any(not _have_one_template(alone[0], text) for text in alone[1:])


def _have_one_template(text: str, other: str) -> bool:
    """Whether at least half of the words, apart from those with digits, are in both texts."""
    words, others = ({word for word in each.split() if not any(map(str.isdigit, word))} for each in (text, other))
    return 2 * len(words & others) >= max(len(words), len(others))
