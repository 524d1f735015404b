"""Runs the benchmarks on this machine and writes RESULTS.md, results.json and growth.png: `make bench`.

    python tests/bench/run.py                     all of it, in at most twelve minutes, and three to build the wheel
    python tests/bench/run.py --long              full sizes and everything else under tests/bench, however long it takes
    python tests/bench/run.py --minutes 30        the same on a busy machine, where twelve minutes are not enough
    python tests/bench/run.py --only "judge path" one group; nothing is written
    python tests/bench/run.py --compiled          on the compiled wheel, built in two minutes; nothing is written
    python tests/bench/run.py --smoke             whether it works at all, in seconds; nothing is written
    python tests/bench/run.py --compare OLD.json  no measuring: the results as they are beside older ones

Each script measures in a process of its own. What was tried, and what it gave, is kept by hand in LEVERS.md.

It ends with 0 when it ran, whatever the figures: missed aims, and what is left out for want of time or of a tool, are
listed at the end. It ends with 1 when a script failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from compiled_env import compiled_site, environment
from measured import Figure, read_figure
from peers_env import peers_python

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
IN_THE_IMAGE = "as in the image"
SCRIPTS = {
    "judge path": "judge_path.py",
    "ingest": "ingest.py",
    "growth": "growth.py",
    "whole way": "whole_way.py",
    "kafka": "kafka_way.py",
    IN_THE_IMAGE: "as_in_the_image.py",
    "recovery": "recovery.py",
    "footprint": "footprint.py",
}
ONLY_LONG = {"stores": "stores.py", "restart": "restart_run.py", "compiled": "compiled.py"}
"""Other platforms in servers of their own, restarts with much state, and the compiled wheel beside pure Python: minutes;
for `--long`, or by name with `--only`."""
FURTHER = {"redaction": ("redaction.py",)}
"""Scripts that print text of their own."""
LONGER = {
    "logs": ("logs.py", "sqlite"),
    "receiver": ("otlp_http.py",),
    "open conversations": ("conversations.py",),
    "budgets": ("budget_simulation.py",),
    "drops": ("drop_detection.py", "--quick"),
    "changes": ("change_detection.py", "--runs", "4"),
    "prediction": ("scale_run.py",),
}
ORDER = (
    "judge path",
    "ingest",
    "whole way",
    "as in the image, compiled",
    "growth",
    "recovery",
    "start-up and footprint",
    "stores",
)
PACKAGES = ("evalstream", "aiohttp", "kafka-python", "orjson", "protobuf", "pydantic", "uvloop")
READING = """A figure is the median of its repeats, in brackets the least and the most. A ratio is to the floor of the same
row, measured by turns in the same process: it is the median of the pairs' ratios. CPU is user and system time, which
another load disturbs less than it does wall time."""
SMOKED = ("judge path", "ingest", "growth")
"""What needs no second process of the service."""


@dataclass(frozen=True)
class LeftOut:
    """What was not measured, as a sentence; `is_failure` where a script failed, and had all it needs."""

    sentence: str
    is_failure: bool = False


def main() -> int:
    given = _arguments()
    if given.compare:
        compare(json.loads(given.compare.read_text()), json.loads((HERE / "results.json").read_text()))
        return 0
    scripts = SCRIPTS | ONLY_LONG
    names = given.only or (SMOKED if given.smoke else tuple(scripts if given.long else SCRIPTS))
    site = compiled_site() if given.compiled or IN_THE_IMAGE in names else None  # not in the time of a measurement
    if given.compiled and site is None:
        return 1
    began = time.monotonic()
    surroundings = environment(site if given.compiled else None)
    print(f"evalstream {version('evalstream')}, {kind_of(surroundings)}", flush=True)
    mode = [flag for flag in ("--smoke", "--long") if getattr(given, flag[2:])]
    figures: list[Figure] = []
    left_out: list[LeftOut] = []
    for name in names:
        left = None if given.long else 60 * given.minutes - (time.monotonic() - began)
        for each in measured(scripts[name], mode, left, surroundings):
            if isinstance(each, Figure):
                figures.append(each)
                print(line_of(each), flush=True)
            else:
                left_out.append(each)
                print(f"left out: {each.sentence}", flush=True)
    if not (given.only or given.smoke or given.compiled):
        left_out += write(figures, left_out, began, is_long=given.long)
    print(missed_aims(figures))
    return 1 if any(each.is_failure for each in left_out) else 0


def write(figures: Sequence[Figure], left_out: Sequence[LeftOut], began: float, *, is_long: bool) -> list[LeftOut]:
    """Measure what prints text of its own, and write the results; what failed of it comes back."""
    texts, failures = {}, []
    for name, command in (FURTHER | (LONGER if is_long else {})).items():
        text, has_failed = printed(*command)
        texts[name] = text
        if has_failed:
            failures.append(LeftOut(f"{name}: {text}", is_failure=True))
            print(f"left out: {name}: {text}", flush=True)
    machine = about_machine() | {"minutes": round((time.monotonic() - began) / 60, 1), "long": is_long}
    sentences = [each.sentence for each in left_out]
    results = {"machine": machine, "figures": [asdict(each) for each in figures], "left_out": sentences}
    (HERE / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    plotted = plot()
    (HERE / "RESULTS.md").write_text(page(machine, figures, sentences, texts, plotted=plotted))
    return failures


def missed_aims(figures: Sequence[Figure]) -> str:
    """Which aims were missed, a line for each."""
    aims = [each for each in figures if each.aim is not None]
    missed = [each for each in aims if not each.reached]
    if not missed:
        return f"{len(aims)} aims, all reached"
    return "\n".join(
        (f"{len(aims)} aims, {len(missed)} missed:", *(f"  {line_of(each)}, aim {aim_of(each)}" for each in missed))
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--minutes", type=float, default=11.5, help="what is not measured by then is left out")
    parser.add_argument("--only", action="append", choices=[*SCRIPTS, *ONLY_LONG])
    parser.add_argument("--compare", type=Path, metavar="OLD.json")
    return parser.parse_args()


def kind_of(surroundings: Mapping[str, str]) -> str:
    """Whether what is measured is compiled: as a process of that environment has it."""
    program = "from collector.telemetry.compilation import is_compiled; print(is_compiled())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=dict(surroundings), cwd=ROOT, capture_output=True, text=True, check=True)
    return "compiled" if done.stdout.strip() == "True" else "pure Python"


def measured(
    script: str, mode: Sequence[str], within: float | None, surroundings: Mapping[str, str] | None = None
) -> Iterator[Figure | LeftOut]:
    """The figures of a script as they come, and what of it could not be measured."""
    if within is not None and within < 1.0:
        yield LeftOut(f"{script}: no time was left for it; the machine is slow or busy, and --minutes gives more")
        return
    command = [sys.executable, str(HERE / script), *mode]
    late = threading.Event()
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            command,
            env=None if surroundings is None else dict(surroundings),
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        ) as process,
    ):
        stop = threading.Timer(within or threading.TIMEOUT_MAX, _end, (process, late))
        stop.daemon = True
        stop.start()
        for line in process.stdout or ():
            if line.startswith('{"left_out"'):
                yield LeftOut(json.loads(line)["left_out"])
            elif line.startswith("{"):
                yield read_figure(line)
        status = process.wait()
        stop.cancel()
        said.seek(0)
        why = (
            f"no time was left for it after {within:.0f} s"
            if late.is_set()
            else said.read().strip().rpartition("\n")[2]
        )
    if status:
        yield LeftOut(f"the rest of {script}: {why}", is_failure=not late.is_set())


def _end(process: subprocess.Popen[str], late: threading.Event) -> None:
    """End a script with all that it has started: its servers would keep its output open."""
    late.set()
    os.killpg(process.pid, signal.SIGKILL)


def printed(script: str, *more: str) -> tuple[str, bool]:
    """What a script prints, and whether it failed."""
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / script), *more],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
            timeout=3600,
        )
    except subprocess.TimeoutExpired:
        return "took too long", False
    if done.returncode:
        return "failed: " + done.stderr.strip().rpartition("\n")[2], True
    return done.stdout, False


def about_machine() -> dict[str, object]:
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1e6
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout.strip()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit,
        "processor": f"{os.cpu_count()} x {model[0].partition(':')[2].strip() if model else platform.machine()}",
        "memory": f"{memory:.0f} GB",
        "load": round(os.getloadavg()[2], 1),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "code": kind_of(os.environ),
        "versions": {name: version(name) for name in PACKAGES},
    }


def plot() -> bool:
    python = peers_python()
    if python is None:
        return False
    done = subprocess.run([python, HERE / "plot.py", HERE / "results.json", HERE / "growth.png"], check=False)
    return not done.returncode


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def aim_of(figure: Figure) -> str:
    return f"{'≥' if figure.at_least else '≤'} {figure.aim:g}"


def line_of(figure: Figure) -> str:
    beside = f", floor {shown(figure.floor)}, {figure.ratio:.2f} times" if figure.floor and figure.ratio else ""
    return f"{figure.group}: {figure.name}: {shown(figure.value)} {figure.unit}{beside}"


def page(
    machine: dict[str, object],
    figures: Sequence[Figure],
    left_out: Sequence[str],
    texts: dict[str, str],
    *,
    plotted: bool,
) -> str:
    lines = ["# Speed", "", "Written by `make bench`; do not edit. What was tried is in [LEVERS.md](LEVERS.md).", ""]
    versions = ", ".join(f"{name} {each}" for name, each in machine["versions"].items())  # type: ignore[attr-defined]
    about = ", ".join(str(machine[each]) for each in ("date", "processor", "memory", "system"))
    lines += [
        f"{about}; {versions}; commit {machine['commit']}, {machine.get('code', 'pure Python')}.",
        f"It took {machine['minutes']} minutes; load average over 15 minutes at the end: {machine['load']}.",
        "",
        READING,
    ]
    groups = [*ORDER, *dict.fromkeys(each.group for each in figures if each.group not in ORDER)]
    for group in groups:
        rows = [row(each) for each in figures if each.group == group]
        if rows:
            head = "| what | figure | floor | ratio | aim | |\n|---|---|---|---|---|---|"
            lines += ["", f"## {group.capitalize()}", "", head, *rows]
        if group == "growth" and plotted:
            lines += ["", "![CPU per item at 1, 4 and 16 times the size](growth.png)"]
    if left_out:
        lines += ["", "## Left out", "", *(f"- {each}" for each in left_out)]
    for name, text in texts.items():
        lines += ["", f"## {name.capitalize()}", "", "```", text.strip(), "```"]
    return "\n".join(lines) + "\n"


def row(figure: Figure) -> str:
    spread = f" ({shown(min(figure.repeats))} to {shown(max(figure.repeats))})" if len(figure.repeats) > 1 else ""
    floor = "" if figure.floor is None else shown(figure.floor)
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    aim = "" if figure.aim is None else f"{aim_of(figure)}: {'reached' if figure.reached else '**missed**'}"
    return (
        f"| {figure.name} | {shown(figure.value)} {figure.unit}{spread} | {floor} | {ratio} | {aim} | {figure.note} |"
    )


def compare(old: dict[str, object], new: dict[str, object]) -> None:
    """Two results, a line for each figure in both; the ratio to the floor where there is one, for machines differ."""

    def by_name(results: dict[str, object]) -> dict[tuple[str, str], Figure]:
        read = [read_figure(json.dumps(each)) for each in results["figures"]]  # type: ignore[attr-defined]
        return {(each.group, each.name): each for each in read}

    before, after = by_name(old), by_name(new)
    print(f"{old['machine']['commit']} -> {new['machine']['commit']}")  # type: ignore[index]
    changes = []
    for key in before.keys() & after.keys():
        one, other = before[key], after[key]
        use = one.ratio is not None and other.ratio is not None
        first, second = (one.ratio, other.ratio) if use else (one.value, other.value)
        if first:
            changes.append((second / first, key, first, second, "times the floor" if use else other.unit))
    for change, (group, name), first, second, unit in sorted(changes):
        print(f"{change - 1:+7.1%}  {group}: {name}: {shown(first)} -> {shown(second)} {unit}")
    if changes:
        print(f"{statistics.median(each[0] for each in changes) - 1:+7.1%}  median of {len(changes)}")


if __name__ == "__main__":
    sys.exit(main())
