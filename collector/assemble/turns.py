"""Turns, built from drafts: the records that are judged, with ids that do not depend on the order of arrival.

An incomplete turn is reported with its reason, never judged.
"""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from collector.assemble.application_attributes import NO_VALUES, ApplicationAttributes, InheritedAttributes, Values
from collector.assemble.attachments import NOTHING_STORED, MediaLimits, collect_attachments
from collector.assemble.identity import ConversationAndUser, IdentityLookup, may_be_made_up, parse_identifier
from collector.assemble.losses import NO_LOSSES, PROMPT_FIELDS, Losses
from collector.assemble.model_calls import ModelCall, normalize_whitespace
from collector.assemble.rag_prompt import mentions_context
from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.assemble.speech import KEYS as SPEECH_KEYS, describe_speech
from collector.assemble.tools import ToolSpans, find_tools_called, find_tools_offered
from collector.assemble.trace_references import References, TraceReferences
from collector.assemble.turn_drafts import TurnDraft, find_program_fields
from collector.dialects.attributes import find_text, is_masked
from collector.dialects.call import Call, ChatMessage
from collector.dialects.decode import parse_document
from collector.dialects.messages import split_system_prompt
from collector.dialects.program_fields import is_scaffolding
from collector.link.conversation_linker import is_pointer
from collector.otlp.span import Attributes, Span
from collector.records.attributes import LONGEST_LABEL, plain_value
from collector.records.quick_records import quick
from evaluators.cases import Incomplete, Json, Message, TokenCount, Turn

_make_turn, _make_message = quick(Turn), quick(Message)

_NO_REFERENCES: References = {}
_NO_IDS: ConversationAndUser = (None, None)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NAME = 1000


class AssembledTurn(NamedTuple):
    """A turn, the ids of its spans, and the source of each declared attribute.

    `enclosing` is the id of the span around its model calls, `models` are the ids of the calls' spans.
    """

    turn: Turn
    spans: frozenset[str]
    declared: Values = NO_VALUES
    enclosing: str | None = None
    models: frozenset[str] = frozenset()


