"""The assembler, the router of turns and the linker of a configuration, and the start of the assemble and link stages.

Unwanted conversations are those that no monitor can want, whatever comes: their draw lies above every rate that can be.
Budgets and plans lower rates and never raise them above the configured ones, so a conversation that the configured
rates leave out is never selected. A monitor that looks into turns to know what it watches, or how often, may want any
conversation; so may one whose rate is planned, since that may come to 1. After a change of the configuration,
unwanted is only what neither it nor the last can want.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from collector.assemble.application_attributes import ApplicationAttributes
from collector.assemble.attachments import MediaLimits
from collector.assemble.fold import SideLogs
from collector.assemble.identity import IdentityLookup
from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.assemble.trace_references import TraceReferences
from collector.assemble.turn_notes import TurnNotes
from collector.config.configured import Config
from collector.config.dialects import NO_DIALECTS, DialectSettings, build_dialects
from collector.config.settings import AssembleSettings, LinkSettings
from collector.dialects.registry import Dialects
from collector.evaluate.plan import Monitor, Plan
from collector.link.conversation_linker import ConversationLinker, LinkStage
from collector.link.turn_router import TurnRouter, has_no_conversation
from collector.logs.log import Log
from collector.service.assembly_history import note_assembly
from collector.service.gauges import show_assemble
from collector.service.process import FoldNeeds, Process, layered, without_preparation
from evaluators.cases import Turn


def can_be_wanted(key: str, plan: Plan) -> bool:
    """Whether an evaluator of any monitor may select the conversation with this key."""
    for monitor in plan.monitors:
        if monitor.reads_content:
            return True
        for assignment in monitor.assignments:
            if plan.draw(assignment, key) < monitor.probability(assignment, 1.0, 1.0):
                return True
    return False


def why_all_are_wanted(plan: Plan) -> str | None:
    """Why any conversation may be wanted; None if most are not."""
    return next((reason for monitor in plan.monitors for reason in _reasons(monitor)), None)


def _reasons(monitor: Monitor) -> Iterator[str]:
    name = f"monitor {monitor.name}"
    if monitor.match:
        yield f"{name} reads a field of each turn (match)"
    if monitor.strata.boosts:
        yield f"{name} judges some turns more often by what they contain (boost)"
    if monitor.agent_runs:
        yield f"{name} watches the runs of agents inside turns"
    if monitor.standard_error is not None:
        yield f"the rate of {name} is planned and may come to 1 (sample: auto)"
    for assignment in monitor.assignments:
        if monitor.probability(assignment, 1.0, 1.0) >= 1.0:
            yield f"{name} evaluates every turn by {assignment.evaluator.name}"


_MOST_ANSWERS = 4096
"""Answers that are remembered: a receiver and the assemble stage ask of each turn, and a conversation has several."""
_LONGEST_KEY = 128
"""Characters of a key whose answer is remembered; longer ones would take memory."""


class WantedConversations:
    """Follows the configurations of a process.

    A conversation that the previous configuration could want is wanted, too: the evaluate stage, which is behind, may
    still judge by it.
    """

    def __init__(self, plan: Plan) -> None:
        self._take((plan,))

    def _take(self, plans: tuple[Plan, ...]) -> None:
        self._plans = plans
        self._selects = all(why_all_are_wanted(plan) is None for plan in plans)
        self._cached_can_be_wanted = lru_cache(_MOST_ANSWERS)(self._can_be_wanted)

    def selects(self) -> bool:
        """Whether there are conversations that no monitor can want."""
        return self._selects

    def is_wanted(self, key: str) -> bool:
        """Whether a monitor can want the conversation with this key."""
        return self._cached_can_be_wanted(key) if len(key) <= _LONGEST_KEY else self._can_be_wanted(key)

    def _can_be_wanted(self, key: str) -> bool:
        return any(can_be_wanted(key, plan) for plan in self._plans)

    async def take_over(self, process: Process) -> None:
        """See `Apply`."""
        self._take((process.plan, self._plans[0]))


def follow_wanted(process: Process, stages: Collection[str]) -> WantedConversations | None:
    """The conversations whose content the process stores, under each new configuration; None if all."""
    if process.config.settings.assemble.keep == "all" or not {"receive", "assemble"} & set(stages):
        return None
    wanted = WantedConversations(process.plan)
    process.changes.append(without_preparation(wanted.take_over))
    return wanted


def build_assembler(settings: AssembleSettings, dialects: Mapping[str, DialectSettings] = NO_DIALECTS) -> Assembler:
    """The assembler with the configuration's dialects and, after them, every installed one."""
    where = settings.identity
    return Assembler(
        Dialects.installed(build_dialects(dialects)),
        IdentityLookup(where.conversation, where.user, where.ignore, made_up=where.made_up),
        ApplicationAttributes(settings.declared_attributes),
        MediaLimits(settings.attachments.stored_bytes),
        references=TraceReferences(settings.fields),
        agent_runs=settings.agent_runs,
    )


