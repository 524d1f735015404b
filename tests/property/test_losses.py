"""Whatever a sender's limits take from the captured payloads, each text is the right one or marked as incomplete."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from losses import Loss, after, cut_to, keep_events, keep_first, keep_last, without_each, wrong_texts
from truth import PAYLOADS, UNMET, truth_of

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.commands.normalize import pieces_in
from collector.dialects.registry import Dialects
from evaluators.cases import Turn

ASSEMBLER = Assembler(Dialects.installed())
FOLDERS = [path for path in (*sorted(PAYLOADS.iterdir()), *sorted(UNMET.iterdir())) if "limit300" not in path.name]
USUAL = (64, 100, 128, 150, 200, 250, 256, 300, 400, 500, 512, 1000, 1024, 2000, 2048, 4096)
ASKED, ANSWERED = "Departures to Laeso on Saturday", "The boat to Laeso leaves at 07:50 on Saturdays."
"""The words of a sub-agent beside its caller, who may be lost."""
COUNTS: dict[str, Loss] = {
    **{f"the first {number} attributes": keep_first(number) for number in (5, 8, 10, 12, 15, 20, 25, 30, 40, 60)},
    **{f"the last {number} attributes": keep_last(number) for number in (5, 8, 10, 12, 15, 20, 25, 30, 40, 60)},
    "all but each fifth attribute": without_each(7, 5),
    "all but each third attribute": without_each(5, 3),
    **{f"the first {number} events": keep_events(number, None) for number in (0, 1, 2, 3, 5, 8)},
    **{f"the last {number} events": keep_events(None, number) for number in (0, 1, 2, 3, 5, 8)},
}


@cache
def payload(folder: Path) -> tuple[list[list[TracePiece]], list[Turn]]:
    """The traces of a payload, and their turns; one that is incomplete there has the texts that it should have."""
    traces = list(pieces_in([folder]).values())
    exchanges = truth_of(folder.name)["exchanges"] if (PAYLOADS / folder.name / "expected.json").exists() else ()
    known = [
        Turn(trace_id=trace, input=exchange["user"], actual_output=exchange["assistant"])
        for exchange in exchanges
        for trace in exchange["trace_ids"]
    ]
    whole = turns_of(traces)
    beside = [Turn(trace_id=turn.trace_id, input=ASKED, actual_output=ANSWERED) for turn in whole]
    return traces, [*beside, *known, *whole]


def turns_of(traces: list[list[TracePiece]]) -> list[Turn]:
    return [replace(assembled.turn) for pieces in traces for assembled in ASSEMBLER.assemble(pieces).turns]


def complaints_after(loss: Loss, folder: Path, limit: int = 0) -> list[str]:
    traces, whole = payload(folder)
    return wrong_texts(whole, turns_of([after(loss, pieces) for pieces in traces]), limit)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_text_that_was_cut_is_marked(folder: Path) -> None:
    assert {limit: found for limit in USUAL if (found := complaints_after(cut_to(limit), folder))} == {}


@pytest.mark.nightly
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_text_that_was_cut_at_any_length_is_marked(folder: Path) -> None:
    limits = [*range(50, 400), *range(400, 2000, 17), *range(2000, 20_000, 501)]
    assert {limit: found for limit in limits if (found := complaints_after(cut_to(limit), folder, limit))} == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_what_attributes_and_events_beyond_a_limit_said_is_marked(folder: Path) -> None:
    assert {kept: found for kept, loss in COUNTS.items() if (found := complaints_after(loss, folder))} == {}
