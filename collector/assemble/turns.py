"""From exchanges to turns: the record that is judged, with an identity that does not depend on the order of arrival."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from collector.assemble.exchanges import Exchange
from collector.assemble.holes import hole_of
from collector.assemble.identity import Identity, Who, identifier
from collector.assemble.model_calls import ModelCall, folded
from collector.assemble.reading import Read
from collector.assemble.tools import ToolSpans, tools_called
from collector.assemble.tree import Tree
from collector.dialects.call import Call, Said
from collector.dialects.messages import system_and_rest
from collector.span import Span
from evaluators.cases import Json, Message, TokenCount, Turn

_NOBODY: Who = (None, None)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Assembled:
    """A turn and the ids of the spans it was made of."""

    turn: Turn
    spans: frozenset[str]


class TurnMaker:
    """Makes the turns of one trace."""

    def __init__(self, reads: Sequence[Read], tree: Tree, identity: Identity) -> None:
        self._tools = ToolSpans(reads, tree)
        self._tree = tree
        self._identity = identity
        self._seen: dict[tuple[str, ...], int] = {}
        self._elsewhere: Who | None = None

    def make(self, exchange: Exchange, passages: tuple[str, ...]) -> Assembled:
        """The turn of an exchange."""
        span, call = _principal(exchange)
        hole = None if exchange.error is not None else hole_of(exchange)
        question = None if hole == "truncated" and exchange.wrapper is None else exchange.question
        answer = None if exchange.error is not None or hole else _answer(exchange)
        system, history = _before(exchange)
        conversation, user = self._who(exchange, span)
        turn = Turn(
            turn_id=self._identify(span, exchange, question, answer),
            conversation_id=conversation,
            trace_id=span.trace_id,
            span_id=span.span_id,
            parent_span_id=span.parent_span_id,
            response_id=call.response_id,
            service=_text(span.resource.get("service.name")),
            dialect=call.dialect,
            model=call.model,
            user_id=user,
            started_at=_time(exchange.wrapper.span.start if exchange.wrapper else exchange.start),
            ended_at=_time(exchange.wrapper.span.end if exchange.wrapper else exchange.end),
            system_prompt=system,
            history=history,
            input=question,
            actual_output=answer,
            tools_called=tools_called(exchange, self._tools),
            retrieval_context=passages,
            usage=_usage(exchange.calls),
            error=exchange.error,
            incomplete=hole,
            trace_state=span.trace_state or None,
            attributes=_attributes(exchange, span, call),
        )
        return Assembled(turn, _spans(exchange))

    def _identify(self, span: Span, exchange: Exchange, question: str | None, answer: str | None) -> str:
        """32 hex digits: of the words if there are any, so that any span that carries them gives the same turn."""
        if question is None or answer is None:
            key = (span.trace_id, span.span_id, "failed" if exchange.error is not None else "incomplete")
        else:
            key = (span.trace_id, folded(question), folded(answer))
        ordinal = self._seen.get(key, 0)
        self._seen[key] = ordinal + 1
        return hashlib.sha256("\x1f".join((*key, str(ordinal))).encode()).hexdigest()[:32]

    def _who(self, exchange: Exchange, span: Span) -> Who:
        """Who is talking: told by the exchange's own spans, then their ancestors, the trace, the resource."""
        conversation = user = None
        for each in self._nearby(exchange, span):
            if isinstance(each, Call):
                here: Who = (identifier(each.conversation_id), identifier(each.user_id))
            else:
                here = self._identity.who(each.attributes) if each.attributes else _NOBODY
            conversation, user = conversation or here[0], user or here[1]
            if conversation and user:
                return conversation, user
        for far in (self._anywhere(), self._identity.who(span.resource)):
            conversation, user = conversation or far[0], user or far[1]
        return conversation, user

    def _nearby(self, exchange: Exchange, span: Span) -> Iterable[Span | Call]:
        """The exchange's own spans, then their ancestors, nearest first."""
        last = exchange.last
        own = list(last.reads) if last else []
        own += [exchange.wrapper] if exchange.wrapper else []
        for read in own:
            yield read.call
            yield read.span
        for span_id in self._tree.line(span.span_id):
            above = self._tree.spans.get(span_id)
            if above is not None:
                yield above

    def _anywhere(self) -> Who:
        """What the whole trace names, if it names one only."""
        if self._elsewhere is None:
            if len(self._tree.spans) == 1:
                self._elsewhere = _NOBODY
                return _NOBODY
            found = [self._identity.who(span.attributes) for span in self._tree.spans.values() if span.attributes]
            conversations = {each[0] for each in found} - {None}
            users = {each[1] for each in found} - {None}
            self._elsewhere = (
                next(iter(conversations)) if len(conversations) == 1 else None,
                next(iter(users)) if len(users) == 1 else None,
            )
        return self._elsewhere


