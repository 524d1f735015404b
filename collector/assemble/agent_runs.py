"""Runs of agents inside a turn, as subjects of their own: what each was asked, what it did, what it answered.

A run is assembled like a turn, from the agent's span and all below it, as if these were a trace. Its id is a hash of
trace and span, so that it is the same in any order of arrival.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from collector.assemble.enclosing_spans import apply_enclosing_spans
from collector.assemble.model_calls import find_model_calls
from collector.assemble.read_spans import ParsedSpan, SpanTree
from collector.assemble.turn_drafts import TurnDraft, draft_turns, sort_by_end
from collector.assemble.turns import AssembledTurn

_MAX_DEPTH = 8
"""Agents inside each other that are runs of their own; those further in are part of the run around them."""

BuildTurns = Callable[[Sequence[TurnDraft], Sequence[ParsedSpan]], Sequence[AssembledTurn]]
"""Builds the turns of some drafts out of some spans."""


@dataclass(frozen=True, slots=True)
class _Agent:
    """An agent's span, the spans below it in order, and which of them are model calls."""

    span: ParsedSpan
    inside: Sequence[ParsedSpan]
    models: frozenset[str]


def find_agent_runs(
    turns: Sequence[AssembledTurn], parsed_spans: Sequence[ParsedSpan], tree: SpanTree, build: BuildTurns
) -> list[AssembledTurn]:
    """The runs of agents inside the turns of a trace, in order of their starts.

    An agent's span is a run if it is one of several in a turn. One that holds the same model calls as the turn or the
    agent around it is the same run, seen by another instrumentation, and one without any is none.
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
    """The turn that an agent's run is a part of; None where it is all of it, or belongs to none."""
    ancestors = set(tree.ancestors(agent.span.span.span_id))
    for turn in turns:
        if turn.enclosing in ancestors or turn.models & agent.models:
            return None if turn.models <= agent.models else turn
    return None


def _build_run(agent: _Agent, tree: SpanTree, build: BuildTurns) -> AssembledTurn | None:
    """The turn of an agent's spans alone: the one that its own span encloses, else the last."""
    calls = find_model_calls(agent.inside, tree)
    drafts = sort_by_end(apply_enclosing_spans(draft_turns(calls, tree), agent.inside, tree))
    own = [draft for draft in drafts if draft.enclosing_span and draft.enclosing_span.span is agent.span.span]
    chosen = (own or drafts)[-1:]
    return next(iter(build(chosen, agent.inside)), None)


def _as_run(run: AssembledTurn, agent: ParsedSpan, outer: AssembledTurn) -> AssembledTurn:
    """A turn as the run of an agent in another turn, with whose conversation it is drawn and judged.

    A run may end with a call, as where it hands over: then nothing is missing but an answer.
    """
    span = agent.span
    has_ended = run.turn.incomplete == "no_content" and bool(run.turn.tools_called)
    turn = replace(
        run.turn,
        turn_id=hashlib.sha256(f"{span.trace_id}\x1fagent run\x1f{span.span_id}".encode()).hexdigest()[:32],
        agent_run_of=outer.turn.turn_id,
        conversation_id=outer.turn.conversation_id,
        user_id=outer.turn.user_id,
        incomplete=None if has_ended else run.turn.incomplete,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        attributes={**run.turn.attributes, "agent": agent.call.agent or span.name},
    )
    return run._replace(turn=turn)
