"""What a replay rebuilds is not gone through by garbage collection, until a fold closes."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from collector.logs.log import Committed, StoredRecord
from collector.service.process_resources import long_lived


class Rebuilding:
    """A fold whose state is a list a record."""

    due_at = low_watermark = None
    metadata = ""

    def __init__(self) -> None:
        self.state: list[list[StoredRecord]] = []

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        self.state += [[each] for each in records]

    deliver = replay


async def test_replayed_state_is_passed_over_until_the_fold_closes() -> None:
    inner = Rebuilding()

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None) -> AsyncGenerator[Rebuilding]:
        yield inner

    async with long_lived(open_fold)(0, None) as fold:
        await fold.replay([StoredRecord(0, 0, 0.0, b"k", b"replayed")])
        await fold.deliver([StoredRecord(0, 1, 0.0, b"k", b"new")])
        assert collected(inner.state) == [b"new"]
    assert collected(inner.state) == [b"replayed", b"new"]
    assert gc.get_freeze_count() == 0


def collected(state: list[list[StoredRecord]]) -> list[bytes]:
    """The values of those lists that a collection would go through."""
    looked_through = {id(each) for each in gc.get_objects()}
    return [each[0].value for each in state if id(each) in looked_through]


def test_the_end_of_the_process_goes_through_no_state(tmp_path: Path) -> None:
    """After the log's line "stopped" a process took seconds to end: the interpreter collected garbage in all of it."""
    (tmp_path / "evalstream.yaml").write_text(
        "{evaluators: {exact: {kind: exact_match}}, monitors: {all: {evaluators: [exact]}}, receive: {otlp_http: {}}}"
    )
    script = f"""
import atexit, gc, os, sys
from collector.cli import main
from collector.service import app
def serve(*arguments, **options):
    atexit.register(gc.callbacks.append, lambda phase, info: os.write(1, b"%d " % len(gc.get_objects())))
app.serve = serve
sys.argv = ["evalstream", "run", "-c", {str(tmp_path / "evalstream.yaml")!r}]
main()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout, "the interpreter collects as it ends"
    assert max(map(int, ended.stdout.split())) < 5_000, ended.stdout
