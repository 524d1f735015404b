"""What was retrieved for an exchange, as the model got to see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.assemble.exchanges import Exchange
from collector.assemble.reading import Read
from collector.assemble.tree import Tree
from collector.dialects.call import Passage

_QUESTIONS = frozenset({"question", "query", "query_str", "input", "user_input", "user_question", "user_query", "q"})
_CONTEXTS = frozenset({"context", "context_str", "documents", "docs", "sources", "passages", "search_results"})


def hints(reads: Sequence[Read]) -> list[str]:
    """Texts that may be the user's question inside a longer prompt: retrievers' queries, templates' variables."""
    found = [read.call.query for read in reads if read.call.query]
    for read in reads:
        found += [value for name, value in read.call.variables.items() if name.lower() in _QUESTIONS]
    return found


def retrieved(exchange: Exchange, reads: Sequence[Read], since: int, tree: Tree) -> tuple[str, ...]:
    """The texts of the documents fetched for an exchange, each once, in the order of their spans.

    Fetched for it is what ended before its last call began, and began after `since`, the end of the exchange before.
    A reranker's choice stands for what it chose from. Where spans tell only ids, what the prompt was filled with does.
    """
    if len(reads) == 1 and not reads[0].call.variables:
        return exchange.context
    here = [read for read in reads if _is_for(read, exchange, since, tree)]
    reranked = [read for read in here if read.call.kind == "aside"]
    texts = _texts(each for read in (reranked or here) for each in read.call.passages)
    if texts:
        return texts
    filled = [
        value
        for read in reads
        if _belongs(read, exchange, tree)
        for name, value in read.call.variables.items()
        if name.lower() in _CONTEXTS
    ]
    return tuple(dict.fromkeys(value for value in filled if value.strip())) or exchange.context


def _is_for(read: Read, exchange: Exchange, since: int, tree: Tree) -> bool:
    if not read.call.passages or read.call.kind not in {"retrieval", "aside"}:
        return False
    if exchange.wrapper is not None and exchange.wrapper.span.span_id in tree.line(read.span.span_id):
        return True
    last = exchange.last
    return since <= read.span.start and (last is None or read.span.end <= last.span.end)


def _belongs(read: Read, exchange: Exchange, tree: Tree) -> bool:
    span_ids = {span_id for call in exchange.calls for span_id in call.span_ids}
    if read.span.span_id in span_ids:
        return True
    around = {above for span_id in span_ids for above in tree.line(span_id)}
    return read.span.span_id in around or _is_template(read, exchange)


def _is_template(read: Read, exchange: Exchange) -> bool:
    """Whether a step filled the template of a prompt for one of the calls beside it."""
    parent = read.span.parent_span_id
    return (
        read.call.kind == "other"
        and parent is not None
        and any(call.span.parent_span_id == parent and read.span.start <= call.span.start for call in exchange.calls)
    )


def _texts(passages: Iterable[Passage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.text for each in passages if each.text.strip()))
