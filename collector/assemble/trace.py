"""Assembly of one trace: from its pieces to its turns. Pure: the same pieces, in any order, give the same turns.

Feedback and application events are attached to the turns that they are about.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from collector.assemble.application_attributes import ApplicationAttributes
from collector.assemble.attachments import NOTHING_STORED, MediaLimits
from collector.assemble.collect_trace import UNREAD, ApplicationEvent, CollectedTrace, TracePiece, collect_trace
from collector.assemble.enclosing_spans import apply_enclosing_spans
from collector.assemble.identity import IdentityLookup
from collector.assemble.losses import Losses, find_losses
from collector.assemble.model_calls import ModelCall, find_model_calls
from collector.assemble.rag_prompt import PassageIndex, find_question_hints, split_question
from collector.assemble.read_spans import ParsedSpan, SpanTree, read_spans
from collector.assemble.sole_turn import find_sole_turn
from collector.assemble.speech import NAMES as SPEECH
from collector.assemble.trace_references import TraceReferences
from collector.assemble.turn_drafts import TurnDraft, draft_turns
from collector.assemble.turns import AssembledTurn, TurnBuilder
from collector.assemble.unwanted_turns import make_turn
from collector.dialects.otel_genai import DISCARDED
from collector.dialects.registry import Dialects
from collector.errors import BadInput
from collector.records.feedback import FeedbackEntry, cut, feedback_entry
from collector.records.ready_made import LONGEST_ID
from collector.records.references import digest_of
from evaluators.cases import Feedback, Turn
from evaluators.records import to_dict

_MAX_DEPTH = 8
"""Agents nested up to this depth may be judged as runs. An agent further inside is part of the run around it."""

BuildTurns = Callable[[Sequence[TurnDraft], Sequence[ParsedSpan]], Sequence[AssembledTurn]]
"""Builds turns from drafts and the spans that belong to them."""


@dataclass(frozen=True, slots=True)
class _Agent:
    """An agent's span; this span and those below it, in order; and the ids of the model calls among these spans."""

    span: ParsedSpan
    inside: Sequence[ParsedSpan]
    models: frozenset[str]


def find_agent_runs(
    turns: Sequence[AssembledTurn], parsed_spans: Sequence[ParsedSpan], tree: SpanTree, build: BuildTurns
) -> list[AssembledTurn]:
    """The runs of agents inside the turns of a trace, in order of their starts.

    An agent's span with model calls is a run if it is in a turn or shares calls with it, but lacks a call of the turn.
    If an agent has the same model calls as the agent around it, both are one run, seen by two instrumentations: the
    outer one counts.
    """
    agents = {parsed_span.span.span_id for parsed_span in parsed_spans if parsed_span.call.kind == "agent"}
    if not agents:
        return []
    runs: list[AssembledTurn] = []
    for agent in _find_agents(parsed_spans, agents, tree):
        outer = _turn_around(agent, turns, tree)
        run = _build_run(agent, tree, build) if outer is not None else None
        if outer is not None and run is not None:
            runs.append(_as_run(run, agent.span, outer))
    return runs


def _find_agents(parsed_spans: Sequence[ParsedSpan], agents: set[str], tree: SpanTree) -> Iterator[_Agent]:
    """Yield the agents with model calls, except those with the same model calls as the agent around them."""
    below: dict[str, list[ParsedSpan]] = {}
    for parsed_span in parsed_spans:
        around = [span_id for span_id in reversed(tree.ancestors(parsed_span.span.span_id)) if span_id in agents]
        for span_id in around[:_MAX_DEPTH]:
            below.setdefault(span_id, []).append(parsed_span)
    models = {
        span_id: frozenset(span.span.span_id for span in inside if span.call.kind == "model")
        for span_id, inside in below.items()
    }
    for parsed_span in parsed_spans:
        span_id = parsed_span.span.span_id
        own = models.get(span_id)
        if span_id in agents and own:
            outer = next((ancestor for ancestor in tree.ancestors(span_id) if ancestor in agents), None)
            if outer is None or models.get(outer) != own:
                yield _Agent(parsed_span, [parsed_span, *below[span_id]], own)


