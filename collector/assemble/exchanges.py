"""From model calls to exchanges: what one user's request led to, up to the answer that ends it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from collector.assemble.model_calls import ModelCall, folded
from collector.assemble.reading import Read
from collector.assemble.tree import Tree
from evaluators.cases import Incomplete


@dataclass(slots=True, eq=False)
class Exchange:
    """What one request of a user led to. Being built, so it is not frozen.

    `steps` are the calls that asked for tools, `final` the one that ended it: with an answer, or failed. One of both is
    there, or `wrapper` is: the span around them that tells question and answer as the user saw them.
    """

    steps: list[ModelCall] = field(default_factory=list[ModelCall])
    final: ModelCall | None = None
    question: str | None = None
    answer: str | None = None
    error: str | None = None
    prompt: str | None = None
    """The user's message as the model got it, where `question` is only a part of it."""
    context: tuple[str, ...] = ()
    hole: Incomplete | None = None
    wrapper: Read | None = None

    @property
    def calls(self) -> list[ModelCall]:
        """All model calls of it, in order."""
        return [*self.steps, self.final] if self.final else list(self.steps)

    @property
    def last(self) -> ModelCall | None:
        """The call that ended it, or came last."""
        return self.final or (self.steps[-1] if self.steps else None)

    @property
    def start(self) -> int:
        """When it began (ns)."""
        calls = self.calls
        return calls[0].span.start if calls else self.wrapper.span.start if self.wrapper else 0

    @property
    def end(self) -> int:
        """When it was over (ns)."""
        calls = self.calls
        return max([each.span.end for each in calls]) if calls else self.wrapper.span.end if self.wrapper else 0


@dataclass(slots=True)
class _Group:
    """The calls that answer the same words of a user."""

    open: list[ModelCall] = field(default_factory=list[ModelCall])
    failed: Exchange | None = None
    done: list[Exchange] = field(default_factory=list[Exchange])


def exchanges(calls: Sequence[ModelCall], tree: Tree) -> list[Exchange]:
    """Group the model calls of a trace into exchanges, in order of their ends.

    Calls with the same last words of a user belong together, up to the one that does not ask for a tool. A call with
    only tools' answers in it goes on where those tools were asked for. Failures of the same request in a row are one
    failed exchange; a success after them is another.
    """
    if len(calls) == 1:
        return [_only(calls[0])]
    groups: dict[tuple[str, int] | str, _Group] = {}
    for call in calls:
        group = groups.setdefault(_key(call, groups, tree), _Group())
        if call.call.error is not None:
            _fail(group, call)
        elif call.is_step:
            group.open.append(call)
        else:
            _close(group, call)
    return in_order([exchange for group in groups.values() for exchange in _all(group)])


def in_order(found: list[Exchange]) -> list[Exchange]:
    """Exchanges by their ends."""
    if len(found) < 2:
        return found
    return sorted(found, key=lambda each: (each.end, each.start, each.last.span.span_id if each.last else ""))


def _only(call: ModelCall) -> Exchange:
    if call.call.error is not None:
        return Exchange(final=call, question=call.question, error=call.call.error)
    return _exchange((call,), None) if call.is_step else _exchange((), call)


def _all(group: _Group) -> Iterable[Exchange]:
    yield from group.done
    if group.open and not (group.failed and group.failed.steps == group.open):
        yield _exchange(group.open, None)


def _key(call: ModelCall, groups: dict[tuple[str, int] | str, _Group], tree: Tree) -> tuple[str, int] | str:
    if call.question is not None:
        return folded(call.question), call.asked
    continued = _continued(call, groups)
    if continued is not None:
        return continued
    line = tree.line(call.span.span_id)
    return f"below {line[0]}" if line else call.span.span_id  # unknown words: what one span called is one request


def _continued(call: ModelCall, groups: dict[tuple[str, int] | str, _Group]) -> tuple[str, int] | str | None:
    """The group that a call with only tools' answers in its input goes on with."""
    answered = {each.call_id for each in call.call.input or () if each.role == "tool" and each.call_id}
    waiting = [(key, group) for key, group in groups.items() if group.open]
    if not call.call.input:  # some leave out what only tools said
        beside = [key for key, group in waiting if _goes_on(group.open[-1], call)]
        return beside[0] if len(beside) == 1 else None
    if not any(each.role == "tool" for each in call.call.input):
        return None
    for key, group in waiting:
        if any(each.id in answered for step in group.open for each in step.pending):
            return key
    return waiting[-1][0] if waiting else None


def _goes_on(step: ModelCall, call: ModelCall) -> bool:
    """Whether a call without any input may be the one after a step: the same span called both, one after the other."""
    above = call.span.parent_span_id
    return above is not None and above == step.span.parent_span_id and step.span.end <= call.span.start


def _fail(group: _Group, call: ModelCall) -> None:
    if group.failed is None:
        group.failed = Exchange()
        group.done.append(group.failed)
    group.failed.steps = list(group.open)
    group.failed.final = call
    group.failed.error = call.call.error
    group.failed.question = call.question or _question(group.open)


def _close(group: _Group, call: ModelCall) -> None:
    """End an exchange, and take back the ends that this call shows to have been steps or copies."""
    if call.answer and any(_is_copy(each, call) for each in group.done):
        return
    later = (call.call.input or ())[call.position + 1 :]
    trail = {folded(each.text) for each in later if each.role == "assistant"}
    for each in list(group.done) if later else ():
        if each.final is None:
            continue
        if folded(each.answer) in trail if each.answer else _was_silent_before(each, call):
            group.done.remove(each)
            group.open = [*each.calls, *group.open]
    group.done.append(_exchange(group.open, call))
    group.open, group.failed = [], None


def _was_silent_before(done: Exchange, call: ModelCall) -> bool:
    """Whether an answer without text came before a call to which more was said after the same words."""
    return done.error is None and not done.answer and done.final is not None and done.end <= call.span.start


def _is_copy(done: Exchange, call: ModelCall) -> bool:
    """Whether a call says at the same time what an exchange has said already."""
    if done.final is None or done.error is not None or call.answer is None or done.answer is None:
        return False
    overlap = call.span.start <= done.final.span.end and done.final.span.start <= call.span.end
    return overlap and folded(done.answer) == folded(call.answer) and bool(done.answer)


def _exchange(steps: Sequence[ModelCall], final: ModelCall | None) -> Exchange:
    question = (final.question if final else None) or _question(steps)
    return Exchange(steps=list(steps), final=final, question=question, answer=final.answer if final else None)


def _question(steps: Sequence[ModelCall]) -> str | None:
    return next((step.question for step in reversed(steps) if step.question is not None), None)
