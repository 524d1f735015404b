"""Every command with a file that is missing, a directory, empty, binary or something else: one sentence and status 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from collector.cli import main

CONFIGURATION = """\
log: {path: logs.db}
evaluators: {short: {kind: length, maximum: 10, threshold: 0.5}}
monitors: {all: {evaluators: [short]}}
"""
TURN = {"turn_id": "t", "conversation_id": "c", "input": "a", "actual_output": "b"}
FILES = {
    "evalstream.yaml": CONFIGURATION,
    "wrong.yaml": CONFIGURATION.replace("maximum: 10", "maximum: ten"),
    "section.yaml": "judges: [main]\n",
    "unknown.yaml": f"{CONFIGURATION}monitor: {{}}\n",
    "reference.yaml": f"{CONFIGURATION}judges: {{main: {{model: m, api_key: '${{OPENAI_API_KEY}}'}}}}\n",
    "turns.jsonl": json.dumps(TURN),
    "labels.jsonl": json.dumps({"human": True, "score": 0.7}),
    "empty.jsonl": "",
    "wrong.jsonl": json.dumps(TURN | {"turn_id": 5}),
    "unknown.jsonl": json.dumps(TURN | {"bogus": 1}),
    "cut.jsonl": json.dumps(TURN)[:-5],
    "prose.jsonl": "hello\n",
}
CONFIGURATIONS = ("nowhere", "folder", "binary", "empty.jsonl", "wrong.yaml", "section.yaml", "unknown.yaml")
INPUTS = ("nowhere", "folder", "binary", "empty.jsonl", "wrong.jsonl", "unknown.jsonl", "cut.jsonl", "prose.jsonl")
TOO_LONG = "x" * 300
OUTPUTS = ("folder", "turns.jsonl/x", "/proc/x.jsonl", TOO_LONG)
INIT = "init --traces http --judge m --base-url http://x/v1 --good x --sample 1 --scores= -c"
COMMANDS = (
    *(f"check -c {each}" for each in (*CONFIGURATIONS, "reference.yaml", TOO_LONG)),
    "run -c nowhere", "rules -c folder", "score turns.jsonl -c binary", "compare evaluators --with nowhere",
    "calibrate --evaluator short -c wrong.yaml", "dead-letters list -c nowhere",
    *(f"{command} {each}" for command in ("turns", "turns --explain", "score") for each in (*INPUTS, TOO_LONG)),
    *(f"calibrate --evaluator short {each}" for each in INPUTS),
    *(f"score turns.jsonl -o {each}" for each in OUTPUTS),
    *(f"rules --output {each}" for each in OUTPUTS if each != "folder"),
    *(f"{INIT} {each}" for each in OUTPUTS),
    "rules --format nonsense", "score turns.jsonl --evaluator nobody", "calibrate labels.jsonl --evaluator nobody",
    "compare evaluators --from yesterday", "run --stages nonsense", "dead-letters show 7", "dead-letters redrive 7 8",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (made / name).write_text(text)
    (made / "binary").write_bytes(bytes(range(256)))
    (made / "folder").mkdir()
    return made


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.replace(TOO_LONG, "too-long"))
def test_one_sentence_and_status_2(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["evalstream", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    sentences = said.err.splitlines()
    assert (ended.value.code, said.out) == (2, ""), said.err
    assert len(sentences) == 1
    assert sentences[0].startswith("evalstream: ")
    for name in (each for each in command.split() if each in (*INPUTS, *CONFIGURATIONS, *OUTPUTS)):
        assert name in sentences[0] or name == "turns.jsonl/x", "the file is named"


def test_a_file_without_turns_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "traces.json"
    path.write_text('{"resourceSpans": []}')
    monkeypatch.setattr(sys, "argv", ["evalstream", "turns", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (
        0,
        f"evalstream: {path}: no turns found; --explain shows why\n",
    )
