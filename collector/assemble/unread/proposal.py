"""A mapping that reads texts which no dialect reads, found by trying.

Names are hints, repetition is evidence: what users wrote and read is on several spans, or in a later request's history.
A mapping is proposed only after it was tried on the same traces.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from collector.assemble.collect_trace import CollectedTrace
from collector.assemble.model_calls import normalize_whitespace
from collector.assemble.trace import Assembler
from collector.assemble.unread.texts import TextAt, find_texts, shape_of
from collector.dialects.configured import DialectMapping, SpanMatch, make_dialect
from collector.dialects.places import parse_place
from collector.dialects.registry import Dialects
from collector.records.grouping import group_by
from evaluators.cases import Turn

_MAX_TRIES, _PLACES_EACH, _MAX_TRACES = 60, 3, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingProposal:
    """A mapping, and how many complete turns it gives, in how many of the traces that it was tried on."""

    mapping: DialectMapping
    turns: int
    traces: int

    def lines(self) -> Iterator[str]:
        """The section of a configuration, ready to paste."""
        mapping = self.mapping
        match = {"scope": mapping.match.scope, "span": mapping.match.span}
        parts = [f"{name}: {_quote(value)}" for name, value in match.items() if value]
        if mapping.match.attributes:
            pairs = ", ".join(f"{_quote(key)}: {_quote(value)}" for key, value in mapping.match.attributes.items())
            parts.append(f"attributes: {{{pairs}}}")
        yield "dialects:"
        yield f"  {mapping.name}:"
        yield f"    match: {{{', '.join(parts)}}}"
        if mapping.kind != "model":
            yield f"    kind: {mapping.kind}"
        for name, places in (("input", mapping.input), ("output", mapping.output)):
            yield from (f"    {name}: {_quote(place.text)}" for place in places)


def _quote(text: str) -> str:
    """A text as YAML, in quotes."""
    return "'" + text.replace("'", "''") + "'"


def propose(traces: Sequence[CollectedTrace], assembler: Assembler, name: str = "own") -> MappingProposal | None:
    """The mapping that reads some of these traces best, tried on all of them; None if none gives a complete turn."""
    whole, traces = traces, traces[:_MAX_TRACES]
    texts = [text for trace in traces for text in texts_of(trace)]
    repeats = Counter({text: len(ids) for text, ids in _span_ids(texts).items()})
    best: tuple[float, MappingProposal] | None = None
    for mapping in islice(_candidates(texts, traces, name), _MAX_TRIES):
        score, count = _try(mapping, traces, assembler, repeats)
        if count and (best is None or score > best[0]):
            best = (score, MappingProposal(mapping=mapping, turns=count, traces=len(traces)))
    if best is None or len(whole) == len(traces):
        return best[1] if best else None
    score, count = _try(best[1].mapping, whole, assembler, repeats)
    return MappingProposal(mapping=best[1].mapping, turns=count, traces=len(whole)) if score > 0 else None


def texts_of(trace: CollectedTrace) -> Iterator[TextAt]:
    """The texts of a trace, span by span."""
    by_span = group_by(trace.records, lambda record: record.span_id)
    for span in trace.spans:
        yield from find_texts(span, by_span.get(span.span_id, ()))


def _span_ids(texts: Iterable[TextAt]) -> dict[str, set[str]]:
    ids: dict[str, set[str]] = {}
    for text in texts:
        ids.setdefault(text.text, set()).add(text.span.span_id)
    return ids


def _candidates(texts: Sequence[TextAt], traces: Sequence[CollectedTrace], name: str) -> Iterator[DialectMapping]:
    """Mappings worth a try: spans with one scope and form of name, with the texts that look most like question and
    answer.
    """
    groups = group_by(texts, lambda text: (text.span.scope, shape_of(text.span.name)))
    ranked = sorted(groups.items(), key=lambda item: (-_weigh(item[1]), item[0]))
    choices = [list(_pairs(group)) for _, group in ranked]
    for rank in range(_PLACES_EACH**2):
        for ((scope, shape), group), pairs in zip(ranked, choices, strict=True):
            if rank < len(pairs):
                question, answer = pairs[rank]
                yield DialectMapping(
                    name=name,
                    kind="model" if _names_model(group) else "agent",
                    match=_match(scope, shape, group, traces),
                    input=(parse_place(question),),
                    output=(parse_place(answer),),
                )


def _weigh(group: Sequence[TextAt]) -> int:
    """How much a group looks like calls: both sides, and a model."""
    sides = {
        side: max((text.weight for text in group if text.side == side), default=-9) for side in ("input", "output")
    }
    return min(sides.values()) * 2 + sum(sides.values()) + _names_model(group)


def _pairs(group: Sequence[TextAt]) -> Iterable[tuple[str, str]]:
    """Pairs of places for question and answer, the likeliest first."""
    sides: list[list[str]] = []
    varying = _varying_lists(group)
    for side in ("input", "output"):
        weights: dict[str, float] = {}
        for text in group:
            if any(item[1] != "0" or text.place[: item.start()] in varying for item in _ITEM.finditer(text.place)):
                continue  # a fixed place in a history
            if text.side == side or (text.side is None and text.weight == 0):
                weight = text.weight + (1 if text.side == side else -1) - text.place.count(".") / 20
                weights[text.place] = max(weights.get(text.place, -99.0), weight)
        sides.append(sorted(weights, key=lambda place: (-weights[place], place))[:_PLACES_EACH])
    pairs = [(question, answer) for question, answer in product(*sides) if question != answer]
    return sorted(pairs, key=lambda pair: sides[0].index(pair[0]) + sides[1].index(pair[1]))


_ITEM = re.compile(r"[\[.](\d{1,6})(?=[\].]|\Z)")
"""A number that counts from the beginning of a list: in JSON, or in an attribute's name."""


