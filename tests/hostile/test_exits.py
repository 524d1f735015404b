"""Texts of strangers leave for terminals, chats, cells and XML by one module, which takes what they could do there."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

import pytest
from made_up import Trace
from markdown_it import MarkdownIt

from collector.alerting.diagnosis.explain_drop import in_words
from collector.alerting.watch.notifier import AlertInstance, _message, _TrackedAlert, _v2
from collector.assemble.collect_trace import TracePiece
from collector.assemble.explain import explain, format_lines
from collector.commands.score.gate import GateResult, as_junit, as_markdown, compare_with_base
from collector.commands.score.output import open_writer
from collector.config.settings import AssembleSettings
from collector.service.assembly_builder import build_assembler
from collector.telemetry.plain import cell, in_chat, plain, printable, show
from collector.telemetry.wide_console import wide_console
from evaluators.results import Evaluation, Subject

ROOT = Path(__file__).parents[2]

EXITS = {
    "print": {"collector/telemetry/plain.py"},
    "Console": {"collector/demo/run.py", "evaluators/progress.py"},  # the demo's own texts; counts
    "_PlainConsole": {"collector/telemetry/wide_console.py"},
    "echo": set[str](),
    "writer": {"collector/commands/score/output.py", "collector/commands/parquet/parquet.py"},  # the other is of rows
    "tostring": {"collector/commands/score/gate.py"},
    "AlertInstance": {
        "collector/alerting/watch/alert_texts.py",
        "collector/alerting/watch/notifier.py",  # out of its notes: they leave as the others do, by `_message`
        "collector/service/releases.py",
    },
}
"""The calls by which a text leaves, and the modules that may make them: each is tried below."""
STREAMS = {
    "collector/cli.py": "gives both to `turns`, which is tried below, and closes one",
    "collector/telemetry/plain.py": "prints",
    "collector/telemetry/logging.py": "log lines: test_log_lines.py",
    "collector/logs/journal/stall_watchdog.py": "stacks of threads, without values",
    "collector/telemetry/wide_console.py": "asks whether it is a terminal",
    "collector/judging/batches.py": "asks whether it is a terminal",
}

TEXTS = [
    "\x1b]0;owned\x07\x1b[2J",
    "\x9b31m",
    "ok\nAll clear: nothing fires.",
    "<!channel> pay at <http://evil.example|our portal>",
    "@everyone [portal](http://evil.example) `code` *bold* ~gone~",
    "<img src=x onerror=alert(1)>",
    "{{ .ExternalURL }} | {% x %}",
    "www.evil.com evil.example/path",
    "gpt-4\u202e\u2066\u200b\U000e0041",
    "=cmd|'/c calc'!A1",
    "\t=1+1",
    "fine;=1+1;\t@SUM(1);-2+3",
    "\ufffe\ud800\x00",
]
MOVES = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufffe\uffff\ud800-\udfff]|[\U000e0000-\U000e007f]"
)
DOES = re.compile(r"[<>@\[\]`\n]|://|\{\{|\w\.[a-z]{2}")


def calls() -> Iterator[tuple[str, str]]:
    for top in ("collector", "evaluators"):
        for path in sorted((ROOT / top).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                    if name == "print" and isinstance(node.func, ast.Attribute):
                        continue  # of a console, which is made by one of the calls below
                    yield path.relative_to(ROOT).as_posix(), name
                elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr"):
                    yield path.relative_to(ROOT).as_posix(), "a stream"


def test_there_is_no_other_exit() -> None:
    found: dict[str, set[str]] = {}
    for path, name in calls():
        if name in EXITS or name == "a stream":
            found.setdefault(name, set()).add(path)
    assert found.pop("a stream") - STREAMS.keys() == set()
    assert {name: paths for name, paths in EXITS.items() if paths} == found


@pytest.mark.parametrize("text", TEXTS)
def test_terminals(text: str) -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        show(text)
        console = wide_console()
        console.print(f"{text} [bold]not[/] [/]")
    assert not MOVES.search(out.getvalue())
    assert "[bold]not[/]" in out.getvalue()
    assert "\n" not in plain(text)


def test_json_stays_what_it_is() -> None:
    text = "".join(map(chr, [*range(0x20, 0x30), 0x85, 0x200B, 0xE0041, 0x1F600]))
    document = json.dumps({"a": text}, ensure_ascii=False)
    assert not MOVES.search(printable(document))
    assert json.loads(printable(document)) == {"a": text}


@pytest.mark.parametrize("text", TEXTS)
def test_explanations_of_traces(text: str) -> None:
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
        "gen_ai.conversation.id": text.encode("utf-8", "replace").decode(),
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Question?"}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"An answer."}]}]',
    }  # fmt: skip
    spans = Trace("1" * 32).span(1, text.encode("utf-8", "replace").decode(), attributes).spans
    made = explain(
        "1" * 32, [TracePiece("traces", spans.SerializeToString(), 0)], build_assembler(AssembleSettings(), {})
    )
    for line in map(plain, format_lines(made)):
        assert not MOVES.search(line)
        assert "\n" not in line


@pytest.mark.parametrize("text", TEXTS)
def test_alerts(text: str) -> None:
    said = f"The fall is explained by {in_words((('model', text), ('language', 'de')))} (50% of the change)."
    alert = AlertInstance(
        {"alertname": "EvalstreamScoreDropped"},
        {"summary": said, "description": said, "runbook_url": "https://runbooks.example/x.md"},
    )
    for posted in (
        _v2(_TrackedAlert(alert, 0.0), 1.0),
        _message("firing", [_TrackedAlert(alert, 0.0)], 1.0)["alerts"][0],
    ):
        assert posted["annotations"]["runbook_url"] == "https://runbooks.example/x.md"
        for name in ("summary", "description"):
            assert not DOES.search(posted["annotations"][name]), posted["annotations"][name]
            assert not MOVES.search(posted["annotations"][name])
    assert in_chat(
        "answer_relevancy of shop: 0.85 ± 0.02 (12% of the change); model=gpt-4.1-mini, since 2026-11-20 09:00 UTC."
    ) == ("answer_relevancy of shop: 0.85 ± 0.02 (12% of the change); model=gpt-4.1-mini, since 2026-11-20 09:00 UTC.")


@pytest.mark.parametrize("text", [*TEXTS, "a\\|`b", "`` c ` **d** | e \\"])
def test_tables_for_pull_requests(text: str) -> None:
    table = as_markdown([GateResult(evaluator="e", scored=1, mean=0.5, problem=text, failed=text)])
    html = MarkdownIt("commonmark").enable("table").render(table)
    assert re.findall(r"<(\w+)", html.partition("<tbody>")[2]) == [
        "tr", "td", "td", "td", "td", "strong", "code", "code",
    ]  # fmt: skip
    assert not MOVES.search(table)


def evaluation(turn_id: str, score: float) -> Evaluation:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    return Evaluation(
        evaluation_id=turn_id, evaluator="e", evaluator_version="1", scope="turn", monitor="m", outcome="scored",
        subject=Subject(turn_id=turn_id, conversation_id=turn_id), score=score, explanation=turn_id,
        method="deterministic", started_at=now, ended_at=now,
    )  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_cells_and_xml(text: str, tmp_path: Path) -> None:
    before = [evaluation(f"{text}{n}", 1.0) for n in range(40)]
    after = [evaluation(f"{text}{n}", 0.0) for n in range(40)]
    report = ET.fromstring(as_junit(compare_with_base(before, after, tolerance=0.0)))
    assert report.find(".//failure") is not None
    with open_writer(tmp_path / "x.csv") as write:
        write(after)
    for row in csv.reader(io.StringIO((tmp_path / "x.csv").read_text(encoding="utf-8"))):
        cells = [cell for value in row for cell in re.split("[;\t]", value)]  # some spreadsheets end a cell at these
        assert not [value for value in (*row, *cells) if value.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert cell(-0.5) == -0.5
