"""A command in the test's own process: a process of its own takes a second of CPU to import what it needs."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

from collector.cli import main


def evalstream(
    *arguments: str, folder: Path, answers: str = "", environment: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """What a command prints and its exit status, where one starts it in `folder` and types `answers`."""
    command = ["evalstream", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        patch("sys.argv", command),
        patch("sys.stdin", io.StringIO(answers)),
        patch.dict(os.environ, environment or {}),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert isinstance(ended.value.code, int)
    return CompletedProcess(command, ended.value.code, out.getvalue(), err.getvalue())
