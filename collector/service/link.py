"""The start of the link stage."""

from __future__ import annotations

from collector.link.stage import LinkStage
from collector.service.assembly_builder import linker_factory
from collector.service.process import Process


def start_link(process: Process) -> None:
    """Consume the log of unlinked turns and give each its conversation, where that is configured."""
    settings, logs = process.config.settings.assemble.link, process.logs
    if settings is None or logs.unlinked is None:
        return
    dead_letters = process.resources.dead_letters("link", logs.unlinked.name, logs)
    stage = LinkStage(logs.turns, linker_factory(settings), on_bad_record=dead_letters.take)
    process.tasks.follow(logs.unlinked, "link", dead_letters.wrap(stage.open_fold, process.guard))
