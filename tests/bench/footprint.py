"""Start-up and footprint: the command line's help, the service until it is ready, and its memory when nothing happens."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import Figure, arguments
from processes import Process, configuration, free_port
from quick_judge import serving

GROUP = "start-up and footprint"


def run(*command: str) -> tuple[float, float]:
    """Wall and CPU seconds of a command."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    given = arguments(__doc__ or "")
    repeats = 2 if given.smoke else 5
    command = Path(sys.executable).with_name("evalstream")
    run(str(command), "--help")
    helps, floors = (
        [run(str(command), "--help") for _ in range(repeats)],
        [run(sys.executable, "-c", "pass") for _ in range(repeats)],
    )
    floor = sorted(floors)[len(floors) // 2]
    walls, cpus = tuple(each[0] for each in helps), tuple(each[1] for each in helps)
    note = f"bare Python: {floor[0]:.3f} s, {floor[1]:.3f} s of CPU"
    Figure(GROUP, "evalstream --help", "s", walls, aim=0.3, note=note).show()
    Figure(GROUP, "evalstream --help: CPU", "s CPU", cpus, note=note).show()
    if given.smoke:
        return
    with serving(0.02) as judge, tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder:
        ready, used, memory = [], [], []
        for _ in range(repeats):
            process = Process(Path(folder), configuration(judge, port=free_port()))
            ready.append(process.ready_after)
            used.append(process.cpu)
            time.sleep(2.0)
            before = process.cpu
            time.sleep(3.0)
            memory.append(process.memory)
            idle = (process.cpu - before) / 3.0
            process.stop()
        Figure(GROUP, "evalstream run, ready", "s", tuple(ready), aim=1.5, note="all stages, SQLite, one judge").show()
        Figure(GROUP, "evalstream run, ready: CPU", "s CPU", tuple(used)).show()
        Figure(
            GROUP, "idle memory", "MB resident", tuple(memory), aim=120.0, note=f"idle it uses {idle:.1%} of a core"
        ).show()


if __name__ == "__main__":
    main()