def _turn_around(agent: _Agent, turns: Sequence[AssembledTurn], tree: SpanTree) -> AssembledTurn | None:
    """The turn of which an agent's run is a part; None if the run is the whole turn, or belongs to no turn."""
    ancestors = set(tree.ancestors(agent.span.span.span_id))
    for turn in turns:
        if turn.enclosing in ancestors or turn.models & agent.models:
            return None if turn.models <= agent.models else turn
    return None


def _build_run(agent: _Agent, tree: SpanTree, build: BuildTurns) -> AssembledTurn | None:
    """Build a turn from an agent's spans alone. If they give several turns, take the one that the agent's own span
    encloses, else the last one.
    """
    drafts = apply_enclosing_spans(draft_turns(find_model_calls(agent.inside, tree), tree), agent.inside, tree)
    own = [draft for draft in drafts if draft.enclosing_span and draft.enclosing_span.span is agent.span.span]
    return next(iter(build((own or drafts)[-1:], agent.inside)), None)


def _as_run(run: AssembledTurn, agent: ParsedSpan, outer: AssembledTurn) -> AssembledTurn:
    """Mark a turn as an agent's run inside `outer`. It is sampled and judged with that turn's conversation.

    A run may end with a tool call and without an answer, as when it hands over to another agent: it is still complete.
    """
    span = agent.span
    turn = replace(
        run.turn,
        turn_id=hashlib.sha256(f"{span.trace_id}\x1fagent run\x1f{span.span_id}".encode()).hexdigest()[:32],
        agent_run_of=outer.turn.turn_id,
        conversation_id=outer.turn.conversation_id,
        user_id=outer.turn.user_id,
        incomplete=None if run.turn.incomplete == "no_content" and run.turn.tools_called else run.turn.incomplete,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        attributes={**run.turn.attributes, "agent": agent.call.agent or span.name},
    )
    return run._replace(turn=turn)


_MOST_ANCESTORS = 20
"""The most ancestors noted for a span with feedback: the feedback may be about one of them."""
_MAX_EVENTS = 16
"""The most event names of a turn. The latest are taken, since the event that ends a conversation comes last."""


class _NearestTurn:
    """Finds the turn that is nearest to a span. `turns` must not be empty."""

    def __init__(self, turns: Sequence[AssembledTurn], tree: SpanTree) -> None:
        self._tree = tree
        self._last = len(turns) - 1
        self._by_span: dict[str, int] = {}
        for index, turn in enumerate(turns):
            self._by_span.update(dict.fromkeys((*turn.spans, *tree.ancestors(turn.turn.span_id or "")), index))

    def find(self, span_id: str) -> int:
        """The index of the nearest turn: the last turn that contains the span, or is below it. If there is none, the
        same is looked up for each ancestor, from the nearest on. If no ancestor has a turn, the last turn of all
        counts.
        """
        upwards = (span_id, *self._tree.ancestors(span_id))
        return next((self._by_span[candidate] for candidate in upwards if candidate in self._by_span), self._last)


@dataclass(frozen=True, slots=True)
class TraceFeedback:
    """Feedback that a span of a trace carries, also if the span came late.

    `turn_id` is the turn to which the feedback was added, None if the trace has no turn. A later stage looks for the
    subject again: first the turn with this `response_id`, in any trace, then the turn of one of the `spans`. These are
    the span of the turn `turn_id`, or, without a turn, the feedback's own span and its ancestors.
    """

    feedback: Feedback
    trace_id: str
    span_id: str
    turn_id: str | None = None
    response_id: str | None = None
    spans: tuple[str, ...] = ()