class TurnBuilder:
    """Builds the turns of one trace."""

    def __init__(
        self,
        parsed_spans: Sequence[ParsedSpan],
        tree: SpanTree,
        identity: IdentityLookup,
        application: ApplicationAttributes | None = None,
        media: MediaLimits = NOTHING_STORED,
        references: TraceReferences | None = None,
        losses: Losses = NO_LOSSES,
    ) -> None:
        self._media = media
        self._references, self._is_spoken = None, False
        names = references.names_beside if references is not None else SPEECH_KEYS
        for span in tree.spans.values():
            if not (names.isdisjoint(span.attributes) and names.isdisjoint(span.resource)):
                self._references, self._is_spoken = references, True
        self._losses = losses
        self._tools = ToolSpans(parsed_spans, tree)
        self._tree = tree
        self._identity = identity
        self._inherited: InheritedAttributes | None = None
        if application is not None and application.names:
            self._inherited = InheritedAttributes(application, tree.spans)
        self._ordinals: dict[tuple[str, ...], int] = {}
        self._ids: dict[str, ConversationAndUser] = {}
        self._trace_identity: ConversationAndUser | None = None
        self._trace_ids: dict[IdentityLookup, ConversationAndUser] = {}
        self._interrupted: bool | None = None
        self._responses = frozenset([parsed_span.call.response_id for parsed_span in parsed_spans])

    def build(self, draft: TurnDraft, passages: tuple[str, ...]) -> AssembledTurn:
        """Build the turn of a draft."""
        span, call = _find_main_span(draft)
        incomplete = None if draft.error is not None else _missing_reason(draft, self._losses)
        if incomplete == "no_content" and draft.final is None and self._is_interrupted():
            incomplete = "waiting"
        question = None if incomplete == "truncated" and draft.enclosing_span is None else draft.question
        # a complete draft without an answer: the model answered nothing
        answer = None if draft.error is not None or incomplete else draft.answer or ""
        system, history = _split_history(draft)
        conversation, user = self._find_identity(draft, span)
        declared: Values = NO_VALUES
        if self._inherited is not None:
            declared = self._inherited.of(span, self._tree.ancestors(span.span_id), _other_spans(draft, span))
        media = collect_attachments(draft, self._media)
        references = _NO_REFERENCES
        if self._references is not None:
            references = self._references.find(self._list_around(draft, span), self._losses)
        begins_elsewhere, own = False, set[str]()
        for model_call in draft.calls:
            begins_elsewhere = begins_elsewhere or model_call.call.input_begins_elsewhere
            for parsed_span in model_call.parsed_spans:
                own.add(parsed_span.span.span_id)
        models, around = frozenset(own), draft.enclosing_span
        if around is not None:
            own.add(around.span.span_id)
        parts = self._losses.parts(own) if self._losses.spans else ()
        cut = ",".join(dict.fromkeys((*PROMPT_FIELDS, *parts)) if begins_elsewhere else parts)
        attributes = _collect_attributes(draft, span, call, declared, media.left_out, cut)
        if self._is_spoken:
            attributes = {**describe_speech(self._list_around(draft, span), self._tree), **attributes}
        turn = _make_turn(
            turn_id=self._identify(span, draft, question, answer), conversation_id=conversation, user_id=user,
            trace_id=span.trace_id, span_id=span.span_id, parent_span_id=span.parent_span_id,
            response_id=_as_name(call.response_id), trace_state=span.trace_state or None,
            service=service_name(span.resource), dialect=call.dialect, model=_as_name(call.model),
            started_at=to_datetime(around.span.start if around is not None else draft.calls[0].span.start),
            ended_at=to_datetime(around.span.end if around is not None else draft.end),
            system_prompt=system, history=history, input=question, actual_output=answer, retrieval_context=passages,
            tools_called=find_tools_called(draft, self._tools), tools_offered=find_tools_offered(draft),
            expected_output=references.get("expected_output"), context=references.get("context"),
            expected_tools=references.get("expected_tools"),
            model_calls=len(draft.calls) or None, usage=_sum_usage(draft.calls),
            error=draft.error, incomplete=incomplete, attachments=media.attachments,
            program_fields=find_program_fields(draft, question, answer), attributes=attributes,
        )  # fmt: skip
        return AssembledTurn(turn, frozenset(own), declared, around and around.span.span_id, models)

    def _is_interrupted(self) -> bool:
        """Whether a run of the trace stopped to ask a person."""
        if self._interrupted is None:
            self._interrupted = _find_interrupt(self._tree.spans.values())
        return self._interrupted

    def _identify(self, span: Span, draft: TurnDraft, question: str | None, answer: str | None) -> str:
        """32 hex digits: a hash of question and answer if both are known, else of the span.

        The texts, not the span: which span is the main one may change when late pieces of the trace arrive, and a
        changed id is a turn that is judged twice. Equal texts in one trace are numbered in order of their ends.
        """
        if question is None or answer is None:
            key = (span.trace_id, span.span_id, "failed" if draft.error is not None else "incomplete")
        else:
            key = (span.trace_id, normalize_whitespace(question), normalize_whitespace(answer))
        ordinal = self._ordinals.get(key, 0)
        self._ordinals[key] = ordinal + 1
        return hashlib.sha256("\x1f".join((*key, str(ordinal))).encode()).hexdigest()[:32]

    def _find_identity(self, draft: TurnDraft, span: Span) -> ConversationAndUser:
        """Find conversation and user: by the configured names anywhere in the trace, then by the usual ones.

        Each in the draft's own spans, then their ancestors, the trace, the resource.
        """
        conversation = user = made_up = None
        if self._identity.configured is not None:
            conversation, user = self._find_by(self._identity.configured, draft, span)
        for source, scope in self._list_nearest_sources(draft, span):
            if isinstance(source, Call):
                ids: ConversationAndUser = (parse_identifier(source.conversation_id), parse_identifier(source.user_id))
            else:
                ids = self._find_ids(source)
            if ids[0] and self._may_be_made_up(ids[0], scope):
                made_up, ids = made_up or self._unless_pointer(ids[0]), (None, ids[1])
            conversation, user = conversation or ids[0], user or ids[1]
            if conversation and user:
                return conversation, user
        in_trace = self._find_trace_identity() if len(self._tree.spans) > 1 else _NO_IDS
        for ids in (in_trace, self._identity.find(span.resource)):
            conversation, user = conversation or ids[0], user or ids[1]
        if not (conversation or made_up) and self._identity.set_aside is not None:
            made_up, _ = self._find_by(self._identity.set_aside, draft, span)
        return conversation or made_up, user

    def _may_be_made_up(self, conversation: str, scope: str) -> bool:
        return conversation in self._responses or may_be_made_up(conversation, scope)

    def _unless_pointer(self, conversation: str) -> str | None:
        """An id that a library made up; None where it points at a response of the same trace."""
        return None if conversation in self._responses and is_pointer(conversation) else conversation

    def _find_by(self, lookup: IdentityLookup, draft: TurnDraft, span: Span) -> ConversationAndUser:
        conversation = user = None
        for source, _ in self._list_nearest_sources(draft, span):
            if not isinstance(source, Call):
                ids = lookup.find(source.attributes)
                conversation, user = conversation or ids[0], user or ids[1]
        in_trace = self._trace_ids.get(lookup)
        if in_trace is None:
            in_trace = _find_only([lookup.find(each.attributes) for each in self._tree.spans.values()])
            self._trace_ids[lookup] = in_trace
        for ids in (in_trace, lookup.find(span.resource)):
            conversation, user = conversation or ids[0], user or ids[1]
        return conversation, user

    def _list_around(self, draft: TurnDraft, span: Span) -> list[Span]:
        """The spans of the model's call and their ancestors, nearest first."""
        ancestors = (self._tree.spans.get(span_id) for span_id in self._tree.ancestors(span.span_id))
        return [span, *_other_spans(draft, span), *filter(None, ancestors)]

    def _find_ids(self, span: Span) -> ConversationAndUser:
        """Find the ids that a span has; once, since many turns may be below a span with long texts."""
        ids = self._ids.get(span.span_id)
        if ids is None:
            ids = self._ids[span.span_id] = self._identity.find(span.attributes)
        return ids

    def _list_nearest_sources(self, draft: TurnDraft, span: Span) -> list[tuple[Span | Call, str]]:
        """The attributes that may name a conversation or a user, each with its scope.

        The draft's own spans come first, then their ancestors, nearest first.
        """
        sources: list[tuple[Span | Call, str]] = []
        own_spans = draft.calls[-1].parsed_spans if draft.calls else ()
        for own, call in (*own_spans, draft.enclosing_span) if draft.enclosing_span else own_spans:
            if call.conversation_id is not None or call.user_id is not None:
                sources.append((call, own.scope))
            if own.attributes:
                sources.append((own, own.scope))
        for span_id in self._tree.ancestors(span.span_id) if span.parent_span_id else ():
            ancestor = self._tree.spans.get(span_id)
            if ancestor is not None and ancestor.attributes:
                sources.append((ancestor, ancestor.scope))
        return sources

    def _find_trace_identity(self) -> ConversationAndUser:
        """The conversation and the user that the whole trace names, if it names only one."""
        if self._trace_identity is None:
            certain: list[ConversationAndUser] = []
            for span in self._tree.spans.values():
                conversation, user = self._find_ids(span) if span.attributes else _NO_IDS
                is_certain = conversation and not self._may_be_made_up(conversation, span.scope)
                certain.append((conversation if is_certain else None, user))
            self._trace_identity = _find_only(certain)
        return self._trace_identity


