"""What a receiver leaves out of the pieces of traces that nobody can want: all that was said.

A piece is thinned where it is a whole trace as far as its own spans can show, of one model call, whose conversation is
certain whatever comes later, and which no monitor can want. In doubt it is stored whole:

- beside the call there are only spans that no dialect reads, or embeddings: chains, agents, tools and retrieval may be
  part of other turns whose pieces come later, or have parts themselves that came before;
- the call's ancestors lead up to the root of the trace, or to a parent in another process;
- the conversation's id is on the call or on an ancestor, where no other piece of the trace overrules it;
- question and answer are on the call's own span, so that no log record completes it later;
- there are no events or links, nor two versions of a span.

The draw is that of the redacted id, under the sender's tenant: of the turn's key in the turns log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from collector.assemble.collect_trace import UNREAD
from collector.assemble.identity import may_be_made_up
from collector.assemble.sole_turn import SoleCall, find_sole_call
from collector.assemble.trace import Assembler
from collector.assemble.turns import service_name
from collector.dialects.call import Kind
from collector.otlp.decode import ExaminedSpan, Part, attributes_of, decode_span, names_of, resource_of
from collector.otlp.outline import Outline
from collector.otlp.span import Attributes, Span
from collector.records.tenants import id_in_tenant
from collector.records.thin_pieces import ThinTurn
from collector.redact.otlp_request import RequestRedaction

_HARMLESS: frozenset[Kind | None] = frozenset(("other", None))
_MOST_AROUND = 20
"""Ancestors of a model's span in a piece that is thinned."""
_ID_BYTES = 8
_PARENT_BYTES = (0, 8)
_MOST_SEQUENCES = 1000
_LONGEST_SEQUENCE = 5000
"""Characters of the names of a span that are remembered together."""
_REMOTE = 0x300
"""The bits of a span's flags that say that it is known where its parent is, and that it is in another process."""


class Thinner:
    """Thins pieces of traces by the assembler's rules and `is_key_wanted`, by the key of a turn's record."""

    def __init__(self, assembler: Assembler, is_key_wanted: Callable[[str], bool]) -> None:
        self._dialects = assembler.dialects
        self._messages = {dialect.name: dialect.has_messages for dialect in assembler.dialects.all}
        self._identity = assembler.identity
        self._application = assembler.application
        self._reads_runs = assembler.agent_runs
        self._is_key_wanted = is_key_wanted
        self._names: dict[tuple[str, ...], _AttributeNames] = {}

    def of_request(
        self, tenant: str, redaction: RequestRedaction | None
    ) -> Callable[[Sequence[Part]], ThinTurn | None]:
        """What leaves out what was said in a request's part of a trace, in place, if nobody can want it.

        It gives the turn of what it has thinned, and redacted; None of what it left as it was. The request's resources
        and scopes are redacted by then. It raises RedactionFailed where a text could not be looked through; the request
        must not be stored then.
        """
        if self._reads_runs:
            return _keep
        resources = _Resources()

        def thin(parts: Sequence[Part]) -> ThinTurn | None:
            items = _list_items(parts)
            call = self._find_call(items, resources)
            if call is None:
                return None
            conversation = self._find_conversation(call, items, redaction)
            if conversation is None or self._is_key_wanted(_key(conversation, tenant)):
                return None
            for item in items.values():
                self._strip(item, redaction)
            return _make_turn(call, items, conversation)

        return thin

    def _find_call(self, items: Mapping[bytes, _Item], resources: _Resources) -> SoleCall | None:
        """Find the only model call, with question and answer, beside which there is nothing that others are part of."""
        relevant: list[Span] = []
        for item in items.values():
            mask = self._read_names(item.keys).evidence
            if item.scope:
                mask |= self._dialects.match((), item.scope)
            if mask:
                relevant.append(item.span(resources.of(item.holder), mask << 1))
        call = find_sole_call(relevant, self._dialects, _HARMLESS) if relevant else None
        if call is None or call.enclosing:
            return None
        has_messages = self._messages[call.dialect]
        return call if has_messages is not None and has_messages(call.model) else None

    def _find_conversation(
        self, call: SoleCall, items: Mapping[bytes, _Item], redaction: RequestRedaction | None
    ) -> str | None:
        """Find the redacted id of the call's conversation; None where another piece of the trace may overrule it."""
        configured = self._identity.configured
        if configured is not None and configured.find(call.model.resource)[0]:
            return None
        for item in _line_of(bytes.fromhex(call.model.span_id), items):
            inherited = self._redact_inherited(item, redaction)
            if not inherited:
                continue
            conversation = (configured or self._identity).find(attributes_of(inherited))[0]
            if conversation:
                return None if may_be_made_up(conversation, item.scope) else conversation
        return None

    def _strip(self, item: _Item, redaction: RequestRedaction | None) -> None:
        """Leave of a span what others inherit from it, beside its ids, times and name; and redact that."""
        outline = item.outline
        inherited = self._redact_inherited(item, redaction)
        if redaction is not None:
            redaction.names(outline)
        if item.keys:
            outline.ClearField("attributes")
            if inherited:
                outline.attributes.extend(inherited)
        if outline.HasField("status"):
            outline.status.ClearField("message")

    def _redact_inherited(self, item: _Item, redaction: RequestRedaction | None) -> list[bytes]:
        """Redact the attributes that spans below may have something of: ids, or what the application declares."""
        places = self._read_names(item.keys).inherited
        if redaction is not None:
            redaction.attributes(item.outline, item.pairs, places)
        return [item.pairs[place] for place in places]

    def _read_names(self, keys: tuple[str, ...]) -> _AttributeNames:
        names = self._names.get(keys)
        if names is None:
            inherited = (self._identity.concerns((key,)) or self._application.concerns((key,)) for key in keys)
            names = _AttributeNames(
                self._dialects.match(keys, ""), tuple(place for place, concerns in enumerate(inherited) if concerns)
            )
            if sum(map(len, keys)) < _LONGEST_SEQUENCE:
                if len(self._names) >= _MOST_SEQUENCES:  # senders may invent any number of names
                    self._names.clear()
                self._names[keys] = names
        return names