def _principal(exchange: Exchange) -> tuple[Span, Call]:
    """The span that the turn is about: the model call that gave the answer, else the wrapper."""
    last = exchange.last
    if last is not None and (exchange.final is not None or exchange.wrapper is None):
        return last.span, last.call
    if exchange.wrapper is None:
        raise ValueError("an exchange has a model call or a wrapper")
    call = exchange.wrapper.call
    if last is not None:
        call = call._replace(model=call.model or last.call.model, provider=call.provider or last.call.provider)
    return exchange.wrapper.span, call


def _answer(exchange: Exchange) -> str | None:
    return "" if exchange.answer is None else exchange.answer  # no hole: the model was silent


def _before(exchange: Exchange) -> tuple[str | None, tuple[Message, ...]]:
    """System prompt and history: what came before the user's words, in the call that was told most of it."""
    best = max(exchange.calls, key=lambda call: call.position, default=None)
    systems = [call.call.system for call in exchange.calls if call.call.system]
    given: Sequence[Said] = (best.call.input or ())[: max(best.position, 0)] if best else ()
    wrapper = exchange.wrapper.call if exchange.wrapper else None
    if wrapper is not None:
        systems += [wrapper.system] if wrapper.system else []
        if not given:
            given = _until_question(wrapper.input or ())
    system, rest = system_and_rest(given)
    return (systems[0] if systems else system), tuple(map(_message, rest))


def _until_question(said: Sequence[Said]) -> Sequence[Said]:
    asked = [index for index, each in enumerate(said) if each.role == "user" and each.text.strip()]
    return said[: asked[-1]] if asked else ()


def _message(said: Said) -> Message:
    if said.calls or said.call_id:
        return Message(role=said.role, content=said.text, tool_calls=said.calls, tool_call_id=said.call_id)
    return Message(role=said.role, content=said.text)


def _usage(calls: Sequence[ModelCall]) -> TokenCount | None:
    counts = [call.call.usage for call in calls if call.call.usage is not None]
    if len(counts) < 2:
        return counts[0] if counts else None
    return TokenCount(
        input_tokens=sum(each.input_tokens for each in counts), output_tokens=sum(each.output_tokens for each in counts)
    )


def _time(nanoseconds: int) -> datetime | None:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _attributes(exchange: Exchange, span: Span, call: Call) -> dict[str, Json]:
    """What monitors may select turns by, beside the fields of the turn."""
    wrapper = exchange.wrapper
    resource = span.resource
    named = {
        "span_name": span.name,
        "scope": span.scope,
        "agent": (wrapper.call.agent if wrapper else None) or call.agent,
        "root": wrapper.span.name if wrapper else None,
        "provider": call.provider,
        "finish": call.finish,
        "environment": _text(resource.get("deployment.environment.name", resource.get("deployment.environment"))),
        "service_version": _text(resource.get("service.version")),
    }
    marked = {"input_uncertain": True} if call.uncertain else {}
    return {**{name: value for name, value in named.items() if value}, **marked}


def _spans(exchange: Exchange) -> frozenset[str]:
    ids = [span_id for call in exchange.calls for span_id in call.span_ids]
    return frozenset([*ids, exchange.wrapper.span.span_id] if exchange.wrapper else ids)
