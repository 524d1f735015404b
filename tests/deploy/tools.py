"""The tools that `make tools` builds; a test that needs one is skipped with a line where it is not there."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BUILT = ROOT / ".cache" / "go"
PLACES = {"otelcol": BUILT / "otelcol" / "otelcol"}


def tool(name: str) -> str:
    """The path of a tool."""
    path = PLACES.get(name, BUILT / "bin" / name)
    if not path.exists():
        pytest.skip(f"{name} is not built here (make tools; needs Go)")
    return str(path)


def run(name: str, *arguments: str | Path, given: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """What a tool prints; that it fails is a failure."""
    done = subprocess.run(
        [tool(name), *map(str, arguments)], input=given, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{name} {arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout
