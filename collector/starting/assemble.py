"""Starts the assemble stage."""

from __future__ import annotations

from collector.assemble.open_traces import Waits
from collector.assemble.stage import AssembleStage
from collector.assembling import assembler_of, outlet_of
from collector.starting.process import Process
from collector.telemetry import ASSEMBLED, OPEN_TRACES


def start_assemble(process: Process) -> None:
    """Follow the spans log and make turns of it."""
    settings, logs, telemetry = process.config.settings.assemble, process.logs, process.telemetry
    letters = process.guards.letters("assemble", logs.spans.name, logs)
    stage = AssembleStage(
        assembler_of(settings),
        outlet_of(settings, logs.turns, logs.unlinked),
        Waits(quiet=settings.quiet, linger=settings.linger),
        count=lambda dialect, what, number: telemetry.counter(ASSEMBLED, dialect, what).inc(number),
        on_bad_record=letters.take,
    )
    telemetry.gauge(OPEN_TRACES).set_function(lambda: stage.open_traces)
    process.tasks.follow(logs.spans, "assemble", letters.guarding(stage.open_fold))
