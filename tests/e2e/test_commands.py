"""The commands as a user types them: what they say, where they say it, and with which exit status."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command import evalstream

README = Path(__file__).parents[2] / "README.md"

GOOD = """\
judges: {main: {model: m, base_url: "http://127.0.0.1:1/v1"}}
evaluators:
  helpful: {kind: g_eval, criteria: "Is it helpful?", evaluation_params: [input, actual_output]}
monitors: {all: {evaluators: [helpful]}}
"""


def service(folder: Path) -> subprocess.CompletedProcess[str]:
    """`evalstream run` until it ends by itself, in a process of its own: it takes over logging and signals."""
    command = [sys.executable, "-m", "collector.cli", "run"]
    return subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=60)


def written(folder: Path, text: str) -> Path:
    path = folder / "evalstream.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("monitors:", "monitor:"), "evalstream.yaml: monitor: unknown key; did you mean 'monitors'?"),
        (
            ("model: m", "model: '${env:NOT_SET_ANYWHERE}'"),
            (
                "evalstream.yaml: judges.main.model: the environment variable NOT_SET_ANYWHERE is not set; "
                "set it, or, unless it is a secret, write ${env:NOT_SET_ANYWHERE:-default}"
            ),
        ),
        (
            (", evaluation_params: [input, actual_output]", ""),
            (
                "evalstream.yaml: evaluators.helpful.evaluation_params: is missing; needed: "
                "the turn's fields that the judge is shown, and that the turn must have"
            ),
        ),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_wrong_configuration_is_one_sentence_and_status_2(
    command: str, change: tuple[str, str], complaint: str, tmp_path: Path
) -> None:
    written(tmp_path, GOOD.replace(*change))
    done = evalstream(command, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"evalstream: {complaint}\n")


@pytest.mark.parametrize("command", [["check"], ["score", "x.jsonl", "--evaluator", "g_eval", "--criteria", "Right?"]])
def test_a_missing_file_says_how_to_name_one(command: list[str], tmp_path: Path) -> None:
    """`score --criteria` said that the missing file has the evaluators."""
    done = evalstream(*command, "-c", "nowhere.yaml", folder=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr
        == "evalstream: nowhere.yaml: cannot be read (No such file or directory); name the file with -c, or write one with evalstream init\n"
    )


SHORT = """\
evaluators: {short: {kind: length, maximum: 10, threshold: 0.5}}
monitors: {all: {evaluators: [short]}}
"""
NO_ROOM = "evalstream: the output cannot be written (No space left on device); free some room, or write elsewhere\n"
EMPTY = "evalstream: standard input: is empty; give OTLP, or turns with one JSON object per line\n"
TWICE = "evalstream: -c is given twice, and one file is read; keep one\n"


@pytest.mark.parametrize(
    ("command", "status", "err"),
    [
        ("check --offline >/dev/full", 1, NO_ROOM),
        ("--help >/dev/full", 1, NO_ROOM),
        ("score turns.jsonl --json >/dev/full", 1, NO_ROOM),
        ("score turns.jsonl -o full.jsonl", 2, "evalstream: full.jsonl: cannot be written (No space left on device); name another file with --output\n"),
        ("check --offline >&-", 0, ""),
        ("score - <&-", 2, EMPTY),
        ("turns <(cat turns.jsonl)", 0, ""),
        ("check -c a.yaml -c b.yaml", 2, TWICE),
        ("check --config=a.yaml --config b.yaml", 2, TWICE),
    ],
)  # fmt: skip
def test_streams_that_are_full_closed_or_no_files(command: str, status: int, err: str, tmp_path: Path) -> None:
    written(tmp_path, SHORT)
    (tmp_path / "turns.jsonl").write_text('{"input": "a", "actual_output": "b"}\n')
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m collector.cli {command}"], check=False, cwd=tmp_path, capture_output=True,
        env=os.environ | {"PYTHONUNBUFFERED": ""}, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (status, err)


def test_check_prints_the_plan(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    done = evalstream("check", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "OTLP/HTTP on http://127.0.0.1:4318" in done.stdout
    assert len(done.stdout.splitlines()) <= 10
    details = evalstream("check", "--verbose", folder=tmp_path).stdout
    assert "helpful (g_eval): each turn, by main" in details
    assert "32 at once, 60 s each, repeated for 300 s; after 20 failures in a row requests wait" in details
    for line in (*done.stdout.splitlines(), *details.splitlines()):
        assert len(line) <= 100, line


def test_a_stage_that_does_not_exist(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    done = evalstream("run", "--stages", "receive,judge", folder=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr
        == "evalstream: --stages: unknown stage 'judge'; choose from receive, assemble, evaluate, export, watch, page\n"
    )


@pytest.mark.parametrize(
    ("stage", "lack", "config"),
    [
        ("page", "section page", ""),
        ("export", "exporter", "export: {}\n"),
        ("receive", "receiver", "receive: {otlp_http: null}\n"),
    ],
)
def test_a_named_stage_without_its_section_is_refused(stage: str, lack: str, config: str, tmp_path: Path) -> None:
    """`ready: page`, and no page was served."""
    written(tmp_path, GOOD + config)
    for stages in (stage, f"evaluate,{stage}"):
        done = evalstream("run", "--stages", stages, folder=tmp_path)
        sentence = f"evalstream: --stages: evalstream.yaml has no {lack}; write one, or leave {stage} out of --stages\n"
        assert (done.returncode, done.stderr) == (2, sentence)


def test_a_port_that_is_taken_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        written(tmp_path, GOOD + f"receive: {{otlp_http: {{port: {port}}}}}\nexport: {{prometheus: {{port: 0}}}}\n")
        done = service(tmp_path)
    assert done.returncode == 2
    assert str(port) in done.stderr
    assert done.stderr.splitlines()[-1].startswith("evalstream: ")
    assert done.stderr.count("evalstream: ") == 1


def test_two_processes_on_one_file_are_refused(tmp_path: Path) -> None:
    written(tmp_path, GOOD + "receive: {otlp_http: {port: 0}}\nexport: {prometheus: {port: 0}}\n")
    with subprocess.Popen(
        [sys.executable, "-m", "collector.cli", "run"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as first:
        assert first.stderr is not None
        try:
            assert any("ready" in line for line in iter(first.stderr.readline, ""))
            second = service(tmp_path)
        finally:
            first.terminate()
            first.communicate(timeout=30)
    assert first.returncode == 0
    assert second.returncode != 0
    assert "evalstream.db" in second.stderr.splitlines()[-1]
    assert "Traceback" not in second.stderr


def test_schema_is_json_and_knows_every_record_and_evaluator(tmp_path: Path) -> None:
    document = json.loads(evalstream("check", "--schema", "configuration", folder=tmp_path).stdout)
    evaluators = document["properties"]["evaluators"]["additionalProperties"]
    assert {"g_eval", "exact_match"} <= set(evaluators["properties"]["kind"]["anyOf"][0]["enum"])
    for name in ("turn", "conversation", "evaluation", "label"):
        assert json.loads(evalstream("check", "--schema", name, folder=tmp_path).stdout)["properties"], name
    done = evalstream("check", "--schema", "turns", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "evalstream: unknown schema 'turns'; did you mean 'turn'?\n")


def test_the_readmes_configuration_is_right(tmp_path: Path) -> None:
    example = re.search(r"<!-- example:begin -->\n```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    assert example is not None
    written(tmp_path, example[1])
    done = evalstream("check", "-c", "evalstream.yaml", folder=tmp_path, environment={"OPENAI_API_KEY": "x"})
    assert (done.returncode, done.stderr) == (0, "")


def test_help_names_every_command(tmp_path: Path) -> None:
    done = evalstream("--help", folder=tmp_path)
    assert done.returncode == 0
    for command in ("demo", "run", "check", "turns", "explain"):
        assert command in done.stdout


def test_an_unknown_command_is_status_2(tmp_path: Path) -> None:
    assert evalstream("jugde", folder=tmp_path).returncode == 2


def test_rules_of_a_configuration(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    done = evalstream("rules", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("# Written by `evalstream rules`")
    assert "alert: EvalstreamStale" in done.stdout
    done = evalstream("rules", "--output", "alerts", folder=tmp_path)
    assert done.returncode == 0
    assert len(list((tmp_path / "alerts").glob("evalstream.*"))) == 4
    assert len(list((tmp_path / "alerts" / "grafana").glob("evalstream-*.json"))) == 4
    done = evalstream("rules", "--format", "xml", folder=tmp_path)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("score turns.jsonl --against turns.jsonl", "turns.jsonl: line 1: not an evaluation; name another file with --against"),
        ("score turns.jsonl --against turns.csv", "--against: turns.csv: a CSV file cannot be compared; name JSONL of evalstream score --output"),
        ("score turns.jsonl -o turns.jsonl", "turns.jsonl: line 1: not an evaluation; name another file with --output"),
        ("score turns.jsonl --junit .", ".: cannot be written (Is a directory); name another file with --junit"),
        ("score turns.jsonl --markdown .", ".: cannot be written (Is a directory); name another file with --markdown"),
        ("labels next --without no.jsonl", "no.jsonl: cannot be read (No such file or directory); name another file with --without"),
        ("fetch tempo --url http://127.0.0.1:1 -o no/f.jsonl", "no/f.jsonl: cannot be written (No such file or directory); name another file with --output"),
        ("erase --user u --file no.jsonl", "--file: no.jsonl: no such file, so nothing was erased; correct the path"),
    ],
)  # fmt: skip
def test_a_message_names_the_option_that_named_the_file(command: str, message: str, tmp_path: Path) -> None:
    """`--against` with a file of turns advised another --output, and its last line was cut off."""
    written(tmp_path, SHORT)
    turn = '{"input": "a", "actual_output": "b"}'
    (tmp_path / "turns.jsonl").write_text(turn)
    (tmp_path / "turns.csv").write_text("input\na\n")
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli", *command.split()], check=False, cwd=tmp_path, capture_output=True,
        env=os.environ | {"PYTHONUNBUFFERED": ""}, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"evalstream: {message}")
    assert (tmp_path / "turns.jsonl").read_text() == turn
