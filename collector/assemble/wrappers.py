"""Agents, workflows and chains around model calls: who tells the exchange as the user saw it.

A wrapper is believed where a model call inside it confirms what it says, or where no model call says anything. The
outermost one that is believed is the user's; what else happened inside it was on the way to its answer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from collector.assemble.exchanges import Exchange
from collector.assemble.model_calls import answer_of, folded, user_position
from collector.assemble.reading import Read
from collector.assemble.tree import Tree
from collector.dialects.call import Call

_WRAPPERS = {"agent", "workflow", "chain"}
_TELLING = 16
"""Characters from which on an equal beginning is no coincidence."""


def resolve(found: Sequence[Exchange], reads: Sequence[Read], tree: Tree) -> list[Exchange]:
    """The exchanges that a user saw: each told by the outermost wrapper that is believed, inner ones left out."""
    asides = {read.span.span_id for read in reads if read.call.kind == "aside"}
    wrappers = [
        read for read in reads if read.call.kind in _WRAPPERS and asides.isdisjoint(tree.line(read.span.span_id))
    ]
    told = _told_by(wrappers, found, reads, tree) if wrappers else found
    return _without_sub_agents([each for each in told if each.final or each.wrapper], reads, tree)


def _told_by(
    wrappers: Iterable[Read], found: Iterable[Exchange], reads: Sequence[Read], tree: Tree
) -> Iterable[Exchange]:
    """The exchanges as the wrappers tell them, and those that no wrapper tells."""
    kept = dict.fromkeys(found)
    inside = _inside(kept, tree)
    anywhere = _by_beginning(kept)
    orphans = _orphans(kept, tree)
    failed = _around_failures(reads, tree)
    done: set[str] = set()
    for read in sorted(wrappers, key=lambda read: _depth(read, tree)):
        wrapper = _since_question(read)
        if not done.isdisjoint(tree.line(wrapper.span.span_id)):
            continue
        here = [each for each in inside.get(wrapper.span.span_id, ()) if each in kept]
        alike = [each for each in anywhere(wrapper) if each in kept]
        told = _tell(wrapper, here, alike, [each for each in orphans(wrapper) if each in kept], failed)
        if told is None:
            continue
        kept.setdefault(told)
        if question_of(wrapper.call) is not None or told.answer is None:
            _leave_out_inner(kept, here, told)
            done.add(wrapper.span.span_id)
    return kept


def _since_question(wrapper: Read) -> Read:
    """The wrapper with nothing in its output but what came after a user's last words there.

    An agent that remembers gives back its whole conversation: what was answered before is not its answer.
    """
    output = wrapper.call.output or ()
    asked = max((index for index, each in enumerate(output) if each.role == "user" and each.text.strip()), default=-1)
    if asked < 0 or asked == len(output) - 1:
        return wrapper
    return wrapper._replace(call=wrapper.call._replace(output=output[asked + 1 :]))


def _depth(read: Read, tree: Tree) -> tuple[int, int, str]:
    return len(tree.line(read.span.span_id)), read.span.start, read.span.span_id


def _inside(found: Iterable[Exchange], tree: Tree) -> dict[str, list[Exchange]]:
    """The exchanges by the ids of the spans around them."""
    inside: dict[str, list[Exchange]] = {}
    for each in found:
        last = each.last
        around = {id_ for span_id in (last.span_ids if last else ()) for id_ in tree.line(span_id)}
        for span_id in around:
            inside.setdefault(span_id, []).append(each)
    return inside


def _by_beginning(found: Iterable[Exchange]) -> Callable[[Read], Sequence[Exchange]]:
    """The exchanges whose answer begins as a wrapper's does: only those can confirm what it says."""
    groups: dict[str, list[Exchange]] = {}
    for each in found:
        if each.answer:
            groups.setdefault(folded(each.answer)[:_TELLING], []).append(each)

    def of(wrapper: Read) -> Sequence[Exchange]:
        answer = answer_of(wrapper.call.output, run=True)
        return groups.get(folded(answer)[:_TELLING], ()) if answer else ()

    return of


def _orphans(found: Iterable[Exchange], tree: Tree) -> Callable[[Read], Sequence[Exchange]]:
    """The failed and the silent exchanges in a wrapper's time that have a span above them which has not come.

    A library that fails may never end the spans around the call.
    """
    cut_off = sorted((each for each in found if _is_cut_off(each, tree)), key=lambda each: each.start)

    def of(wrapper: Read) -> Sequence[Exchange]:
        first = bisect_left(cut_off, wrapper.span.start, key=lambda each: each.start)
        last = bisect_right(cut_off, wrapper.span.end, key=lambda each: each.start)
        return [each for each in cut_off[first:last] if each.end <= wrapper.span.end]

    return of


def _is_cut_off(exchange: Exchange, tree: Tree) -> bool:
    if exchange.answer or exchange.last is None:
        return False
    line = tree.line(exchange.last.span.span_id)
    return bool(line) and line[-1] not in tree.spans


def _around_failures(reads: Iterable[Read], tree: Tree) -> frozenset[str]:
    """The ids of the spans that have an agent that failed somewhere below them."""
    failed = (read for read in reads if read.call.kind == "agent" and read.call.error is not None)
    return frozenset(above for read in failed for above in tree.line(read.span.span_id))


