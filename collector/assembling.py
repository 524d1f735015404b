"""From the configuration to how spans become turns, and turns conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from collector.assemble.identity import Identity
from collector.assemble.trace import Assembler
from collector.config.settings import AssembleSettings, LinkSettings
from collector.dialects.registry import Dialects
from collector.link.links import Links
from collector.link.outlet import Outlet, nameless
from collector.logs.log import Log
from evaluators.cases import Turn


def assembler_of(settings: AssembleSettings) -> Assembler:
    """The assembler with every dialect that is installed."""
    where = settings.identity
    return Assembler(Dialects.installed(), Identity(where.conversation, where.user, where.ignore))


def outlet_of(settings: AssembleSettings, turns: Log, unlinked: Log | None) -> Outlet:
    """Where the assembled turns go."""
    return Outlet(turns, unlinked, settings.link.services if settings.link else ())


def links_of(settings: LinkSettings) -> Callable[[], Links]:
    """Makes the state of a partition whose turns are to be linked."""
    return lambda: Links(window=settings.window, max_age=settings.max_age)


def linked(turns: Iterable[Turn], settings: AssembleSettings) -> Iterable[Turn]:
    """Turns out of files, with the conversations that the service would give to those which name none."""
    if settings.link is None:
        return turns
    found = list(turns)
    services = frozenset(settings.link.services)
    links = links_of(settings.link)()
    unnamed = sorted((turn for turn in found if nameless(turn, services)), key=_end)
    conversations = {
        turn.turn_id: links.conversation_of(turn, position, _end(turn)) for position, turn in enumerate(unnamed)
    }
    return [replace(each, conversation_id=conversations.get(each.turn_id, each.conversation_id)) for each in found]


def _end(turn: Turn) -> float:
    moment = turn.ended_at or turn.started_at
    return moment.timestamp() if moment else 0.0
