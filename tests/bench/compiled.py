"""The compiled wheel beside pure Python, the same sources in two processes, by turns.

Each row's floor is pure Python. Builds the wheel at its first use and whenever a source has changed: two minutes of CPU, a
C compiler and Python's headers. The rows of the whole way are over one SQLite file, with a process for each stage.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import ingest
import whole_way
from compiled_env import compiled_site, environment
from judgeless_plan import plan, records
from measured import arguments, beside, cpu_of
from quick_judge import serving

from collector.assemble.trace import Assembler
from collector.assemble.turn_notes import TurnNotes
from collector.dialects.registry import Dialects
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.logs.log import StoredRecord
from collector.receive.parsed_request import TurnNoting, parse
from collector.redact.patterns import find
from collector.redact.redactor import Redactor
from collector.service.garbage import COLLECT_AFTER
from collector.telemetry.compilation import is_compiled

GROUP = "compiled"
ITEMS = 1500
Work = Callable[[], object]


def main() -> None:
    if "--work" in sys.argv:
        work()
        return
    given = arguments(__doc__ or "")
    site = compiled_site()
    if site is None:
        print(json.dumps({"left_out": "compiled: the wheel cannot be built here; it needs gcc and Python's headers"}))
        return
    repeats, pairs, turns = (1, 1, 100) if given.smoke else (9, 7, 6000) if given.long else (7, 5, 3000)
    with worker(None) as pure, worker(site) as compiled:
        assert (pure("is compiled"), compiled("is compiled")) == ({"": 0}, {"": 1})
        for name, unit in UNITS.items():
            note = f"floor: pure Python; {ITEMS} {unit}s, a process each"
            show(name, unit, repeats, partial(pure, name), partial(compiled, name), note)
        with serving(0.02) as judge:
            name = f"whole way {judge} {turns}"
            note = f"floor: pure Python; {turns} turns, 1 % judged"
            show("whole way, ", "turn", pairs, partial(pure, name), partial(compiled, name), note)


def show(
    name: str,
    unit: str,
    repeats: int,
    floor: Callable[[], Mapping[str, float]],
    work: Callable[[], Mapping[str, float]],
    note: str,
) -> None:
    """Figures of so many pairs by turns."""
    found = [(floor(), work()) for _ in range(repeats)]
    for each in found[0][0]:
        floors, works = [one[each] for one, _ in found], [other[each] for _, other in found]
        beside(GROUP, f"{name}{each}", f"µs CPU/{unit}", floors, works, 1e6, note=note).show()


@contextmanager
def worker(site: Path | None) -> Iterator[Callable[[str], Mapping[str, float]]]:
    """A process that measures what it is asked for: seconds of CPU for one, by what they are of."""
    command = [sys.executable, __file__, "--work"]
    with subprocess.Popen(
        command, env=environment(site), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        asked, answers = process.stdin, process.stdout
        assert asked is not None
        assert answers is not None

        def ask(name: str) -> Mapping[str, float]:
            print(name, file=asked, flush=True)
            return json.loads(answers.readline())

        try:
            yield ask
        finally:
            asked.close()


UNITS = {
    "model calls, parts as JSON (OpenTelemetry)": "span",
    "model calls, indexed attributes (OpenInference)": "span",
    "model calls below an HTTP span": "span",
    "spans that are no model calls": "span",
    "requests received and redacted": "turn",
    "requests received, redacted and noted": "turn",
    "turns of open conversations, in evaluate": "turn",
    "turns that are not sampled, in evaluate": "turn",
}


def work() -> None:
    """Answer until nothing is asked any more."""
    gc.set_threshold(*COLLECT_AFTER)  # as a service does
    works = dict(zip(UNITS, works_of(), strict=True))
    for each in works.values():
        each()
    for line in sys.stdin:
        name = line.strip()
        if name == "is compiled":
            answer: dict[str, float] = {"": int(is_compiled())}
        elif name.startswith("whole way "):
            _, _, judge, turns = name.split()
            answer = of_stages(judge, int(turns))
        else:
            gc.collect()
            answer = {"": cpu_of(works[name]) / ITEMS}
        print(json.dumps(answer), flush=True)


def works_of() -> Iterator[Work]:
    assembler = Assembler(Dialects.installed())
    for fill, per_trace in (
        (ingest.parts_span, 1), (ingest.indexed_span, 1), (ingest.mixed_span, 2), (ingest.plain_span, 10),
    ):  # fmt: skip
        yield partial(ingest.turns, list(ingest.batches(ITEMS, fill, per_trace)), assembler)
    bodies = whole_way.bodies_of(0, ITEMS)
    redactor = Redactor((find,), b"a key")
    one_of_hundred = TurnNotes(assembler, lambda key: int(key.rpartition("-")[2]) % 100 == 0)
    yield partial(received, bodies, redactor, None)
    yield partial(received, bodies, redactor, one_of_hundred)
    turns = list(records(ITEMS // 6, 6, text=650))
    yield partial(folded, turns, of_conversation=1, sample=1.0)
    yield partial(folded, turns, of_conversation=0, sample=1e-9)


def received(bodies: list[bytes], redactor: Redactor, notes: TurnNoting | None) -> None:
    for each in bodies:
        parse(each, "traces", "protobuf", max_items=20_000, redactor=redactor, notes=notes)


def folded(turns: list[StoredRecord], of_conversation: int, sample: float) -> None:
    """Turns as the evaluate stage takes them, six of a conversation."""

    async def apply() -> None:
        state = PartitionState(
            plan(of_turn=1 - of_conversation, of_conversation=of_conversation, sample=sample), ReplayPoint(0)
        )
        for each in turns:
            await state.apply(each)

    asyncio.run(apply())


def of_stages(judge: str, turns: int) -> dict[str, float]:
    """CPU of a turn in each stage, and in all of them."""
    with whole_way.service(judge, 0.01, *whole_way.STAGES) as (port, running, _):
        whole_way.warm_up(port, running[2])
        bodies = whole_way.bodies_of(whole_way.WARM_UP, turns)
        before = [each.cpu for each in running]
        whole_way.send(port, bodies)
        whole_way.until_done(running[2], whole_way.WARM_UP + turns)
        time.sleep(1.0)  # the exporters follow
        costs = [(each.cpu - cpu) / turns for each, cpu in zip(running, before, strict=True)]
    return dict(zip(whole_way.STAGES, costs, strict=True)) | {"all stages": sum(costs)}


if __name__ == "__main__":
    main()