def _varying_lists(group: Sequence[TextAt]) -> set[str]:
    """The lists whose length is not the same on all spans, by how their places begin."""
    numbers: dict[str, dict[str, set[str]]] = {}
    for text in group:
        for item in _ITEM.finditer(text.place):
            numbers.setdefault(text.place[: item.start()], {}).setdefault(text.span.span_id, set()).add(item[1])
    spans = len({text.span.span_id for text in group})
    return {
        name
        for name, by_span in numbers.items()
        if len(by_span) < spans or len(set(map(frozenset, by_span.values()))) > 1
    }


_MODEL = ("model", "token", "usage")


def _names_model(group: Sequence[TextAt]) -> bool:
    return any(word in key.lower() for text in group for key in text.span.attributes for word in _MODEL)


def _match(scope: str, shape: str, group: Sequence[TextAt], traces: Sequence[CollectedTrace]) -> SpanMatch:
    """The selector of a group's spans: the scope and, if other spans share it, an attribute or the name."""
    ids = {text.span.span_id for text in group}
    others = [
        span for trace in traces for span in trace.spans if span.scope.startswith(scope) and span.span_id not in ids
    ]
    if scope and not others:
        return SpanMatch(scope=scope)
    spans = [text.span for text in group]
    for key, value in spans[0].attributes.items():
        if isinstance(value, str) and 0 < len(value) < 40 and " " not in value and _is_kind(key):
            same = all(span.attributes.get(key) == value for span in spans)
            if same and not any(span.attributes.get(key) == value for span in others):
                return SpanMatch(scope=scope, attributes={key: value})
    return SpanMatch(scope=scope, span=shape)


def _is_kind(key: str) -> bool:
    """Whether an attribute may tell a span's kind; the name of a model dies with the next model."""
    return "model" not in key.lower() and key.rpartition(".")[2].rpartition("_")[2].lower() in {
        "kind",
        "type",
        "name",
        "operation",
        "spantype",
    }


def _try(
    mapping: DialectMapping, traces: Sequence[CollectedTrace], assembler: Assembler, repeats: Mapping[str, int]
) -> tuple[float, int]:
    """How good a mapping is, and how many complete turns it gives."""
    trial = Assembler(Dialects([make_dialect(mapping), *assembler.dialects.all]), assembler.identity)
    # as for other dialects than those that the spans were collected for
    bare = [trace._replace(spans=tuple(span._replace(evidence=0) for span in trace.spans)) for trace in traces]
    turns = [
        turn.turn
        for trace in bare
        for turn in trial.analyze(trace).assembly.turns
        if turn.turn.error is None and turn.turn.incomplete is None
    ]
    complete = [turn for turn in turns if turn.input and turn.actual_output and turn.dialect == mapping.name]
    if not complete:
        return 0.0, 0
    questions = {turn.input for turn in complete}
    answers = {turn.actual_output for turn in complete}
    if len(answers) < len(questions):
        return 0.0, 0  # several questions with one answer: a fixed place in something that grows
    support = sum(_support(turn, repeats) for turn in complete) / len(complete)
    distinct = (len(questions) + len(answers)) / (2 * len(complete))
    context = sum(bool(turn.history or turn.system_prompt) for turn in complete) / len(complete)
    return len(complete) ** 0.5 * (distinct - len(questions & answers)) + support + context / 2, len(complete)


def _support(turn: Turn, repeats: Mapping[str, int]) -> float:
    """How much of a turn is on further spans: question and answer, each up to two."""
    texts = (normalize_whitespace(turn.input or ""), normalize_whitespace(turn.actual_output or ""))
    return sum(min(max(repeats.get(text, 1) - 1, 0), 2) for text in texts) / 4