def add_feedback(
    turns: Sequence[AssembledTurn], parsed_spans: Sequence[ParsedSpan], tree: SpanTree
) -> tuple[Sequence[AssembledTurn], tuple[TraceFeedback, ...]]:
    """Add feedback to the turn whose response id it names, else to the turn nearest to its span. Returns the turns, and
    a list of all feedback.
    """
    result, listed = list(turns), list[TraceFeedback]()
    nearest = _NearestTurn(result, tree) if result else None
    for span, call in parsed_spans:
        if not call.feedback:
            continue
        named = [index for index, turn in enumerate(result) if turn.turn.response_id == call.feedback_for]
        index = next(iter(named), None) if call.feedback_for is not None else None
        index = nearest.find(span.span_id) if index is None and nearest is not None else index
        turn_id, spans = None, (span.span_id, *tree.ancestors(span.span_id)[:_MOST_ANCESTORS])
        if index is not None:
            turn = result[index].turn
            turn_id, spans = turn.turn_id, (turn.span_id or span.span_id,)
            new = tuple(feedback for feedback in call.feedback if feedback not in turn.feedback)
            result[index] = result[index]._replace(turn=replace(turn, feedback=(*turn.feedback, *new)))
        listed += (
            TraceFeedback(feedback, span.trace_id, span.span_id, turn_id, call.feedback_for, spans)
            for feedback in call.feedback
        )
    return result, tuple(listed)


def entry_of(listed: TraceFeedback, tenant: str) -> FeedbackEntry | None:
    """The entry for the labels log, the same however often the trace is read; None if the feedback says nothing.

    `tenant` is the name of the sender's tenant, "" without one.
    """
    entry = feedback_entry(listed.feedback, tenant)
    if entry is None:
        return None
    entry = replace(entry, trace_id=listed.trace_id)
    digest = digest_of(tenant, {**to_dict(entry), "span_id": listed.span_id})
    return replace(entry, feedback_id=digest, response_id=cut(listed.response_id, LONGEST_ID), spans=listed.spans)


def add_events(
    turns: Sequence[AssembledTurn], events: Sequence[ApplicationEvent], tree: SpanTree
) -> list[AssembledTurn]:
    """Add the names of the application's events, given in order of time, to the turns during which they happened.

    A monitor may be configured to end a conversation at such an event.
    """
    result = list(turns)
    if not result or not events:
        return result
    nearest = _NearestTurn(result, tree)
    names: dict[int, dict[str, None]] = {}
    for event in events:
        turn_names = names.setdefault(nearest.find(event.span_id), {})
        turn_names.pop(event.name, None)  # move a repeated name to the end
        turn_names[event.name] = None
    for index, turn_names in names.items():
        turn = replace(result[index].turn, events=tuple(turn_names)[-_MAX_EVENTS:])
        result[index] = result[index]._replace(turn=turn)
    return result


class Assembly(NamedTuple):
    """The result of a trace: its turns, the number of its spans by dialect (`UNREAD` for none), and all its feedback.

    With `at_a_glance` no content was read: the only turn has none, so its id is not the one that content would give.
    """

    turns: tuple[AssembledTurn, ...] = ()
    spans: Mapping[str, int] = MappingProxyType({})
    feedback: tuple[TraceFeedback, ...] = ()
    at_a_glance: bool = False


class TraceAnalysis(NamedTuple):
    """The turns of a trace with every intermediate result, for explaining them."""

    trace: CollectedTrace
    tree: SpanTree
    parsed_spans: tuple[ParsedSpan, ...]
    calls: tuple[ModelCall, ...]
    drafts: tuple[TurnDraft, ...]
    assembly: Assembly
    losses: Losses


