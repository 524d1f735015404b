"""What was retrieved for an exchange, as the model got to see it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from collector.assemble.exchanges import Exchange
from collector.assemble.reading import Read
from collector.assemble.tree import Tree
from collector.dialects.call import Passage

_QUESTIONS = frozenset({"question", "query", "query_str", "input", "user_input", "user_question", "user_query", "q"})
_CONTEXTS = frozenset({"context", "context_str", "documents", "docs", "sources", "passages", "search_results"})


def hints(reads: Sequence[Read]) -> list[str]:
    """Texts that may be the user's question inside a longer prompt: retrievers' queries, templates' variables.

    Each once, the longest first.
    """
    found = [read.call.query for read in reads if read.call.query]
    for variables in [read.call.variables for read in reads if read.call.variables]:
        found += [value for name, value in variables.items() if name.lower() in _QUESTIONS]
    return sorted({text.strip() for text in found}, key=lambda text: (-len(text), text))


class Passages:
    """What the spans of a trace fetched. Made once for a trace, so that an exchange looks at its own part alone."""

    def __init__(self, reads: Sequence[Read], tree: Tree) -> None:
        """`reads` come in order of their starts."""
        self._tree = tree
        self._sources = [read for read in reads if read.call.passages and read.call.kind in {"retrieval", "aside"}]
        self._starts = [read.span.start for read in self._sources]
        self._next_end = _next_ends(self._sources) if self._sources else []
        self._below: dict[str, list[int]] = {}
        for index, read in enumerate(self._sources):
            for above in tree.line(read.span.span_id):
                self._below.setdefault(above, []).append(index)
        self._filled = {read.span.span_id: texts for read in reads if read.call.variables and (texts := _filled(read))}
        self._templates: dict[str, list[Read]] = {}
        for read in reads:
            if read.call.kind == "other" and read.span.parent_span_id and read.span.span_id in self._filled:
                self._templates.setdefault(read.span.parent_span_id, []).append(read)

    def of(self, exchange: Exchange, since: int) -> tuple[str, ...]:
        """The texts of the documents fetched for an exchange, each once, in the order of their spans.

        Fetched for it is what ended before its last call began, and began after `since`, the end of the exchange
        before. A reranker's choice stands for what it chose from. Where spans tell only ids, what the prompt was filled
        with does.
        """
        if not (self._sources or self._filled):
            return exchange.context
        here = [self._sources[index] for index in sorted(self._indexes(exchange, since))]
        reranked = [read for read in here if read.call.kind == "aside"]
        texts = _texts(each for read in (reranked or here) for each in read.call.passages)
        if texts or not self._filled:
            return texts or exchange.context
        around = self._around(exchange) | self._templates_of(exchange, since)
        filled = (text for span_id, found in self._filled.items() if span_id in around for text in found)
        return tuple(dict.fromkeys(text for text in filled if text.strip())) or exchange.context

    def _indexes(self, exchange: Exchange, since: int) -> set[int]:
        last = exchange.last
        found = set(self._below.get(exchange.wrapper.span.span_id, ())) if exchange.wrapper is not None else set[int]()
        for index in range(bisect_left(self._starts, since), len(self._sources)):
            if last is None or self._sources[index].span.end <= last.span.end:
                found.add(index)
            elif self._next_end[index] > last.span.end:
                break
        return found

    def _around(self, exchange: Exchange) -> set[str]:
        """The ids of an exchange's spans, and of those above them."""
        own = {span_id for call in exchange.calls for span_id in call.span_ids}
        return own | {above for span_id in own for above in self._tree.line(span_id)}

    def _templates_of(self, exchange: Exchange, since: int) -> set[str]:
        """The ids of steps beside its calls that filled the template of a prompt for one of them."""
        found: set[str] = set()
        for call in exchange.calls:
            beside = self._templates.get(call.span.parent_span_id or "", ())
            first = bisect_left(beside, since, key=lambda read: read.span.start)
            last = bisect_right(beside, call.span.start, key=lambda read: read.span.start)
            found.update(read.span.span_id for read in beside[first:last])
        return found


def _next_ends(reads: Sequence[Read]) -> list[int]:
    """For each the earliest end from it on: where nothing further ended in time, nobody needs to look."""
    ends = accumulate((read.span.end for read in reversed(reads)), min)
    return list(ends)[::-1]


def _filled(read: Read) -> list[str]:
    """The context that a template was filled with."""
    return [value for name, value in read.call.variables.items() if name.lower() in _CONTEXTS]


def _texts(passages: Iterable[Passage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.text for each in passages if each.text.strip()))
