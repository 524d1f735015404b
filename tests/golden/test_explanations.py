"""Each sentence with which `--explain` describes a captured trace is true of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from truth import PAYLOADS, UNMET

from collector.assemble.collect_trace import collect_trace
from collector.assemble.explain import ExplainedSpan, ExplainedTrace, explain, format_lines
from collector.assemble.trace import Assembler, TraceAnalysis
from collector.commands.normalize import pieces_in
from collector.dialects.registry import Dialects

ASSEMBLER = Assembler(Dialects.installed())
FOLDERS = [path for path in (*sorted(PAYLOADS.iterdir()), *sorted(UNMET.iterdir())) if path.is_dir()]


def untrue(span: ExplainedSpan, trace: ExplainedTrace, analysis: TraceAnalysis) -> list[str]:
    """What is said of a span that does not hold."""
    found: list[str] = []
    read = {parsed.span.span_id: parsed.call for parsed in analysis.parsed_spans}
    call = read.get(span.span_id)
    turns = {turn.turn_id: turn for turn in trace.turns}
    parents = {ancestor for span_id in read for ancestor in analysis.tree.ancestors(span_id)}
    says, outcome = span.outcome, span.outcome.removeprefix("no turn: ")
    if "encloses other spans" in says and "or it only" not in says and span.span_id not in parents:
        found.append("it encloses other spans")
    if "encloses no call" in says and span.span_id in parents:
        found.append("it encloses no call")
    if "no question" in says and call is not None and call.input is not None:
        found.append("no question of its own")
    if "no answer of its own" in says and call is not None and call.output is not None:
        found.append("no answer of its own")
    if says.startswith(("becomes turn ", "is part of turn ")) and says.split(",")[0].split()[-1] not in turns:
        found.append(says)
    if outcome.startswith("tool results") and (call is None or call.kind != "tool"):
        found.append(outcome)
    if outcome.startswith("documents") and (call is None or call.kind != "retrieval"):
        found.append(outcome)
    if outcome.startswith("guardrails") and (call is None or call.kind != "auxiliary"):
        found.append(outcome)
    if says.endswith("no answer follows in this trace") and not (call is not None and call.output):
        found.append("it requests a tool")
    if (span.dialect is None) != (call is None):
        found.append("read by a dialect")
    lost = [reason for reason in span.incomplete if "truncated" in reason or "evicted" in reason]
    own = [turn for turn in trace.turns if turn.span_id == span.span_id and says.startswith("becomes")]
    if lost and any(turn.incomplete is None and not turn.failed and not turn.truncated_fields for turn in own):
        found.append("complete")
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_what_is_said_holds(folder: Path) -> None:
    for trace_id, pieces in pieces_in([folder]).items():
        explained = explain(trace_id, pieces, ASSEMBLER)
        trace = collect_trace(pieces, ASSEMBLER.dialects, ASSEMBLER.identity, lambda _error: None, ASSEMBLER.names)
        if trace is None:
            assert explained.spans == ()
            continue
        analysis = ASSEMBLER.analyze(trace)
        assert {span.span_id: found for span in explained.spans if (found := untrue(span, explained, analysis))} == {}
        unanswered = [
            turn for assembled in analysis.assembly.turns if (turn := assembled.turn).error and not turn.actual_output
        ]
        assert "\n".join(format_lines(explained)).count("so the turn has no answer") == len(unanswered)
