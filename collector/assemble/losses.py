"""The losses of a trace to its sender's limits: texts that were cut, attributes and events that were dropped.

A limit on the length of attributes leaves no mark. It shows where a document is unfinished, or where several texts end
at the same length, and no attribute of the service is longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.assemble.model_calls import normalize_whitespace
from collector.assemble.read_spans import ParsedSpan
from collector.dialects.decode import as_dict, as_list, is_unfinished
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
    """The longest texts of a span or a service so far, and the ids of the spans that have them."""

    length: int = _SHORTEST_LIMIT
    texts: list[str] = field(default_factory=list[str])
    spans: list[str] = field(default_factory=list[str])

    def add(self, texts: Iterable[str], span_id: str, length: int) -> None:
        """Add texts of one length."""
        if length > self.length:
            self.length, self.texts, self.spans = length, [], []
        if length == self.length:
            self.texts += texts
            self.spans += [span_id] * (len(self.texts) - len(self.spans))


def find_losses(parsed_spans: Iterable[ParsedSpan], spans: Iterable[Span], records: Iterable[LogRecord]) -> Losses:
    """Find what was cut or dropped in a trace."""
    services: dict[object, _Longest] = {}
    cut: list[_Longest] = []
    holders: list[Span | LogRecord] = [*spans, *records]
    for holder in holders:
        longest = _Longest()
        _add_texts(longest, holder.attributes.values(), holder.span_id or "")
        for event in holder.events if isinstance(holder, Span) else ():
            if event.name != "exception":
                _add_texts(longest, event.attributes.values(), holder.span_id or "")
        if any(map(is_unfinished, longest.texts)):
            cut.append(longest)
        service = services.setdefault(holder.resource.get("service.name"), _Longest())
        service.add(longest.texts, holder.span_id or "", longest.length)
    cut += [service for service in services.values() if service.texts and _is_limit(service)]
    lost = {parsed_span.span.span_id for parsed_span in parsed_spans if _has_lost(parsed_span)}
    if not (cut or lost):
        return NO_LOSSES
    texts: dict[str, frozenset[str]] = {}
    for longest in cut:
        lost.update(longest.spans)
        for span_id, text in zip(longest.spans, longest.texts, strict=True):
            if is_marked(text) or not is_unfinished(text):
                texts[span_id] = texts.get(span_id, frozenset()) | {normalize_whitespace(text)}
    return Losses(texts, frozenset(lost))


def _has_lost(parsed_span: ParsedSpan) -> bool:
    span, call = parsed_span
    if span.dropped_attributes or _LOSSES.intersection((call.input_incomplete, call.output_incomplete)):
        return True
    return span.dropped_events > 0 and call.kind in {"tool", "retrieval"}


_LOSSES = frozenset(("truncated", "evicted_attributes"))


def _add_texts(longest: _Longest, values: Iterable[Json], span_id: str) -> None:
    for value in values:
        if type(value) is str:
            if len(value) >= longest.length:
                longest.add((value,), span_id, len(value))
        elif isinstance(value, dict):
            _add_texts(longest, as_dict(value).values(), span_id)
        elif isinstance(value, list):
            _add_texts(longest, as_list(value), span_id)


def _is_limit(longest: _Longest) -> bool:
    """Whether the longest texts end where a limit was, rather than where somebody ended them."""
    if any(is_unfinished(text, at_once=False) for text in dict.fromkeys(longest.texts)):
        return True
    prose = {text for text in longest.texts if text[-1] not in _ENDS and " " in text}
    return len(prose) > (longest.length not in _USUAL_LIMITS) and longest.length >= _SHORTEST_PROSE
