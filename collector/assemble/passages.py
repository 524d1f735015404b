"""The passages that were retrieved for a turn, as the model received them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from collector.assemble.read_spans import ParsedSpan
from collector.assemble.tree import SpanTree
from collector.assemble.turn_drafts import TurnDraft
from collector.dialects.call import Call, Passage

_QUESTIONS = frozenset({"question", "query", "query_str", "input", "user_input", "user_question", "user_query", "q"})
_CONTEXTS = frozenset({"context", "context_str", "documents", "docs", "sources", "passages", "search_results"})


def find_question_hints(parsed_spans: Sequence[ParsedSpan]) -> list[str]:
    """Find texts that may be the user's question inside a longer prompt: retrievers' queries, templates' variables.

    Each once, the longest first.
    """
    texts: list[str] = []
    for parsed_span in parsed_spans:
        if parsed_span.call.query:
            texts.append(parsed_span.call.query)
        if parsed_span.call.variables:
            texts += [value for name, value in parsed_span.call.variables.items() if name.lower() in _QUESTIONS]
    return sorted({text.strip() for text in texts}, key=lambda text: (-len(text), text)) if texts else texts


class PassageIndex:
    """The passages of a trace's spans, indexed by time and ancestor, so that each draft only searches its own part."""

    def __init__(self, parsed_spans: Sequence[ParsedSpan], tree: SpanTree) -> None:
        """`parsed_spans` are in order of their starts."""
        self._tree = tree
        self._sources = [
            parsed_span
            for parsed_span in parsed_spans
            if parsed_span.call.passages and parsed_span.call.kind in {"retrieval", "auxiliary"}
        ]
        self._starts = [span.span.start for span in self._sources] if self._sources else []
        self._next_end = _compute_earliest_ends(self._sources) if self._sources else []
        self._below: dict[str, list[int]] = {}
        for index, parsed_span in enumerate(self._sources):
            for ancestor in tree.ancestors(parsed_span.span.span_id):
                self._below.setdefault(ancestor, []).append(index)
        filled = [
            parsed_span for parsed_span in parsed_spans if parsed_span.call.variables or parsed_span.call.passages
        ]
        self._contexts = {span.span.span_id: texts for span in filled if (texts := _find_contexts(span.call))}
        self._templates: dict[str, list[ParsedSpan]] = {}
        for parsed_span in filled:
            if (
                parsed_span.call.kind == "other"
                and parsed_span.span.parent_span_id
                and parsed_span.span.span_id in self._contexts
            ):
                self._templates.setdefault(parsed_span.span.parent_span_id, []).append(parsed_span)

    def find(self, draft: TurnDraft, previous_end: int) -> tuple[str, ...]:
        """Find the texts of the documents retrieved for a draft, each once, in the order of their spans.

        These are the retrievals that began after `previous_end`, the end of the draft before, and ended before the
        draft's last call. A reranker's choice replaces its candidates. If spans have only ids, the variables of the
        prompt's template are used.
        """
        if not (self._sources or self._contexts):
            return draft.context
        nearby_sources = [self._sources[index] for index in sorted(self._find_sources(draft, previous_end))]
        reranked = [span for span in nearby_sources if span.call.kind == "auxiliary"]
        texts = _deduplicate_texts(
            passage for parsed_span in (reranked or nearby_sources) for passage in parsed_span.call.passages
        )
        if texts or not self._contexts:
            return texts or draft.context
        nearby_ids = self._collect_own_and_ancestors(draft) | self._find_templates(draft, previous_end)
        variables = (text for span_id, context in self._contexts.items() if span_id in nearby_ids for text in context)
        return tuple(dict.fromkeys(text for text in variables if text.strip())) or draft.context

    def _find_sources(self, draft: TurnDraft, previous_end: int) -> set[int]:
        last = draft.last
        indexes = (
            set(self._below.get(draft.enclosing_span.span.span_id, ()))
            if draft.enclosing_span is not None
            else set[int]()
        )
        for index in range(bisect_left(self._starts, previous_end), len(self._sources)):
            if last is None or self._sources[index].span.end <= last.span.end:
                indexes.add(index)
            elif self._next_end[index] > last.span.end:
                break
        return indexes

    def _collect_own_and_ancestors(self, draft: TurnDraft) -> set[str]:
        """The ids of a draft's spans, and of those above them."""
        own_ids = {span_id for call in draft.calls for span_id in call.span_ids}
        return own_ids | {ancestor for span_id in own_ids for ancestor in self._tree.ancestors(span_id)}

    def _find_templates(self, draft: TurnDraft, previous_end: int) -> set[str]:
        """Find the ids of the steps beside its calls that filled the prompt template of one of them."""
        span_ids: set[str] = set()
        for call in draft.calls:
            siblings = self._templates.get(call.span.parent_span_id or "", ())
            first = bisect_left(siblings, previous_end, key=lambda each: each.span.start)
            last = bisect_right(siblings, call.span.start, key=lambda each: each.span.start)
            span_ids.update(span.span.span_id for span in siblings[first:last])
        return span_ids


def _compute_earliest_ends(parsed_spans: Sequence[ParsedSpan]) -> list[int]:
    """For each span the earliest end from it on: a search stops where no later span ended in time."""
    ends = accumulate((parsed_span.span.end for parsed_span in reversed(parsed_spans)), min)
    return list(ends)[::-1]


def _find_contexts(call: Call) -> list[str]:
    """Find the context that a prompt was filled with: the passages of a program's inputs, or a template's variables."""
    if call.passages and call.kind == "model":
        return [passage.text for passage in call.passages]
    return [value for name, value in call.variables.items() if name.lower() in _CONTEXTS] if call.variables else []


def _deduplicate_texts(passages: Iterable[Passage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(passage.text for passage in passages if passage.text.strip()))