def build_turn_notes(config: Config, wanted: WantedConversations) -> TurnNotes:
    """The finder of the turns that receivers note, by the rules of the assembler."""
    assembler = build_assembler(config.settings.assemble, config.settings.dialects)
    return TurnNotes(assembler, wanted.is_wanted, wanted.selects)


def trace_limits(settings: AssembleSettings) -> TraceLimits:
    """When traces close."""
    return TraceLimits(quiet=settings.idle_timeout, linger=settings.allowed_lateness)


def build_router(
    settings: AssembleSettings, turns: Log, unlinked: Log | None, wanted: WantedConversations | None = None
) -> TurnRouter:
    """The router of assembled turns: to the turns log, or to the log of unlinked turns."""
    services = settings.link.services if settings.link else ()
    if wanted is None:
        return TurnRouter(turns, unlinked, services)
    return TurnRouter(turns, unlinked, services, wants_key=wanted.is_wanted, may_refuse=wanted.selects)


def linker_factory(settings: LinkSettings) -> Callable[[], ConversationLinker]:
    """A factory of linkers, one for each partition of unlinked turns."""
    return lambda: ConversationLinker(window=settings.idle_timeout, max_age=settings.max_age)


def link_turns(turns: Iterable[Turn], settings: AssembleSettings) -> Iterable[Turn]:
    """Turns out of files; those without a conversation get the one that the service would give them."""
    if settings.link is None:
        return turns
    in_order = list(turns)
    services = frozenset(settings.link.services)
    links = linker_factory(settings.link)()
    unnamed = sorted((turn for turn in in_order if has_no_conversation(turn, services)), key=_end)
    conversations = {
        turn.turn_id: links.conversation_of(turn, position, _end(turn)) for position, turn in enumerate(unnamed)
    }
    return [replace(turn, conversation_id=conversations.get(turn.turn_id, turn.conversation_id)) for turn in in_order]


def _end(turn: Turn) -> float:
    moment = turn.ended_at or turn.started_at
    return moment.timestamp() if moment else 0.0


async def start_assemble(process: Process, wanted: WantedConversations | None) -> None:
    """Consume the spans log and make turns of it, without their content if nobody can want them."""
    settings, logs, telemetry = process.config.settings.assemble, process.logs, process.telemetry
    dead_letters = process.resources.dead_letters("assemble", logs.spans.name, logs)
    stage = AssembleStage(
        build_assembler(settings, process.config.settings.dialects),
        build_router(settings, logs.turns, logs.unlinked, wanted),
        trace_limits(settings),
        telemetry=telemetry,
        on_bad_record=dead_letters.take,
        guard=process.guard,
        side_logs=SideLogs(
            judged_spans=logs.judged_spans, labels=logs.labels, comments=process.config.settings.store_text
        ),
    )
    show_assemble(telemetry, stage)
    await note_assembly(process.steps, process.config.settings, time.time())
    needs = FoldNeeds(place="assemble", log=logs.spans.name, letters=dead_letters, guard=process.guard, shared=True)
    process.tasks.follow("assemble", logs.spans, "assemble", layered(stage.open_fold, needs))


def start_link(process: Process) -> None:
    """Consume the log of unlinked turns and give each its conversation, where that is configured."""
    settings, logs = process.config.settings.assemble.link, process.logs
    if settings is None or logs.unlinked is None:
        return
    dead_letters = process.resources.dead_letters("link", logs.unlinked.name, logs)
    stage = LinkStage(logs.turns, linker_factory(settings), on_bad_record=dead_letters.take)
    needs = FoldNeeds(place="link", log=logs.unlinked.name, letters=dead_letters, guard=process.guard)
    process.tasks.follow("link", logs.unlinked, "link", layered(stage.open_fold, needs))
