"""Processes of `evalstream run` that can be killed often: each start is a real process, its imports are shared by forking."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

PRELOADED = [
    "collector.cli",
    "collector.service.app",
    "collector.logs.kafka",
    "collector.logs.sqlite",
    "uvloop",
    "evaluators.judges.connection",
    "evaluators.judges.batches.openai_batches",
]
"""What a start would spend its time on. The process that imports it starts no thread and opens nothing."""

_processes: Any = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([*PRELOADED, "dying"])


def evalstream(arguments: Sequence[str], stderr: str) -> None:
    """What the command `evalstream` does, in this process."""
    file = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    for stream in (1, 2):
        os.dup2(file, stream)
    from collector.cli import main

    sys.argv = ["evalstream", *arguments]
    main()


def quick_batches(arguments: Sequence[str], stderr: str) -> None:
    """The command `evalstream`, which looks at its batches all the time.

    A batch that may have been submitted is looked for until whoever stood still for a minute could have submitted it.
    """
    from collector.service import evaluate as deferred
    from evaluators.judges.batches.batch_terms import BatchPace

    deferred.PACE = BatchPace(first_look=0.5, longest_look=2.0, settled=20.0, first_retry=0.2, patience=float("inf"))
    evalstream(arguments, stderr)


class Worker:
    """One place in the cluster: whatever process fills it has the same name, configuration and files."""

    def __init__(
        self,
        folder: Path,
        name: str,
        config: dict[str, Any],
        *arguments: str,
        entry: Callable[[Sequence[str], str], None] = evalstream,
    ) -> None:
        """`entry` is what the process does, given the command's arguments and the file for what it says."""
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.exports = folder / "evaluations.jsonl"
        self.stderr = folder / "stderr.txt"
        self.config = path = folder / "evalstream.yaml"
        path.write_text(
            yaml.safe_dump(config | {"export": {**config.get("export", {}), "jsonl": {"path": str(self.exports)}}})
        )
        self._arguments = ("run", "-c", str(path), *arguments)
        self._entry = entry
        self._process: Any = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def status(self) -> int | None:
        """The exit status of the process that was there last; negative is the signal that ended it."""
        return None if self._process is None else self._process.exitcode

    def start(self) -> None:
        assert not self.running
        self._process = _processes.Process(target=self._entry, args=(self._arguments, str(self.stderr)), daemon=True)
        self._process.start()

    def kill(self) -> None:
        """SIGKILL: no last words."""
        self._process.kill()
        self._process.join()

    def send(self, what: signal.Signals) -> None:
        os.kill(self._process.pid, what)

    def stop(self, within: float = 40.0) -> int | None:
        """SIGTERM, and the exit status; one that does not end in time is killed."""
        if self.running:
            self._process.terminate()
        self._process.join(within)
        if self.running:
            self.kill()
        return self.status

    def wait(self, within: float) -> int | None:
        """Until it ends by itself; None if it does not in time."""
        self._process.join(within)
        return self.status

    def resident(self) -> int:
        """Resident memory in bytes; 0 if it does not run."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def exported(self) -> list[bytes]:
        """Every whole line that its processes have exported."""
        if not self.exports.exists():
            return []
        return [line for line in self.exports.read_bytes().split(b"\n")[:-1] if line]

    def said(self) -> str:
        """The end of what its processes have said."""
        return self.stderr.read_text(errors="replace")[-3000:] if self.stderr.exists() else ""
