"""The layers around a consumer's folds stand in one order, whoever consumes."""

from __future__ import annotations

from functools import partial
from typing import Any

from collector.dead_letters import DeadLetterSettings, DeadLetterWriter
from collector.logs.journal.guard import Guard
from collector.logs.memory import MemoryLog
from collector.records.epochs import fenced
from collector.records.shared_records import dividing
from collector.service.process import FoldNeeds, layers_of
from collector.service.process_resources import long_lived
from collector.telemetry.registry import Telemetry


def names(**needs: Any) -> list[str]:
    letters = DeadLetterWriter("link", "log", MemoryLog("dead_letters"), Telemetry(), DeadLetterSettings())
    layers = layers_of(FoldNeeds(place="link", log="log", letters=letters, guard=Guard(), **needs))
    return [(layer.func if isinstance(layer, partial) else layer).__name__ for layer in layers]  # type: ignore[attr-defined]


def test_every_fold_is_guarded_inside_its_dead_letters() -> None:
    assert names() == ["wrap", "guarding"]


def test_pieces_come_apart_first_and_what_is_void_goes_last() -> None:
    needs = {"shared": True, "ledger": MemoryLog("evaluations"), "long_lived": True}
    assert names(**needs) == [
        dividing.__name__, "wrap", "guarding", fenced.__name__, long_lived.__name__
    ]  # fmt: skip
