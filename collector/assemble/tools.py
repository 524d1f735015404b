"""The tools called in an exchange, each once, with what came back."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.assemble.exchanges import Exchange
from collector.assemble.reading import Read
from collector.assemble.tree import Tree
from collector.dialects.call import Said
from collector.dialects.decode import as_dict, compact, decoded
from evaluators.cases import Json, ToolCall


class ToolSpans:
    """The tool spans of a trace, without those inside another: they are that one's own affair."""

    def __init__(self, reads: Sequence[Read], tree: Tree) -> None:
        """`reads` come in order of their starts."""
        tools = [read for read in reads if read.call.kind == "tool" and read.call.tool is not None]
        ids = {read.span.span_id for read in tools}
        self._outer = [read for read in tools if ids.isdisjoint(tree.line(read.span.span_id))]
        self._starts = [read.span.start for read in self._outer]
        self._below: dict[str, list[Read]] = {}
        for read in self._outer:
            for above in tree.line(read.span.span_id):
                self._below.setdefault(above, []).append(read)

    def of(self, exchange: Exchange) -> list[ToolCall]:
        """Those that belong to an exchange: inside its wrapper, or between its first call and its end."""
        if not self._outer:
            return []
        inside = self._below.get(exchange.wrapper.span.span_id) if exchange.wrapper is not None else None
        first, end = bisect_left(self._starts, exchange.start), bisect_right(self._starts, exchange.end)
        return [read.call.tool for read in inside or self._outer[first:end] if read.call.tool]


def tools_called(exchange: Exchange, spans: ToolSpans) -> tuple[ToolCall, ...]:
    """What the model asked for, in order, with results; where its messages do not tell, what tool spans say.

    What the model asked for is in the answers of the steps, and again in the messages of the call after them.
    """
    asked, answers = _said_in(exchange)
    told = spans.of(exchange)
    if not any(calls for calls, _ in asked):
        return tuple(_once([(told, False)])) if told else ()
    return tuple(_with_results(_once(asked), answers, told))


_Asked = tuple[Sequence[ToolCall], bool]
"""The tool calls in a list of messages, and whether it is a history, which repeats what was asked before."""


def _said_in(exchange: Exchange) -> tuple[list[_Asked], list[Said]]:
    """The tool calls in each of the lists of messages that may repeat each other, and the tools' answers."""
    asked: list[_Asked] = []
    answers: list[Said] = []
    for call in exchange.calls:
        asked.append(_collect((call.call.input or ())[call.position + 1 :], answers, history=True))
        asked.append(_collect(call.call.output or (), answers))
    if exchange.wrapper is not None and not any(calls for calls, _ in asked):
        asked.append(_collect(exchange.wrapper.call.output or (), answers))
    return asked, answers


def _collect(messages: Sequence[Said], answers: list[Said], *, history: bool = False) -> _Asked:
    answers += [said for said in messages if said.role == "tool"]
    return [call for said in messages for call in said.calls], history


def _once(lists: Iterable[_Asked]) -> list[ToolCall]:
    """Each call once: by its id, or where there is none, as often as the list that has it most often.

    A call that is told without its id first, and with it later, is one. So is one that the history has under another
    id: in the Responses API an item has an id of its own beside that of the call.
    """
    kept: list[ToolCall] = []
    ids: set[str] = set()
    have: Counter[tuple[str, str]] = Counter()
    nameless: dict[tuple[str, str], list[int]] = {}
    for calls, is_history in lists:
        here: Counter[tuple[str, str]] = Counter()
        renamed = _unnamed_in(calls, kept) if is_history and kept else {}
        for call in calls:
            if call.id is not None and call.id in ids:
                continue
            content = (call.name, compact(call.arguments))
            if call.id is not None:
                ids.add(call.id)
                if renamed.get(content):
                    kept[renamed[content].pop(0)] = call
                    continue
                if nameless.get(content):
                    kept[nameless[content].pop(0)] = call
                    continue
            here[content] += 1
            if call.id is None and here[content] <= have[content]:
                continue
            have[content] = max(have[content], here[content])
            if call.id is None:
                nameless.setdefault(content, []).append(len(kept))
            kept.append(call)
    return kept


def _unnamed_in(calls: Sequence[ToolCall], kept: Sequence[ToolCall]) -> dict[tuple[str, str], list[int]]:
    """Where in `kept` the calls are whose ids a history does not have, by what they say."""
    named = {call.id for call in calls}
    if all(call.id in named for call in kept):
        return {}
    found: dict[tuple[str, str], list[int]] = {}
    for index, call in enumerate(kept):
        if call.id is not None and call.id not in named:
            found.setdefault((call.name, compact(call.arguments)), []).append(index)
    return found


def _with_results(calls: Sequence[ToolCall], answers: Sequence[Said], spans: Sequence[ToolCall]) -> Iterable[ToolCall]:
    nameless = [each for each in answers if each.call_id is None]
    by_id = {each.call_id: each for each in answers if each.call_id is not None and (each.text or each.result)}
    by_id |= _crossed(calls, by_id)
    spans = list(spans)
    for call in calls:
        answer = by_id.get(call.id) if call.id else None
        if answer is None and nameless and (nameless[0].name in {None, call.name}):
            answer = nameless.pop(0)
        yield _complete(call, answer, _span_of(call, spans))


def _crossed(calls: Sequence[ToolCall], by_id: dict[str, Said]) -> dict[str, Said]:
    """The answers under ids that nobody asked with, by the ids of the calls that got none, one after the other.

    OpenLLMetry gives the calls of the Responses API the ids of items, and their answers the ids of calls.
    """
    ids = [call.id for call in calls if call.id is not None]
    unanswered = [each for each in ids if each not in by_id]
    unasked = [answer for each, answer in by_id.items() if each not in ids] if unanswered else []
    return dict(zip(unanswered, unasked, strict=True)) if len(unanswered) == len(unasked) else {}


def _span_of(call: ToolCall, spans: list[ToolCall]) -> ToolCall | None:
    """The tool span of a call, taken out of `spans`: by its id, else by its name, rather with the same arguments."""
    same = [each for each in spans if each.id == call.id and call.id is not None]
    same = same or [each for each in spans if each.name == call.name and each.id is None]
    found = next((each for each in same if call.arguments in _ways(each.arguments)), same[0] if same else None)
    if found is not None:
        spans.remove(found)
    return found


def _ways(given: Json) -> tuple[Json, ...]:
    """Arguments as they are, and as they are inside a Python function's."""
    return given, as_dict(given).get("kwargs")


def _complete(call: ToolCall, answer: Said | None, span: ToolCall | None) -> ToolCall:
    result: Json = None
    if answer is not None:
        result = decoded(answer.result if answer.result is not None else answer.text)
    elif span is not None:
        result = span.result
    given = call.arguments
    if given in (None, {}, "") and span is not None and span.arguments is not None:
        given = span.arguments
    return replace(call, result=result if result is not None else call.result, arguments=given)
