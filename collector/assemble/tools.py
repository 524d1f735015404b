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
    if not any(asked):
        return tuple(_once([told])) if told else ()
    return tuple(_with_results(_once(asked), answers, told))


def _said_in(exchange: Exchange) -> tuple[list[list[ToolCall]], list[Said]]:
    """The tool calls in each of the lists of messages that may repeat each other, and the tools' answers."""
    asked: list[list[ToolCall]] = []
    answers: list[Said] = []
    so_far: list[ToolCall] = []
    for call in exchange.calls:
        _collect(_under_first_ids((call.call.input or ())[call.position + 1 :], so_far), asked, answers)
        _collect(call.call.output or (), asked, answers)
        so_far += asked[-1]
    if exchange.wrapper is not None and not any(asked):
        _collect(exchange.wrapper.call.output or (), asked, answers)
    return asked, answers


def _under_first_ids(messages: Sequence[Said], so_far: Sequence[ToolCall]) -> Sequence[Said]:
    """Messages that repeat the calls asked for so far, under the ids that those had then.

    Google's ADK gives its calls ids of its own, and takes them away again before the model sees them.
    """
    again = [call for said in messages for call in said.calls]
    if not so_far or len(again) != len(so_far) or again[0].id == so_far[0].id:
        return messages
    first: dict[str | None, str] = {new.id: old.id for new, old in zip(again, so_far, strict=True) if new.id and old.id}
    if len(first) < len(again) or any(_content(new) != _content(old) for new, old in zip(again, so_far, strict=True)):
        return messages
    return [
        each._replace(
            calls=tuple(replace(call, id=first[call.id]) for call in each.calls),
            call_id=first.get(each.call_id, each.call_id),
        )
        for each in messages
    ]


def _content(call: ToolCall) -> tuple[str, str]:
    return call.name, compact(call.arguments)


def _collect(messages: Sequence[Said], asked: list[list[ToolCall]], answers: list[Said]) -> None:
    asked.append([call for said in messages for call in said.calls])
    answers += [said for said in messages if said.role == "tool"]


def _once(lists: Iterable[Sequence[ToolCall]]) -> list[ToolCall]:
    """Each call once: by its id, or where there is none, as often as the list that has it most often.

    A call that is told without its id first, and with it later, is one.
    """
    kept: list[ToolCall] = []
    ids: set[str] = set()
    have: Counter[tuple[str, str]] = Counter()
    nameless: dict[tuple[str, str], list[int]] = {}
    for calls in lists:
        here: Counter[tuple[str, str]] = Counter()
        for call in calls:
            if call.id is not None and call.id in ids:
                continue
            content = _content(call)
            if call.id is not None:
                ids.add(call.id)
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


def _with_results(calls: Sequence[ToolCall], answers: Sequence[Said], spans: Sequence[ToolCall]) -> Iterable[ToolCall]:
    nameless = [each for each in answers if each.call_id is None]
    by_id = {each.call_id: each for each in answers if each.call_id is not None and (each.text or each.result)}
    for call in calls:
        answer = by_id.get(call.id) if call.id else None
        if answer is None and nameless and (nameless[0].name in {None, call.name}):
            answer = nameless.pop(0)
        yield _complete(call, answer, spans)


def _span_of(call: ToolCall, spans: Sequence[ToolCall]) -> ToolCall | None:
    """The span of a call: by its id, else by its name, and best by its arguments, too."""
    if call.id is not None:
        named = next((each for each in spans if each.id == call.id), None)
        if named is not None:
            return named
    alike = [each for each in spans if each.name == call.name and each.id is None]
    if len(alike) < 2:
        return alike[0] if alike else None
    return next((each for each in alike if call.arguments in _ways(each.arguments)), alike[0])


def _ways(given: Json) -> tuple[Json, ...]:
    """Arguments as they are, and as they are inside a Python function's."""
    return given, as_dict(given).get("kwargs")


def _complete(call: ToolCall, answer: Said | None, spans: Sequence[ToolCall]) -> ToolCall:
    span = _span_of(call, spans)
    result: Json = None
    if answer is not None:
        result = decoded(answer.result if answer.result is not None else answer.text)
    elif span is not None:
        result = span.result
    given = call.arguments
    if given in (None, {}, "") and span is not None and span.arguments is not None:
        given = span.arguments
    return replace(call, result=result if result is not None else call.result, arguments=given)