def _other_spans(draft: TurnDraft, span: Span) -> list[Span]:
    """The spans, beside the model's, that describe the call of a turn."""
    own = [parsed_span.span for parsed_span in draft.last.parsed_spans] if draft.last else []
    own += [draft.enclosing_span.span] if draft.enclosing_span else []
    return [other for other in own if other.span_id != span.span_id]


def _find_only(identities: Sequence[ConversationAndUser]) -> ConversationAndUser:
    """The conversation and the user, each if there is only one."""
    conversations = {conversation for conversation, _ in identities} - {None}
    users = {user for _, user in identities} - {None}
    return conversations.pop() if len(conversations) == 1 else None, users.pop() if len(users) == 1 else None


def _find_main_span(draft: TurnDraft) -> tuple[Span, Call]:
    """Find the span that the turn is about: the model call with the answer, else the enclosing span."""
    last = draft.calls[-1] if draft.calls else None
    if last is not None and (draft.final is not None or draft.enclosing_span is None):
        return last.span, last.call
    if draft.enclosing_span is None:
        raise ValueError("a draft has a model call or an enclosing span")
    call = draft.enclosing_span.call
    if last is not None:
        call = call._replace(model=call.model or last.call.model, provider=call.provider or last.call.provider)
    return draft.enclosing_span.span, call


