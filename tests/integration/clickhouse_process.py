"""ClickHouse itself, in a process of its own (chdb), and what the pages give it to run."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hashed_env import hashed_python

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"

RUN = """
import json, sys
from chdb import session
connection, answers = session.Session(), []
for statement in json.load(sys.stdin):
    text = str(connection.query(statement, "JSON"))
    answers.append(json.loads(text)["data"] if text.strip() else [])
print(json.dumps(answers))
"""


def statements(name: str) -> list[str]:
    """The statements of an example, without its first line, a comment."""
    _, _, text = (EXAMPLES / name).read_text().partition("\n")
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


async def answers(sql: Sequence[str]) -> list[list[dict[str, Any]]]:
    """What ClickHouse answers to each statement."""
    python = hashed_python(Path(__file__).with_name("clickhouse.txt"))
    if python is None:
        pytest.skip("ClickHouse cannot be installed here")
    return await asyncio.to_thread(_run, python, json.dumps(sql))


def _run(python: Path, sql: str) -> Any:
    done = subprocess.run([python, "-c", RUN], input=sql, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
