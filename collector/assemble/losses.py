"""The losses of a trace to its sender's limits: texts that were cut, attributes and events that were dropped.

A limit on the length of attributes leaves no mark. It shows where a document is unfinished, or where several texts end
at the same length, and no attribute of the service is longer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.assemble.model_calls import normalize_whitespace
from collector.assemble.read_spans import ParsedSpan
from collector.dialects.decode import is_unfinished
from collector.dialects.program_fields import is_marked
from collector.otlp.span import LogRecord, Span
from evaluators.cases import Json

_SHORTEST_LIMIT = 32
"""Characters; no sender limits its attributes to fewer, so a shorter text is whole."""
_USUAL_LIMITS = frozenset((*(1 << power for power in range(6, 17)), *range(50, 1000, 50), *range(1000, 50_001, 500)))
"""Characters of limits that people choose: one text of such a length that ends within a sentence was cut, too."""
_ENDS = frozenset(".!?。！？…\"'`)]}>|*:;\n")
_SHORTEST_PROSE = 50
_DISTINCTIVE_LENGTH = 16
_PROMPT_FIELDS = ("history", "system_prompt")
_SEARCH_FIELDS = ("retrieval_context", "tools_called")


@dataclass(frozen=True, slots=True)
class Losses:
    """The texts of a trace that were cut, by the ids of their spans, and the ids of all spans that lost anything."""

    texts: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    spans: frozenset[str] = frozenset()

    def has_cut(self, texts: Iterable[str | None], own: Iterable[Span]) -> bool:
        """Whether one of a turn's texts was in a text of its own spans that was cut; "" may be all that is left."""
        if not self.texts:
            return False
        ids = ("", *(span.span_id for span in own))  # "": log records without a span
        cut = [text for span_id in ids for text in self.texts.get(span_id, ())]
        if not cut:
            return False
        known = [normalize_whitespace(text) for text in texts if text is not None]
        return any(
            one.endswith(text) or one in text or (len(text) >= _DISTINCTIVE_LENGTH and text in one)
            for text in known
            for one in cut
        )

    def parts(self, own: Iterable[str]) -> Sequence[str]:
        """The fields of a turn that may not be whole, given the ids of its spans."""
        if not self.spans:
            return ()
        return _SEARCH_FIELDS if self.spans.isdisjoint(own) else (*_PROMPT_FIELDS, *_SEARCH_FIELDS)


NO_LOSSES = Losses()


@dataclass(slots=True)
class _Longest:
    """The longest texts of a service so far, each with the id of its span."""

    length: int = _SHORTEST_LIMIT
    texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def find_losses(parsed_spans: Iterable[ParsedSpan], spans: Iterable[Span], records: Iterable[LogRecord]) -> Losses:
    """Find what was cut or dropped in a trace."""
    services: dict[str, _Longest] = {}
    cut: list[tuple[str, str]] = []
    holders: list[Span | LogRecord] = [*spans, *records]
    for holder in holders:
        if not holder.attributes and isinstance(holder, Span) and not holder.events:
            continue
        texts = _texts_of(holder)
        if not texts:
            continue
        length = max(map(len, texts))
        longest = [(holder.span_id or "", text) for text in texts if len(text) == length]
        if any(text[0] in "[{" and is_unfinished(text) for _, text in longest):
            cut += longest
        service = services.setdefault(str(holder.resource.get("service.name")), _Longest())
        if length > service.length:
            service.length, service.texts = length, longest
        elif length == service.length:
            service.texts += longest
    for service in services.values():
        cut += service.texts if _is_limit(service) else ()
    lost = {parsed_span.span.span_id for parsed_span in parsed_spans if _has_lost(parsed_span)}
    if not (cut or lost):
        return NO_LOSSES
    by_span: dict[str, frozenset[str]] = {}
    for span_id, text in cut:
        lost.add(span_id)
        if is_marked(text) or not is_unfinished(text):
            by_span[span_id] = by_span.get(span_id, frozenset()) | {normalize_whitespace(text)}
    return Losses(by_span, frozenset(lost))


def _has_lost(parsed_span: ParsedSpan) -> bool:
    span, call = parsed_span
    if span.dropped_attributes or _LOSSES.intersection((call.input_incomplete, call.output_incomplete)):
        return True
    return span.dropped_events > 0 and call.kind in {"tool", "retrieval"}


_LOSSES = frozenset(("truncated", "evicted_attributes"))


def _texts_of(holder: Span | LogRecord) -> list[str]:
    """The texts that are long enough to be cut, of attributes and events."""
    texts = _find_long(holder.attributes)
    for event in holder.events if isinstance(holder, Span) else ():
        if event.name != "exception":
            texts += _find_long(event.attributes)
    return texts


def _find_long(attributes: Mapping[str, Json]) -> list[str]:
    values = attributes.values()
    texts = [value for value in values if type(value) is str and len(value) >= _SHORTEST_LIMIT]
    for value in values:
        if type(value) is dict or type(value) is list:
            texts += _find_long(value if isinstance(value, dict) else dict(enumerate(value)))  # type: ignore[arg-type]
    return texts


def _is_limit(longest: _Longest) -> bool:
    """Whether the longest texts end where a limit was, rather than where somebody ended them."""
    texts = {text for _, text in longest.texts}
    is_usual = longest.length in _USUAL_LIMITS
    if any(is_unfinished(text, at_once=not is_usual and _is_balanced(text)) for text in texts):
        return True
    prose = [text for text in texts if text[-1] not in _ENDS and " " in text]
    return len(prose) > (not is_usual) and longest.length >= _SHORTEST_PROSE


def _is_balanced(text: str) -> bool:
    return text.count("{") == text.count("}") and text.count("[") == text.count("]")
