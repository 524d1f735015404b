"""One model call, however many spans carry it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.assemble.reading import Read
from collector.assemble.tree import Tree
from collector.dialects.call import Call, Said, union
from collector.dialects.decode import compact
from collector.span import Span
from evaluators.cases import ToolCall

_TELLING = 16
"""Characters from which on an equal text is no coincidence."""


def folded(text: str) -> str:
    """A text with its white space evened out, for comparing."""
    if text.isprintable() and "  " not in text and text[:1] != " " and text[-1:] != " ":
        return text  # printable is what has no line breaks and no space but the usual one
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of a model, put together from all spans that carry it.

    `span` is the one that says most. `question` is the last thing a user said before it, at `position` in the input,
    and `asked` how many times a user had spoken by then; both None and 0 where the input holds no user's words.
    `answer` is the text that came back, None if none was captured; `pending` are the tool calls it asks for.
    """

    span: Span
    call: Call
    reads: tuple[Read, ...]
    question: str | None
    position: int
    asked: int
    answer: str | None
    pending: tuple[ToolCall, ...]

    @property
    def span_ids(self) -> tuple[str, ...]:
        """The ids of all its spans, the fullest first."""
        return tuple(read.span.span_id for read in self.reads)

    @property
    def is_step(self) -> bool:
        """Whether it asks for tools, so that its turn goes on."""
        return bool(self.pending) or (self.call.finish == "tool" and self.call.error is None)

    @property
    def has_content(self) -> bool:
        """Whether anything of what was said is known."""
        return self.question is not None or bool(self.call.input) or self.call.output is not None


def model_calls(reads: Sequence[Read], tree: Tree) -> list[ModelCall]:
    """The model calls of a trace by start, each once.

    Two spans carry the same call if the provider gave both the same response id, if one lies below the other and they
    say the same, or if they are siblings of which one has what the other lacks (a streamed call in two halves, a
    client that traces itself beside an instrumentation).
    """
    candidates = [read for read in reads if read.call.kind == "model"]
    if len(candidates) < 2:
        return [_combine([read]) for read in candidates if _is_call([read], set())]
    groups = _Groups(candidates)
    _join_by_response(candidates, groups)
    wrappers = _join_by_descent(candidates, groups, tree)
    _join_siblings(candidates, groups)
    calls = [_combine(group) for group in groups.all() if _is_call(group, wrappers)]
    return sorted(calls, key=lambda each: (each.span.start, each.span.end, each.span.span_id))


def _is_call(group: Sequence[Read], wrappers: set[str]) -> bool:
    """Whether it is a call at all: some libraries mark preparations and nested helpers as model spans."""
    if len(group) == 1 and group[0].span.span_id in wrappers:
        return False
    return any(read.span.dropped_attributes or _has_ended(read.call) for read in group)


def _has_ended(call: Call) -> bool:
    signs = (call.output, call.error, call.usage, call.output_hole, call.finish, call.response_id)
    return any(sign is not None for sign in signs)


class _Groups:
    """Reads that carry the same call, joined step by step."""

    def __init__(self, reads: Iterable[Read]) -> None:
        self._group = {read.span.span_id: [read] for read in reads}

    def join(self, one: Read, other: Read) -> None:
        into, away = self._group[one.span.span_id], self._group[other.span.span_id]
        if into is not away:
            into += away
            for read in away:
                self._group[read.span.span_id] = into

    def of(self, read: Read) -> list[Read]:
        return self._group[read.span.span_id]

    def all(self) -> list[list[Read]]:
        return list({id(group): group for group in self._group.values()}.values())


def _join_by_response(reads: Sequence[Read], groups: _Groups) -> None:
    """Equal response ids, unless the answers contradict: test servers give one id to everything."""
    by_id: dict[str, list[Read]] = {}
    for read in reads:
        if read.call.response_id:
            by_id.setdefault(read.call.response_id, []).append(read)
    for same in by_id.values():
        for index, read in enumerate(same[1:], 1):
            partner = next((other for other in same[:index] if _agree(read.call, other.call)), None)
            if partner is not None:
                groups.join(partner, read)


def _agree(one: Call, other: Call) -> bool:
    if (one.error is None) != (other.error is None):
        return False
    return one.output is None or other.output is None or _same_output(one.output, other.output)


def _same_output(one: Sequence[Said], other: Sequence[Said]) -> bool:
    mine, theirs = _gist(one), _gist(other)
    if mine == theirs or ("", []) in (mine, theirs):  # some write a tool call down as an empty answer
        return True
    (text, calls), (other_text, other_calls) = mine, theirs
    shorter, longer = sorted((text, other_text), key=len)
    return calls == other_calls and len(shorter) >= _TELLING and longer.startswith(shorter)  # one of them was cut


def _gist(said: Sequence[Said]) -> tuple[str, list[tuple[str, str]]]:
    text = next((folded(each.text) for each in said if each.role == "assistant" and each.text.strip()), "")
    return text, sorted((call.name, compact(call.arguments)) for each in said for call in each.calls)


