"""What CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from made_up import Trace

from collector.evaluate.plan import NoJudge
from evaluators.cases import Turn
from evaluators.outcome import Score
from evaluators.run import run

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def shown(language: str, section: str) -> str:
    """The code block of a language in a worked example."""
    example = CONTRIBUTING.read_text().partition(f"<!-- {section}:begin -->")[2].partition(f"<!-- {section}:end -->")[0]
    block = re.search(rf"```{language}\n(.*?)```", example, re.DOTALL)
    assert block is not None
    return block[1]


def installed(folder: Path, module: str) -> None:
    """What `pip install` leaves of a package with the worked dialect: one file, and its entry points."""
    (folder / f"{module}.py").write_text(shown("python", "dialect"))
    points = tomllib.loads(shown("toml", "dialect"))["project"]["entry-points"]
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = [f"[{group}]\n{name} = {value}\n" for group, each in points.items() for name, value in each.items()]
    (information / "entry_points.txt").write_text("".join(lines))


def normalized(path: Path, *options: str, packages: Path | None) -> str:
    """What `evalstream normalize` prints in a process of its own, with the packages of a folder installed."""
    environment = {**os.environ, **({"PYTHONPATH": str(packages)} if packages else {})}
    done = subprocess.run(
        [sys.executable, "-m", "collector.cli", "normalize", *options, str(path)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_the_worked_dialect_in_a_package_of_its_own(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    installed(packages, "evalstream_acme")
    said = {"acme.question": "Where is it?", "acme.answer": "Here.", "acme.model": "m-1", "acme.chat": "c-1",
            "acme.tokens.in": 7, "acme.tokens.out": 2}  # fmt: skip
    trace = Trace().span(1, "ask", said).span(2, "ask", {"acme.question": "And now?"}, error="out of tokens")
    path = tmp_path / "traces.pb"
    path.write_bytes(trace.spans.SerializeToString())

    assert normalized(path, packages=None) == "", "nobody else reads it"
    answered, failed = (json.loads(line) for line in normalized(path, packages=packages).splitlines())
    assert (answered["input"], answered["actual_output"]) == ("Where is it?", "Here.")
    assert (answered["dialect"], answered["model"], answered["conversation_id"]) == ("acme", "m-1", "c-1")
    assert answered["usage"] == {"input_tokens": 7, "output_tokens": 2}
    assert (failed["input"], failed["error"]) == ("And now?", "out of tokens")
    explained = normalized(path, "--explain", packages=packages)
    assert "acme reads it as model: input in acme.question, output in acme.answer" in explained


async def test_the_worked_evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "worked_example.py").write_text(shown("python", "evaluator"))
    monkeypatch.syspath_prepend(tmp_path)
    worked: Any = importlib.import_module("worked_example")
    brevity = worked.Brevity(name="short", limit=10)
    for length, expected in ((5, 1.0), (10, 1.0), (15, 0.5), (20, 0.0), (99, 0.0)):
        turn = Turn(turn_id="t", input="?", actual_output="x" * length)
        result = await run(brevity, turn, NoJudge(), now=lambda: datetime.now(UTC))
        assert isinstance(result.outcome, Score)
        assert result.outcome.value == expected
