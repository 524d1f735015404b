"""An environment for what runs beside us is installed once, though tests in several processes want it at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hashed_env import hashed_python

UV = """#!/bin/sh
echo "$1" >> {calls}
[ "$1" = venv ] || exit {status}
for folder; do :; done
mkdir -p "$folder/bin"
"""


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> tuple[list[Path | None], list[str]]:
    calls, tools = tmp_path / "calls", tmp_path / "tools"
    tools.mkdir()
    (tools / "uv").write_text(UV.format(calls=calls, status=status))
    (tools / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("a-package==1\n")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: hashed_python(wanted, within=tmp_path / "environments"), range(4)))
    return found, calls.read_text().split()


def test_the_first_one_installs_and_the_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, calls = install(tmp_path, monkeypatch, 0)
    assert found == [tmp_path / "environments" / "wanted" / "bin" / "python"] * 4
    assert calls == ["venv", "pip"]


def test_what_cannot_be_installed_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, calls = install(tmp_path, monkeypatch, 1)
    assert found == [None] * 4
    assert calls == ["venv", "pip"] * 4, "each tries, as the network may be back"
