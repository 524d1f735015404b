"""Attacks a running service that has one core and little memory, and reports what each attack cost: `make attack`.

Exits with 1 if the service ended, a neighbour was not served, an attack got an answer that it must not get, or the
ledger holds what it must not hold. Everything stays on this machine; it takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp.test_utils import TestServer
from attacks import CASES, CPU_PER_BYTE, NEIGHBOUR, SPEED, STRANGER, Target, work
from copying_judge import application
from limited_service import MEMORY, MIB, LimitedService, Usage, until_idle
from service import free_port
from test_access import make_certificates


@dataclass
class Neighbour:
    """What became of somebody else's requests."""

    answers: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0


@asynccontextmanager
async def neighbour_of(url: str) -> AsyncIterator[Neighbour]:
    """Somebody else sends meanwhile, from a process of its own; what became of it is there on leaving."""
    program = Path(__file__).with_name("neighbour.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), url, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n", "the neighbour did not start"
    neighbour = Neighbour()
    try:
        yield neighbour
    finally:
        process.terminate()
        result = json.loads((await process.stdout.read()) or b"{}")
        await process.wait()
        neighbour.answers.update(result.get("answers", {}))
        neighbour.slowest = result.get("slowest", 0.0)


SLOWEST = 4.0
"""Seconds in which a neighbour must have its answer."""


@dataclass
class Finding:
    """What a case cost, and what is wrong with it."""

    name: str
    sent: int
    answers: Counter[str]
    before: Usage
    after: Usage
    neighbour: Neighbour
    seconds: float
    problems: list[str]

    @property
    def cpu(self) -> float:
        """CPU seconds, the neighbour's share and what is usual included."""
        return self.after.cpu - self.before.cpu

    def row(self) -> str:
        kib = max(self.sent / 1024, 0.1)
        grown = max(0, self.after.peak - self.before.resident)
        answers = ", ".join(f"{count} {answer}" for answer, count in self.answers.most_common(4))
        others = ", ".join(f"{count} {answer}" for answer, count in self.neighbour.answers.most_common(3))
        return " | ".join(
            [
                f"| {self.name}", f"{kib:,.1f}", answers or "none", f"{self.cpu:.2f}", f"{self.cpu / kib * 1000:.2f}",
                f"{grown / MIB:,.0f}", f"{grown / 1024 / kib:,.2f}",
                f"{max(0, self.after.disk - self.before.disk) / 1024 / kib:,.2f}", others,
                f"{self.neighbour.slowest:.2f}", f"{'; '.join(self.problems) or 'holds'} |",
            ]
        )  # fmt: skip


HEAD = """\
| attack | KiB sent | answers to it | CPU s | ms per KiB | MiB at most | KiB of memory per KiB | KiB of disk per KiB \
| answers to a neighbour | slowest, s | |
|---|--:|---|--:|--:|--:|--:|--:|---|--:|---|"""


@asynccontextmanager
async def attacked(folder: Path, scale: float) -> AsyncIterator[Target]:
    """A service with everything open that a stranger may meet, and a judge that believes what it reads."""
    make_certificates(folder)
    async with TestServer(application()) as judge:
        page_port, grpc_port = free_port(), free_port()
        auth = {"tokens": [STRANGER], "tenants": [{"name": "neighbour", "token": NEIGHBOUR, "share": 0.25}]}
        config = {
            "log": {"kind": "sqlite", "path": "evalstream.db"},
            "assemble": {"idle_timeout": "500ms", "allowed_lateness": "5s"},
            "judges": {"copying": {"model": "copying", "base_url": str(judge.make_url("/v1"))}},
            "evaluators": {
                "helpful": {
                    "kind": "g_eval",
                    "evaluation_steps": ["Look."],
                    "evaluation_params": ["input", "actual_output"],
                    "judge": "copying",
                }
            },
            "monitors": {"all": {"evaluators": ["helpful"]}},
            "page": {
                "port": page_port,
                "auth": {"tokens": ["a-token-of-the-page-0123456789"]},
                "tls": {"certificate": str(folder / "ours.pem"), "key": str(folder / "ours.key")},
            },
        }
        receive = {"otlp_http": {"auth": auth}, "otlp_grpc": {"port": grpc_port, "auth": deepcopy(auth)}}
        process = LimitedService(folder, config, receive)
        await process.start()
        connector = aiohttp.TCPConnector(limit=0)
        try:
            async with aiohttp.ClientSession(connector=connector) as session:
                yield Target(process, session, grpc_port, page_port, scale)
        finally:
            await process.end()


async def measure(target: Target) -> None:
    """Note what the neighbour costs alone, and what a byte may cost on a machine as fast as this one."""
    await until_idle(target.process)
    async with neighbour_of(target.process.url):
        before, started = target.process.usage(), time.monotonic()
        await asyncio.sleep(3)
        target.others = (target.process.usage().cpu - before.cpu) / (time.monotonic() - started)
    slower = max(1.0, min(work() for _ in range(5)) / SPEED)
    target.cpu_per_byte = CPU_PER_BYTE * slower
    print(f"the neighbour takes {target.others:.2f} CPU seconds a second; this machine is {slower:.1f} times slower")


async def run_case(name: str, target: Target) -> Finding:
    """Run one attack while a neighbour sends, and see what it cost until the service is idle again."""
    case, process = CASES[name], target.process
    target.sent, target.answers, target.costs = 0, Counter(), {}
    await until_idle(process)
    process.forget_peak()
    problems: list[str] = []
    async with neighbour_of(process.url) as neighbour:
        before, started = process.usage(), time.monotonic()
        try:
            await case.attack(target)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            problems.append(f"the attack met {type(error).__name__}")
        await asyncio.sleep(0.5)
    try:
        await until_idle(process)
    except TimeoutError:
        problems.append("it was busy for two minutes afterwards")
    if not process.runs:
        return Finding(name, target.sent, target.answers, before, before, neighbour, 0, ["the service ended"])
    unexpected = set(target.answers) - case.answers
    problems += [f"answered {', '.join(sorted(unexpected))}"] if unexpected else []
    problems += ["a neighbour was not served"] if set(neighbour.answers) != {"200"} else []
    problems += [f"a neighbour waited {neighbour.slowest:.1f} s"] if neighbour.slowest > SLOWEST else []
    after, seconds = process.usage(), time.monotonic() - started
    finding = Finding(name, target.sent, target.answers, before, after, neighbour, seconds, problems)
    if case.of_bytes and finding.cpu > target.cpu_per_byte * target.sent + target.others * seconds:
        problems.append(f"a byte cost {finding.cpu / target.sent * 1e6:.0f} µs")
    for piece, cost in sorted(target.costs.items(), key=lambda item: -item[1])[:3]:
        print(f"    {piece!r} costs {cost * 1e6:.0f} µs a byte")
        problems += [f"a byte of {piece!r} cost {cost * 1e6:.0f} µs"] if cost > target.cpu_per_byte else []
    return finding


async def run(names: Sequence[str], scale: float, folder: Path) -> list[Finding]:
    """Run the cases one after the other on one service; then see what its ledger holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 2**20 else max(soft, 65_536), hard))
    findings: list[Finding] = []
    async with attacked(folder, scale) as target:
        await measure(target)
        for name in names:
            findings.append(await run_case(name, target))
            print(findings[-1].row(), flush=True)
            if not target.process.runs:
                return findings
        status = await target.process.stop()
        ledger = await target.process.ledger()
    for finding in findings:
        if problem := CASES[finding.name].check(ledger):
            finding.problems.append(problem)
            print(f"{finding.name}: {problem}", flush=True)
    if status:
        findings[-1].problems.append(f"the service ended with {status}")
    return findings


def report_of(findings: Sequence[Finding]) -> str:
    """The findings as a page."""
    idle = min(each.before.resident for each in findings) / MIB
    about = (
        f"`make attack`: one core, {MEMORY // MIB} MiB of data at most; {idle:.0f} MiB resident before. CPU seconds hold "
        "those for a neighbour who sends ten small traces a second from another address, with a token of its own. What "
        "is sent is counted as it goes over the wire, compressed where that is worse for the service."
    )
    lines = ["# What an attack costs", "", about, "", HEAD, *(each.row() for each in findings)]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full attack, from 0 to 1")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES), help="these attacks alone")
    parser.add_argument("--report", type=Path, default=Path(".cache/attack.md"), help="file for the report")
    arguments = parser.parse_args()
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        findings = asyncio.run(run(arguments.only, arguments.scale, Path(folder)))
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    arguments.report.write_text(report_of(findings), encoding="utf-8")
    problems = [f"{each.name}: {'; '.join(each.problems)}" for each in findings if each.problems]
    print("\n".join([f"\nwritten to {arguments.report}", *problems]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
