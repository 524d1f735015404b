"""Pieces of a trace that cannot be read: they are reported and left out, and the others are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_up import ASSEMBLER, Trace, chat

from collector.assemble.collect_trace import TracePiece
from collector.errors import BadInput

GOOD = Trace().span(1, "chat", chat("What is one?", "One.")).spans.SerializeToString()
OTHER = Trace().span(2, "chat", chat("What is two?", "Two, or a pair.")).spans.SerializeToString()
RECORDS = Trace().record(2, "gen_ai.user.message", {"content": "What is two, or a pair?"}).logs.SerializeToString()


def cut(data: bytes) -> bytes:
    return data[:-7]


def half_a_character(data: bytes) -> bytes:
    """Of a value: only who reads the attribute sees it."""
    spoilt = data.replace(b"or a pair", b"or \xff pair")
    assert spoilt != data
    return spoilt


@pytest.mark.parametrize("spoil", [cut, half_a_character])
@pytest.mark.parametrize("first", [True, False])
def test_a_span_that_cannot_be_read_is_reported_and_left_out(spoil: Callable[[bytes], bytes], first: bool) -> None:
    pieces = [TracePiece("traces", GOOD), TracePiece("traces", spoil(OTHER))]
    bad: list[BadInput] = []
    assembly = ASSEMBLER.assemble(pieces if first else pieces[::-1], bad.append)
    assert [each.turn.actual_output for each in assembly.turns] == ["One."]
    assert [str(each) for each in bad] == ["not an OTLP protobuf request of traces"]


@pytest.mark.parametrize("spoil", [cut, half_a_character])
def test_so_are_log_records(spoil: Callable[[bytes], bytes]) -> None:
    bad: list[BadInput] = []
    assembly = ASSEMBLER.assemble([TracePiece("logs", spoil(RECORDS)), TracePiece("traces", GOOD)], bad.append)
    assert [each.turn.actual_output for each in assembly.turns] == ["One."]
    assert [str(each) for each in bad] == ["not an OTLP protobuf request of logs"]