class _AttributeNames(NamedTuple):
    """What the names of a span's attributes tell: evidence of dialects, and the places of those that are inherited.

    A library writes the same names in the same order, so few sequences stand for all spans.
    """

    evidence: int
    inherited: tuple[int, ...]


class _Item(NamedTuple):
    """A span in outline, its attributes and their names, its scope's name, and what has its resource."""

    outline: Outline
    pairs: list[bytes]
    keys: tuple[str, ...]
    scope: str
    holder: Outline

    def span(self, resource: Attributes, evidence: int) -> Span:
        return decode_span(ExaminedSpan(self.outline, self.pairs, evidence), self.scope, resource)


def _list_items(parts: Sequence[Part]) -> Mapping[bytes, _Item]:
    """The spans of a trace by id; none where there is something to keep it whole for."""
    items: dict[bytes, _Item] = {}
    for holder, scope, spans in parts:
        name = scope.scope.name
        for span in spans:
            span_id, parent = span.span_id, span.parent_span_id
            if len(span_id) != _ID_BYTES or len(parent) not in _PARENT_BYTES or span.events or span.links:
                return {}
            if span_id in items:
                return {}  # in two versions
            pairs = list(span.attributes)
            items[span_id] = _Item(span, pairs, tuple(names_of(pairs)), name, holder)
    return items


def _line_of(span_id: bytes, items: Mapping[bytes, _Item]) -> Sequence[_Item]:
    """The span and its ancestors, nearest first; none if they do not end at a root or in another process."""
    line = [items[span_id]]
    while parent := line[-1].outline.parent_span_id:
        above = items.get(parent)
        if above is None:
            return line if line[-1].outline.flags & _REMOTE == _REMOTE else ()
        if len(line) > _MOST_AROUND:
            return ()  # or they go round in a circle
        line.append(above)
    return line


class _Resources:
    """The attributes of the resources of a request, each decoded once."""

    def __init__(self) -> None:
        self._known: dict[int, Attributes] = {}

    def of(self, holder: Outline) -> Attributes:
        known = self._known.get(id(holder))
        if known is None:
            known = self._known[id(holder)] = resource_of(holder.resource)
        return known


def _make_turn(call: SoleCall, items: Mapping[bytes, _Item], conversation: str) -> ThinTurn:
    model = call.model
    return ThinTurn(
        model.trace_id,
        model.span_id,
        call.dialect,
        {span_id: call.dialects.get(span_id, UNREAD) for span_id in map(bytes.hex, items)},
        conversation,
        service_name(model.resource),
        model.start,
        model.end,
        items[bytes.fromhex(model.span_id)].outline.trace_state,
    )


def _keep(_parts: Sequence[Part]) -> None:
    return None


def _key(conversation: str, tenant: str) -> str:
    """The key of the turn's record as its reader sees it: see `TurnRouter.is_wanted`."""
    return id_in_tenant(conversation, tenant).encode("utf-8", "replace").decode(errors="replace")