def _join_by_descent(reads: Sequence[Read], groups: _Groups, tree: Tree) -> set[str]:
    """Join model spans with those above them that say the same; gives the ids of spans that only wrap other calls."""
    by_id = {read.span.span_id: read for read in reads}
    below: dict[str, list[Read]] = {}
    for read in reads:
        above = next((by_id[each] for each in tree.line(read.span.span_id) if each in by_id), None)
        if above is None:
            continue
        if _says_the_same(read.call, above.call):
            groups.join(above, read)
        elif above.call.output is None and above.call.error is None:
            below.setdefault(above.span.span_id, []).append(read)
    wrappers: set[str] = set()
    for span_id, inner in below.items():
        if len({id(groups.of(read)) for read in inner}) == 1 and _goes_with(inner[0].call, by_id[span_id].call):
            groups.join(by_id[span_id], inner[0])
        else:
            wrappers.add(span_id)
    return wrappers


def _says_the_same(inner: Call, outer: Call) -> bool:
    if (inner.error is None) != (outer.error is None):
        return False
    if inner.error is not None:
        return _goes_with(inner, outer)
    if inner.output is None:
        return inner.input is None or _goes_with(inner, outer)
    if outer.output is None or not _same_output(inner.output, outer.output):
        return False
    return len(_gist(inner.output)[0]) >= _TELLING or _goes_with(inner, outer)


def _goes_with(one: Call, other: Call) -> bool:
    """Whether two calls may have been asked the same."""
    mine, theirs = _last_words(one), _last_words(other)
    return mine is None or theirs is None or mine == theirs or mine in theirs or theirs in mine


def _last_words(call: Call) -> str | None:
    position = user_position(call.input or ())
    return folded(call.input[position].text) if call.input and position >= 0 else None


def _join_siblings(reads: Sequence[Read], groups: _Groups) -> None:
    by_parent: dict[tuple[str | None, str], list[Read]] = {}
    for read in reads:
        by_parent.setdefault((read.span.parent_span_id, read.span.trace_id), []).append(read)
    for siblings in by_parent.values():
        halves = [read for read in siblings if all(each.call.output is None for each in groups.of(read))]
        telling = [read for read in siblings if read.call.output is not None or read.call.input is not None]
        for half in halves:
            partner = next((other for other in telling if other is not half and _completes(half, other)), None)
            if partner is not None:
                groups.join(partner, half)


def _completes(half: Read, other: Read) -> bool:
    """Whether `other` has what `half` lacks: the answer to the same input, or all content of the same stretch."""
    mine, theirs = half.call, other.call
    if (mine.error is None) != (theirs.error is None):
        return False
    if mine.input is not None:
        streamed = mine.usage is None and mine.response_id is None and mine.error is None
        return streamed and theirs.output is not None and mine.input == theirs.input
    inside = other.span.start <= half.span.start and half.span.end <= other.span.end
    around = half.span.start <= other.span.start and other.span.end <= half.span.end
    return (inside or around) and (theirs.input is not None or theirs.output is not None)


def _combine(reads: list[Read]) -> ModelCall:
    ordered = sorted(reads, key=_poverty) if len(reads) > 1 else reads
    call = union([read.call for read in ordered])
    given = call.input or ()
    cut = call.input_hole is not None  # then the last words that can be read need not be the last ones said
    position = len(given) if cut else user_position(given)
    if not cut and call.system and position >= 0 and given[position].role == "system":
        position = -1  # a system prompt that is told twice: the user's words were left out
    return ModelCall(
        span=ordered[0].span,
        call=call,
        reads=tuple(ordered),
        question=given[position].text if 0 <= position < len(given) else None,
        position=position,
        asked=len([each for each in given[: position + 1] if each.role == "user" and each.text.strip()]),
        answer=answer_of(call.output),
        pending=pending_calls(call.output or ()),
    )


def _poverty(read: Read) -> tuple[bool, bool, int, int, str]:
    """Sorts the span that says most first."""
    call = read.call
    return call.output is None, call.input is None, -len(call.input or ()), read.span.start, read.span.span_id


def user_position(said: Sequence[Said]) -> int:
    """Where the last message with a user's words is, -1 if there is none. Tools' answers are not a user's words.

    A prompt that is nothing but a system message is what the model was asked.
    """
    for index in range(len(said) - 1, -1, -1):
        if said[index].role == "user" and said[index].text.strip():
            return index
    return len(said) - 1 if said and all(each.role == "system" for each in said) else -1


def answer_of(output: Sequence[Said] | None, *, run: bool = False) -> str | None:
    """The text of an answer, "" if it is empty, None without one: of several choices the first, of a `run` the last."""
    if output is None:
        return None
    spoken = [each.text for each in output if each.role == "assistant" and each.text.strip()]
    if not spoken:
        return ""
    return spoken[-1] if run or any(each.role != "assistant" or each.calls for each in output) else spoken[0]


def pending_calls(output: Sequence[Said]) -> tuple[ToolCall, ...]:
    """The tool calls of an output that have no answer in it."""
    calls = [call for each in output for call in each.calls]
    if not calls:
        return ()
    answered = {each.call_id or each.name for each in output if each.role == "tool"}
    return tuple(call for call in calls if (call.id or call.name) not in answered)