@dataclass(eq=False, repr=False)
class Assembler:
    """Assembles traces, given the dialects in use and the attributes of conversations, users and the application."""

    dialects: Dialects
    identity: IdentityLookup = field(default_factory=IdentityLookup)
    application: ApplicationAttributes = field(default_factory=ApplicationAttributes)
    media: MediaLimits = NOTHING_STORED
    _: KW_ONLY
    references: TraceReferences = field(default_factory=TraceReferences)
    agent_runs: bool = False
    """The runs of agents inside a turn are turns, too: see `find_agent_runs`."""

    def __post_init__(self) -> None:
        self.names: frozenset[str] = self.application.names | self.references.names | SPEECH

    def assemble(
        self,
        pieces: Iterable[TracePiece],
        on_bad: Callable[[BadInput], None] = lambda _error: None,
        *,
        is_wanted: Callable[[Turn], bool] | None = None,
    ) -> Assembly:
        """Assemble the turns of one trace, in order of their ends. Invalid pieces go to `on_bad` and are left out.

        `is_wanted` gets a turn without its content. If the only turn of a trace is not wanted, its content is not read.
        """
        pieces = tuple(pieces)
        unknown: list[int] = []
        trace = collect_trace(pieces, self.dialects, self.identity, on_bad, self.names, unknown.append)
        if trace is None:
            return Assembly(spans={UNREAD: unknown[0]} if any(unknown) else {})
        if is_wanted is not None and not self.agent_runs:
            sole = find_sole_turn(trace, self.dialects, self.identity)
            if sole is not None and not is_wanted((turn := make_turn(sole)).turn):
                return Assembly((turn,), Counter(sole.spans.values()), at_a_glance=True)
        return self.analyze(trace).assembly

    def analyze(self, trace: CollectedTrace) -> TraceAnalysis:
        """Assemble the turns of one trace, and return the intermediate results, too."""
        tree = SpanTree(trace.spans)
        parsed_spans = read_spans(trace, tree, self.dialects, self.identity)
        calls = find_model_calls(parsed_spans, tree)
        drafts = draft_turns(_without_auxiliary(calls, parsed_spans, tree), tree)
        drafts = apply_enclosing_spans(drafts, parsed_spans, tree)
        losses = find_losses(parsed_spans, trace.spans, trace.records)
        turns: Sequence[AssembledTurn] = self._build_turns(drafts, parsed_spans, tree, losses)
        spans: dict[str, int] = {}
        read: set[str] = set()
        has_feedback = False
        for span, call in parsed_spans:
            spans[call.dialect] = spans.get(call.dialect, 0) + 1
            read.add(span.span_id)
            has_feedback = has_feedback or bool(call.feedback)
        turns, feedback = add_feedback(turns, parsed_spans, tree) if has_feedback else (turns, ())
        turns = add_events(turns, trace.events, tree) if trace.events else turns
        if self.agent_runs:
            build = partial(self._build_turns, tree=tree, losses=losses)
            turns = [*turns, *find_agent_runs(turns, parsed_spans, tree, build)]
        if unread := len(tree.spans.keys() - read):
            spans[UNREAD] = unread
        assembly = Assembly(tuple(turns), spans, feedback)
        return TraceAnalysis(trace, tree, tuple(parsed_spans), tuple(calls), tuple(drafts), assembly, losses)

    def _build_turns(
        self, drafts: Sequence[TurnDraft], parsed_spans: Sequence[ParsedSpan], tree: SpanTree, losses: Losses
    ) -> list[AssembledTurn]:
        builder = TurnBuilder(parsed_spans, tree, self.identity, self.application, self.media, self.references, losses)
        passages = PassageIndex(parsed_spans, tree)
        hints = find_question_hints(parsed_spans)
        turns: list[AssembledTurn] = []
        previous_end = 0
        for draft in drafts:
            split_question(draft, hints)
            turns.append(builder.build(draft, passages.find(draft, previous_end)))
            previous_end = draft.end if len(drafts) > 1 else 0
        return turns


def _without_auxiliary(
    calls: Sequence[ModelCall], parsed_spans: Sequence[ParsedSpan], tree: SpanTree
) -> Sequence[ModelCall]:
    """The calls that may answer a user: not discarded, and not inside a guardrail, an evaluator or a reranker."""
    excluded_before: dict[str, float] = {}
    for span, call in parsed_spans:
        if call.kind == "auxiliary":
            excluded_before[span.span_id] = inf
        for event in span.events:
            if event.name == DISCARDED:
                excluded_before[span.span_id] = max(event.time, excluded_before.get(span.span_id, 0))
    if not excluded_before:
        return calls
    return [
        call
        for call in calls
        if all(call.span.start >= excluded_before.get(at, 0) for at in tree.ancestors(call.span.span_id))
    ]
