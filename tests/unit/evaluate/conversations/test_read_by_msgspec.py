"""What msgspec reads of snapshots keeps the types that it reads in the compiled wheel."""

from __future__ import annotations

import tomllib
import typing
from pathlib import Path

import pytest

from collector.evaluate.conversations.packed_turn import PackedTurn
from collector.evaluate.conversations.session_window import ClosedRevision
from collector.evaluate.conversations.snapshot import SnapshotOutline

ROOT = Path(__file__).parents[4]
KEPT = {bool, bytes, float, int, str}
"""mypyc leaves `type` in the annotations of a named tuple for every other, and a Struct it does not compile at all."""


@pytest.mark.parametrize("read", [ClosedRevision, PackedTurn, SnapshotOutline])
def test_what_is_compiled_has_types_that_stay(read: type) -> None:
    assert not is_compiled(read.__module__) or KEPT.issuperset(typing.get_type_hints(read).values())


def test_sessions_are_compiled() -> None:
    assert is_compiled("collector.evaluate.conversations.keyed_sessions")


def is_compiled(module: str) -> bool:
    """Whether it is in the wheel's list."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = listed["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    path = Path(module.replace(".", "/") + ".py")
    return any(map(path.match, hook["modules"])) and not any(map(path.match, hook["interpreted"]))
