"""Starts linking turns that name no conversation, where that is configured."""

from __future__ import annotations

from collector.assembling import links_of
from collector.link.stage import LinkStage
from collector.starting.process import Process


def start_link(process: Process) -> None:
    """Follow the log of unlinked turns and give each its conversation."""
    settings, logs = process.config.settings.assemble.link, process.logs
    if settings is None or logs.unlinked is None:
        return
    letters = process.guards.letters("link", logs.unlinked.name, logs)
    stage = LinkStage(logs.turns, links_of(settings), on_bad_record=letters.take)
    process.tasks.follow(logs.unlinked, "link", letters.guarding(stage.open_fold))
