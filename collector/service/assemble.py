"""The start of the assemble and link stages."""

from __future__ import annotations

from collector.assemble.fold import SideLogs
from collector.assemble.stage import AssembleStage
from collector.link.stage import LinkStage
from collector.service.assembly_builder import build_assembler, build_router, linker_factory, trace_limits
from collector.service.fold_layers import FoldNeeds, layered
from collector.service.gauges import show_assemble
from collector.service.process import Process
from collector.service.wanted import WantedConversations


def start_assemble(process: Process, wanted: WantedConversations | None) -> None:
    """Consume the spans log and make turns of it; those that nobody can want without their content."""
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
