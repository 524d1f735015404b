"""Names of attributes are remembered, since libraries write the same ones again; what a stranger makes up must not stay."""

from __future__ import annotations

import gc
import tracemalloc

from made_up import Trace, chat

from collector.assemble.collect_trace import TracePiece
from collector.assemble.trace import Assembler
from collector.assemble.turn_notes import TurnNotes
from collector.dialects.registry import Dialects
from collector.receive.parsed_request import parse
from collector.redact.open_redactor import RedactSettings, open_redactor

ASSEMBLER = Assembler(Dialects.installed())
REDACTOR = open_redactor(RedactSettings(), lambda *_: None, lambda *_: None)
NOTES = TurnNotes(ASSEMBLER, lambda _key: True)
LENGTH, TRACES = 100_000, 40
PLACES = (
    "llm.input_messages.0.message.{}",
    "gen_ai.prompt.0.{}",
    "gen_ai.{}",
    "metadata.{}.session_id",
    "llm.tools.0.{}",
    "{}",
)


def take_in(number: int) -> int:
    """Receive and assemble a trace with long names that no other has; gives its turns."""
    names = {place.format(f"{number}" + "x" * LENGTH): "a" for place in PLACES}
    kinds = {"openinference.span.kind": "LLM", "gen_ai.operation.name": "chat"}
    trace = Trace().span(1, "chat", chat("Hi", "Hello") | kinds | names)
    (record,) = parse(trace.spans.SerializeToString(), "traces", "protobuf", redactor=REDACTOR, notes=NOTES).records
    return len(ASSEMBLER.assemble([TracePiece("traces", record.value, 0)]).turns)


def test_long_names_that_senders_make_up_do_not_stay_in_memory():
    assert take_in(0) == 1
    tracemalloc.start()
    try:
        for number in range(1, TRACES + 1):
            assert take_in(number) == 1
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < TRACES * LENGTH / 4, "not even one of the six names of each trace"