def _tell(
    wrapper: Read,
    here: Sequence[Exchange],
    anywhere: Sequence[Exchange],
    orphans: Sequence[Exchange],
    failed: frozenset[str],
) -> Exchange | None:
    """The exchange that the wrapper tells, with its words put in; None if the wrapper is not believed.

    `here` are the exchanges inside it, `anywhere` all that answer alike and `orphans` those in its time that have no
    answer: parents may be missing.
    """
    free = [each for each in here if each.wrapper is None]
    if len(free) < len(here):
        return None  # what is inside has been told by a wrapper further out
    question, answer = question_of(wrapper.call), answer_of(wrapper.call.output, run=True)
    if answer:
        candidates = free or [each for each in anywhere if each.wrapper is None]
        confirmed = [each for each in candidates if _confirms(each, question, answer)]
        if confirmed:
            return _adopt(confirmed[-1], wrapper, question)
    if wrapper.call.kind == "chain":
        return None
    free = free or [each for each in orphans if each.wrapper is None and _asks(each, question)]
    broken = _broken_off(wrapper, free)
    if broken is not None:
        return broken
    if answer == "" and free and free[-1].answer == "" and _asks(free[-1], question):
        return _adopt(free[-1], wrapper, question)
    sound = bool(question and answer) and wrapper.call.output_hole is None
    if sound and question:
        asked = [each for each in free if each.question and same_question(question, each.question)]
        if asked and asked[-1].error is None:
            asked[-1].answer = answer
            return _adopt(asked[-1], wrapper, question)
    return _alone(wrapper, free, question, answer if sound else None, failed)


def _broken_off(wrapper: Read, free: Sequence[Exchange]) -> Exchange | None:
    """The failed exchange of an agent that failed while its model said nothing and never ended.

    Pydantic AI 2 (a stream that cannot be opened) and Mastra leave the model's span without an error.
    """
    last = free[-1] if free else None
    if wrapper.call.error is None or last is None or last.final is None or last.answer or last.error is not None:
        return None
    call = last.final.call
    ended = call.usage is not None or call.finish is not None or call.response_id is not None
    if ended and call.finish != "error":
        return None
    last.answer, last.error = None, wrapper.call.error
    return _adopt(last, wrapper, question_of(wrapper.call))


def _confirms(exchange: Exchange, question: str | None, answer: str) -> bool:
    if not exchange.answer or exchange.error is not None:
        return False
    mine, theirs = folded(exchange.answer), folded(answer)
    if mine != theirs and not (len(theirs) >= _TELLING and mine.startswith(theirs)):  # a cut text ends early
        return False
    return question is None or exchange.question is None or same_question(question, exchange.question)


def _asks(exchange: Exchange, question: str | None) -> bool:
    return question is not None and exchange.question is not None and same_question(question, exchange.question)


def same_question(told: str, asked: str) -> bool:
    """Whether a model was asked what the user said, be it in the middle of a longer prompt."""
    mine, theirs = folded(told), folded(asked)
    return mine == theirs or mine in theirs or (len(theirs) >= 16 and theirs in mine)


def _adopt(exchange: Exchange, wrapper: Read, question: str | None) -> Exchange:
    exchange.wrapper = wrapper
    if question and (exchange.question is None or len(folded(question)) < len(folded(exchange.question))):
        exchange.prompt = exchange.question
        exchange.question = question
    return exchange


def _alone(
    wrapper: Read,
    free: Sequence[Exchange],
    question: str | None,
    answer: str | None,
    failed: frozenset[str],
) -> Exchange | None:
    """An agent whose model calls tell nothing: its own words, its failure, or that they are not to be had."""
    if any(each.answer is not None for each in free) or (wrapper.call.kind == "workflow" and not free):
        return None
    failures = [each for each in free if each.error is not None]
    if failures:
        last = failures[-1]
        known = last.question is None or (question is not None and same_question(question, last.question))
        return _adopt(last, wrapper, question) if known else None
    call = wrapper.call
    if call.error is not None and not free:
        if wrapper.span.span_id in failed:
            return None  # an agent further in failed as well: that one is nearer to the cause
        return Exchange(question=question, error=call.error, wrapper=wrapper)
    steps = [step for each in free for step in each.calls]
    if answer:
        return Exchange(steps=steps, question=question, answer=answer, wrapper=wrapper)
    if free and (call.input_hole or call.output_hole or call.input or call.output):
        last = free[-1]
        last.steps = steps[:-1] if last.final else steps
        return _adopt(last, wrapper, question)
    return None


def question_of(call: Call) -> str | None:
    """The last words of a user in what a wrapper was given."""
    position = user_position(call.input or ())
    return call.input[position].text if call.input and position >= 0 else None


def _leave_out_inner(kept: dict[Exchange, None], here: Sequence[Exchange], told: Exchange) -> None:
    """Leave out what was on the way to the told exchange; a failure that was made good stays a failure."""
    for each in here:
        if each is not told and each.error is None:
            del kept[each]


def _without_sub_agents(found: list[Exchange], reads: Sequence[Read], tree: Tree) -> list[Exchange]:
    """Leave out what a model had with another one: inside a tool or an agent that an outer exchange called."""
    if len(found) < 2:
        return found
    borders = {read.span.span_id for read in reads if read.call.kind in {"agent", "workflow", "tool"}}
    if not borders:
        return found
    lines = {each: _borders(each, borders, tree) for each in found}
    settled = {line for each, line in lines.items() if _is_settled(each)}
    return [each for each, line in lines.items() if not any(line[:end] in settled for end in range(1, len(line)))]


def _is_settled(exchange: Exchange) -> bool:
    return exchange.answer is not None or exchange.error is not None


def _borders(exchange: Exchange, borders: set[str], tree: Tree) -> tuple[str, ...]:
    """The agents and tools around an exchange, outermost first."""
    span = exchange.last.span if exchange.last else exchange.wrapper.span if exchange.wrapper else None
    line = tree.line(span.span_id) if span else ()
    return tuple(span_id for span_id in reversed(line) if span_id in borders)
