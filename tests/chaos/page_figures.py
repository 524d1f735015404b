"""Writes the figures of `make chaos` and `make soak` into tests/chaos/README.md: give it the files with their output.

make chaos > chaos.txt; make soak > soak.txt
.venv/bin/python tests/chaos/page_figures.py chaos.txt soak.txt
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("README.md")


def figures_in(path: Path) -> Mapping[str, Any]:
    """The last line with JSON."""
    return json.loads([line for line in path.read_text().splitlines() if line.startswith("{")][-1])


def rows(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is shown of either."""
    f = {name: f"{value:,}" for name, value in figures.items() if isinstance(value, int | float)}
    yield "turns, evaluations expected", f"{f['turns']}, {f['expected']}"
    if "memory" in figures:
        seconds = figures["seconds_in_all"]
        yield (
            "seconds in all; faults",
            f"{seconds}; " + "; ".join(f"{name}: {n}" for name, n in figures["faults"].items()),
        )
    else:
        yield (
            f"SIGKILLs in {figures['seconds']:.0f} s; restarts of the broker",
            f"{f['sigkills']}; {f['broker_restarts']}",
        )
    yield "judge calls, of which failed on purpose", f"{f['judge_calls']}, {f['judge_failures']}"
    missing = f"{f['missing']}, {f['written_twice']}, {f['exports_missing']}"
    yield "**evaluations missing, in the ledger twice, never exported**", f"**{missing}**"
    yield "`evalstream audit --drained`", "clean" if not figures["audit"] else "; ".join(figures["audit"])
    yield "judge calls repeated; in flight at kills and interruptions", f"{f['judged_again']}; {f['in_flight']}"
    if "memory" in figures:
        memory = figures["memory"]
        text = (
            f"{memory['warm']:.1f} MiB after warming up, {memory['end']:.1f} MiB at the end ({memory['growth']:+.1%})"
        )
        yield "resident memory of the worker that lived through all of it", f"{text}, {memory['most']:.1f} MiB at most"
    else:
        yield "judge calls repeated that no fault explains", f["judged_again_without_a_kill"]
        again = figures["exported_lines"] - figures["expected"]
        yield "lines exported", f"{f['exported_lines']}: {again:,} came again under the same id"


def table(name: str, figures: Mapping[str, Any]) -> str:
    lines = [f"| `make {name}` | |", "|---|---|", *(f"| {what} | {text} |" for what, text in rows(figures))]
    return "\n".join(lines)


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for path in map(Path, sys.argv[1:]):
        figures = figures_in(path)
        name = "soak" if "memory" in figures else "chaos"
        begin, end = f"<!-- figures of {name}: begin -->\n", f"\n<!-- figures of {name}: end -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{table(name, figures)}{end}{after}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
