"""What has an aim for the CPU of spans and turns, on the compiled wheel, which the image has.

Builds the wheel at its first use and whenever a source has changed: two minutes of CPU, a C compiler and Python's
headers. The rows are those of `ingest.py`, `whole_way.py` and `kafka_way.py`, which measure pure Python.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import ingest
import kafka_way
import whole_way
from compiled_env import compiled_site, environment
from measured import arguments, read_figure
from quick_judge import serving

from collector.assemble.trace import Assembler
from collector.dialects.registry import Dialects
from collector.service.garbage import COLLECT_AFTER
from collector.telemetry.compilation import is_compiled

GROUP = "as in the image, compiled"


def main() -> int:
    """Measure in a process that has the compiled wheel; its figures are passed on as a group of their own."""
    site = compiled_site()
    if site is None:
        print(json.dumps({"left_out": f"{GROUP}: the wheel cannot be built here; it needs gcc and Python's headers"}))
        return 0
    command = [sys.executable, __file__, "--work", *sys.argv[1:]]
    with subprocess.Popen(command, env=environment(site), stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith('{"left_out"'):
                print(line, end="", flush=True)
            else:
                replace(read_figure(line), group=GROUP).show()
    return process.returncode


def work() -> None:
    assert is_compiled()
    given = arguments(__doc__ or "")
    gc.set_threshold(*COLLECT_AFTER)
    total, repeats = (512, 1) if given.smoke else (10_000, 5)
    assembler = Assembler(Dialects.installed())
    ingest.spans_to_turns(total, repeats, assembler)
    for name in ingest.DIALECTS[: 1 if given.smoke else None]:
        ingest.captured(name, max(1, total // 400), repeats, assembler)
    turns, repeats = (50, 1) if given.smoke else (12_000, 3)
    with serving(0.02) as judge:
        whole_way.burst(judge, 0.01, turns, repeats)
        try:
            with (
                kafka_way.running_broker() as broker,
                tempfile.TemporaryDirectory(prefix="evalstream-bench-") as folder,
            ):
                kafka_way.way(broker.bootstrap, judge, 0.01, turns, Path(folder))
        except kafka_way.BrokerUnavailable as error:
            print(json.dumps({"left_out": f"{GROUP}, Kafka: {error}"}))


if __name__ == "__main__":
    if "--work" in sys.argv:
        sys.argv.remove("--work")
        work()
    else:
        sys.exit(main())
