"""The start of the assemble stage."""

from __future__ import annotations

from collector.assemble.stage import AssembleStage
from collector.records.shared_records import dividing
from collector.service.assembly_builder import build_assembler, build_router, trace_limits
from collector.service.gauges import show_assemble
from collector.service.process import Process
from collector.service.wanted import WantedConversations


def start_assemble(process: Process, wanted: WantedConversations | None) -> None:
    """Consume the spans log and make turns of it; those that nobody can want without their content."""
    settings, logs, telemetry = process.config.settings.assemble, process.logs, process.telemetry
    dead_letters = process.resources.dead_letters("assemble", logs.spans.name, logs)
    stage = AssembleStage(
        build_assembler(settings, process.config.settings.dialects),
        build_router(settings, logs.turns, logs.unlinked, wanted.is_wanted if wanted is not None else None),
        trace_limits(settings),
        telemetry=telemetry,
        on_bad_record=dead_letters.take,
        guard=process.guard,
        judged_spans=logs.judged_spans,
        labels=logs.labels,
        comments=process.config.settings.store_text,
    )
    show_assemble(telemetry, stage)
    process.tasks.follow(logs.spans, "assemble", dividing(dead_letters.wrap(stage.open_fold, process.guard)))