def _split_history(draft: TurnDraft) -> tuple[str | None, tuple[Message, ...]]:
    """Split the messages before the question into system prompt and history, from the call with most of them."""
    calls = draft.calls
    fullest = max(calls, key=_QUESTION_INDEX) if calls else None
    own: str | None = None
    for call in calls:
        own = own or call.call.system
    messages: Sequence[ChatMessage] = (fullest.call.input or ())[: max(fullest.question_index, 0)] if fullest else ()
    enclosing_call = draft.enclosing_span.call if draft.enclosing_span else None
    if enclosing_call is not None:
        own = own or enclosing_call.system
        if not messages:
            messages = _cut_at_question(enclosing_call.input or ())
    system, rest = split_system_prompt(messages) if messages else (None, ())
    history = [
        message.in_history
        if message.tool_calls or message.tool_call_id
        else _make_message(role=message.role, content=message.text)
        for message in rest
    ]
    return own or system, tuple(history)


_QUESTION_INDEX = attrgetter("question_index")


def _cut_at_question(messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    user_indexes = [index for index, message in enumerate(messages) if message.role == "user" and message.text.strip()]
    return messages[: user_indexes[-1]] if user_indexes else ()


def _sum_usage(calls: Sequence[ModelCall]) -> TokenCount | None:
    if len(calls) == 1:
        return calls[0].call.usage
    counts = [call.call.usage for call in calls if call.call.usage is not None]
    if len(counts) < 2:
        return counts[0] if counts else None
    return TokenCount(
        input_tokens=sum(count.input_tokens for count in counts),
        output_tokens=sum(count.output_tokens for count in counts),
    )


def service_name(resource: Attributes) -> str | None:
    """The name of the service that has these attributes."""
    name = resource.get("service.name")
    return name if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME else None


def to_datetime(nanoseconds: int) -> datetime | None:
    """A time in nanoseconds since the epoch; None without one."""
    return _EPOCH + timedelta(0, 0, nanoseconds // 1000) if nanoseconds > 0 else None


def _as_name(text: str | None) -> str | None:
    """A name or id; None if it is longer than a real one would be, because every evaluation repeats it."""
    return text if text is None or len(text) <= _LONGEST_NAME else None


def _collect_attributes(
    draft: TurnDraft, span: Span, call: Call, declared: Values, left_out: int, cut: str
) -> dict[str, Json]:
    """The attributes by which monitors may select turns, beside a turn's fields."""
    enclosing_span = draft.enclosing_span
    resource = span.resource
    own_spans = (span, enclosing_span.span) if enclosing_span else (span,)
    with_labels = [own_span.attributes for own_span in own_spans if not _LABELS.isdisjoint(own_span.attributes)]
    attributes = {
        "span_name": span.name, "scope": span.scope,
        "agent": (enclosing_span.call.agent if enclosing_span else None) or call.agent,
        "root": enclosing_span.span.name if enclosing_span else None,
        "provider": call.provider, "finish": call.finish_reason,
        "environment": find_text(resource, "deployment.environment.name", "deployment.environment"),
        "service_version": find_text(resource, "service.version"),
        "prompt": _find_label(with_labels, _PROMPT) if with_labels else None,
        "prompt_version": _find_label(with_labels, _PROMPT_VERSION) if with_labels else None,
        "attachments_left_out": left_out, "truncated_fields": cut,
    }  # fmt: skip
    standard = {name: value for name, value in attributes.items() if value}
    if call.uncertain:
        standard["input_uncertain"] = True
    return {**standard, **{name: value.value for name, value in declared.items()}} if declared else standard


_PROMPT = (
    "gen_ai.prompt.name",
    "langfuse.observation.prompt.name",
    "traceloop.prompt.key",
    "langsmith.metadata.lc_hub_repo",
)
_PROMPT_VERSION = (
    "gen_ai.prompt.version",
    "langfuse.observation.prompt.version",
    "traceloop.prompt.version",
    "langsmith.metadata.lc_hub_commit_hash",
    "llm.prompt_template.version",
)


_LABELS = frozenset((*_PROMPT, *_PROMPT_VERSION))


def _find_label(spans: Iterable[Attributes], keys: Sequence[str]) -> str | None:
    """The name or number under the first of the keys that the attributes of a span have."""
    for attributes in spans:
        for key in keys:
            if key in attributes:
                value = plain_value(attributes[key])
                if value is not None:
                    return str(value)[:LONGEST_LABEL]
    return None


def _missing_reason(draft: TurnDraft, losses: Losses) -> Incomplete | None:
    """The reason why question or answer of a draft are missing or cannot be trusted; None if it is complete."""
    if is_masked(draft.question) or is_masked(draft.answer):
        return "redacted"
    if is_scaffolding(draft.question) or is_scaffolding(draft.answer):
        return "scaffolding"
    last, enclosing_span = draft.calls[-1] if draft.calls else None, draft.enclosing_span
    calls = [last.call] if last else []
    spans = [parsed_span.span for parsed_span in last.parsed_spans] if last else []
    if enclosing_span is not None:
        calls.append(enclosing_span.call)
        spans.append(enclosing_span.span)
    if draft.answer is None and not _is_empty_answer(draft, spans):
        return _find_first_reason(calls, spans, of_answer=True)
    if not draft.answer and _is_unrecorded_answer(draft):
        return "no_content"
    if draft.question is None:
        return _find_first_reason(calls, spans, of_answer=False)
    if enclosing_span is not None:
        if any(_is_context_prompt_cut(call, spans) for call in calls):
            return "truncated"
    elif draft.final is not None:
        call = draft.final.call
        reason = call.input_incomplete or call.output_incomplete
        if reason is not None:
            return reason  # the missing part may have been the user's last message
    return "truncated" if losses.texts and losses.has_cut((draft.answer, draft.question, draft.prompt), spans) else None


def _find_interrupt(spans: Iterable[Span]) -> bool:
    """Whether a run stopped to ask a person: LangGraph raises an exception for it, which no one catches."""
    return any(
        str(event.attributes.get("exception.type", "")).rpartition(".")[2] in _INTERRUPTS
        for span in spans
        for event in span.events
    )


_INTERRUPTS = frozenset({"GraphInterrupt", "NodeInterrupt"})


def _find_first_reason(calls: Sequence[Call], spans: list[Span], *, of_answer: bool) -> Incomplete:
    inputs: list[Incomplete | None] = [call.input_incomplete for call in calls]
    outputs: list[Incomplete | None] = [call.output_incomplete for call in calls]
    for reason in outputs + inputs if of_answer else inputs + outputs:
        if reason is not None:
            return reason
    return "evicted_attributes" if any(span.dropped_attributes for span in spans) else "no_content"


def _is_empty_answer(draft: TurnDraft, spans: Sequence[Span]) -> bool:
    """Whether the model's answer is empty, rather than not recorded.

    Some libraries omit an empty answer. Then the question, a normal end of the call and its token counts are recorded.
    """
    if draft.final is None or draft.question is None:
        return False
    call = draft.final.call
    is_whole = (
        call.output_incomplete is None
        and call.input_incomplete is None
        and not any(span.dropped_attributes for span in spans)
        and not any(message.text for message in call.output or ())  # text in an unknown role may be the answer
    )
    return is_whole and call.finish_reason == "stop" and call.usage is not None


_EMPTY_ANSWER_TOKENS = 5
"""Output tokens of an empty answer, at most: its end is one or two."""


def _is_unrecorded_answer(draft: TurnDraft) -> bool:
    """Whether the model wrote something that was not recorded, though the answer looks empty.

    Libraries omit refusals and thoughts, and whole answers of providers whose shape they do not know.
    """
    if draft.final is None or draft.enclosing_span is not None:
        return False
    call = draft.final.call
    return (
        call.finish_reason in {None, "stop"}
        and call.usage is not None
        and call.usage.output_tokens > _EMPTY_ANSWER_TOKENS
    )


def _is_context_prompt_cut(call: Call, spans: list[Span]) -> bool:
    """Whether a prompt with retrieved context was cut: then the basis of the answer is unknown.

    If only history was cut, the enclosing span's question replaces the lost one.
    """
    if call.input_incomplete != "truncated":
        return False
    for span in spans:
        raw = span.attributes.get(call.sources.get("input", ""))
        document = parse_document(raw) if isinstance(raw, str) else None
        if document is not None and not document.whole and mentions_context(document.tail):
            return True
    return False
