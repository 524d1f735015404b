"""What the command line owes a terminal and a program: JSON, colours only where they are wanted, completion."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.config.loading import load
from collector.service.open_logs import open_logs

GOLDEN = Path(__file__).parents[1] / "golden" / "otlp" / "haystack"
EVALSTREAM = Path(sys.executable).with_name("evalstream")
COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-7]m")
CONFIG = """\
log: {path: evalstream.db}
judges: {main: {model: m, base_url: "http://127.0.0.1:1/v1", api_key: not-to-be-shown}}
evaluators:
  helpful: {kind: g_eval, criteria: "Is it helpful?", evaluation_params: [input, actual_output], threshold: 0.5}
  unused: {kind: refusal}
monitors: {all: {evaluators: [{name: helpful, sample: 0.5}], match: {service: chat}}}
export: {}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evalstream.yaml").write_text(CONFIG)
    return tmp_path


def data(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.mark.usefixtures("folder")
def test_check_as_json() -> None:
    text = data("check", "--json")
    document = json.loads(text)
    plan = document["plan"]
    assert plan["monitor"][:2] == [
        "all: turns whose service is chat; all conversations",
        "- helpful (g_eval): each turn, by main, passes at 0.5 or more, its own sample: 50 %",
    ]
    assert "no monitor uses the evaluator unused, so it never runs" in plan["note"]
    assert plan["traffic"] == ["unknown (no port is configured for /metrics)"]
    assert (document["configuration"], document["capacity"]) == ("evalstream.yaml", None)
    assert "not-to-be-shown" not in text


async def test_dead_letters_as_json(folder: Path) -> None:
    async with open_logs(load(folder / "evalstream.yaml").settings.log):
        pass  # the service was here, and left empty logs
    listed = await asyncio.to_thread(data, "dead-letters", "list", "--json")
    assert listed == ""


def test_explanations_as_json_say_what_the_words_say() -> None:
    traces = [json.loads(line) for line in data("turns", "--explain", "--json", str(GOLDEN)).splitlines()]
    words = data("turns", "--explain", str(GOLDEN))
    assert [each["trace_id"] for each in traces] == re.findall(r"^trace (\w+)$", words, re.MULTILINE)
    spans = [span for each in traces for span in each["spans"]]
    assert [span["outcome"] for span in spans if span["dialect"]] == re.findall(
        r"^    (becomes .*|no turn: .*|is part .*)$", words, re.MULTILINE
    )
    assert [turn["turn_id"] for each in traces for turn in each["turns"]] == re.findall(
        r"^  turn (\w+)", words, re.MULTILINE
    )


def on_a_terminal(*arguments: str, until: str = "", **environment: str) -> str:
    """What a command prints with a terminal as its stdout, to its end or until it says something."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    command = [str(EVALSTREAM), *arguments]
    with subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env=kept | {"TERM": "xterm", "COLUMNS": "140"} | environment
    ) as process:
        os.close(theirs)
        read = bytearray()
        try:
            while piece := os.read(ours, 65536):
                read += piece
                if until and until in read.decode(errors="replace"):
                    process.kill()
                    break
        except OSError:
            pass  # Linux says EIO when the other end is closed
        process.wait(timeout=60)
    os.close(ours)
    return read.decode(errors="replace")


def test_colours_are_left_out_where_nobody_wants_them() -> None:
    """The demo's screen has some on a terminal; help has none anywhere."""
    assert COLOUR.search(on_a_terminal("demo", until="\x1b[32m"))
    assert not COLOUR.search(on_a_terminal("demo", until="the application answers well", NO_COLOR="1"))
    assert not COLOUR.search(on_a_terminal("compare", "evaluators", "--help"))


def test_completion_in_bash(tmp_path: Path) -> None:
    """Installed as a user would, then asked as bash asks: by words and a cursor."""
    home = os.environ | {"HOME": str(tmp_path)}
    command = [
        "bash",
        "--norc",
        "-c",
        f"{EVALSTREAM} --install-completion; exit $?",
    ]  # the shell is found by its process
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    installed = tmp_path / ".bash_completions" / "evalstream.sh"
    assert str(installed) in (tmp_path / ".bashrc").read_text()
    asked = f"""
        set -eu; PATH={EVALSTREAM.parent}:$PATH; source {installed}
        complete -p evalstream
        COMP_WORDS=(evalstream re); COMP_CWORD=1; _evalstream_completion evalstream; echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(evalstream rejudge --ma); COMP_CWORD=2; _evalstream_completion evalstream; echo "${{COMPREPLY[@]}}"
    """
    shell = ["bash", "--norc", "-c", asked]
    done = subprocess.run(shell, env=home, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    hooked, commands, options = done.stdout.splitlines()
    assert "_evalstream_completion evalstream" in hooked
    assert (commands, options) == ("rejudge", "--max-usd")
