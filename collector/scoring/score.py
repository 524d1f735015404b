"""`evalstream score`: every evaluator of a configuration over files, with a bar, a table, and a line to fail under."""

from __future__ import annotations

import asyncio
import glob
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from collector.config.loading import Config
from collector.errors import ConfigError
from collector.evaluate.definitions import Definitions
from collector.evaluate.dispatch import utc_now
from collector.evaluate.plan import Assignment, Job, Plan
from collector.evaluate.record import evaluation_of
from collector.judges import open_judges
from collector.normalize import normalize
from collector.opening import open_logs
from collector.planning import plan_of
from collector.records import turn_from_json
from collector.scoring.cases import jobs_of
from collector.scoring.output import made_before, writing
from collector.scoring.report import as_json, as_table, below
from collector.scoring.summary import Tally, tallies
from evaluators.cases import Turn
from evaluators.outcome import Evaluation
from evaluators.run import run

DONE, FAILED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """What the command line says. `fail_under` is the mean below which the exit status is 1."""

    paths: Sequence[str]
    evaluators: Sequence[str] = ()
    output: Path | None = None
    fail_under: float | None = None
    json: bool = False


def score(config: Config, options: ScoreOptions) -> int:
    """Score files; returns the exit status: 1 where a mean is below the line, or nothing could be scored."""
    turns = list(turns_in(options.paths))
    if not turns:
        raise ConfigError(f"{', '.join(options.paths)}: no turn is in it; evalstream normalize --explain says why")
    try:
        made = asyncio.run(_score(config, options, turns))
    except KeyboardInterrupt:
        again = f"; the same command goes on from {options.output}" if options.output else ", and nothing was kept"
        print(f"evalstream: interrupted{again}", file=sys.stderr)  # noqa: T201
        raise
    by_evaluator = tallies(made)
    print(as_json(by_evaluator) if options.json else as_table(by_evaluator), end="")  # noqa: T201 - the command's data
    wrong = list(_complaints(by_evaluator, options.fail_under))
    for complaint in wrong:
        print(f"evalstream: {complaint}", file=sys.stderr)  # noqa: T201
    return FAILED if wrong else DONE


def turns_in(paths: Sequence[str]) -> Iterator[Turn]:
    """The turns of files, directories and globs; `-` is standard input, with a turn a line."""
    for path in paths:
        if path == "-":
            yield from (turn_from_json(line) for line in sys.stdin.buffer if line.strip())
        else:
            found = sorted(glob.glob(path)) if glob.has_magic(path) else [path]  # noqa: PTH207 - any path, absolute ones too
            if not found:
                raise ConfigError(f"{path}: matches no file")
            yield from normalize([Path(each) for each in found])


async def _score(config: Config, options: ScoreOptions, turns: Sequence[Turn]) -> list[Evaluation]:
    async with open_logs(config.settings.log) as logs:
        definitions = await Definitions.read(logs.definitions)
        async with open_judges(config, definitions) as judges:
            assignments = _assignments(plan_of(config, judges), options.evaluators)
            jobs = list(jobs_of(turns, assignments))
            wanted = {job.evaluation_id for job in jobs}
            before = [each for each in made_before(options.output) if each.evaluation_id in wanted]
            known = {each.evaluation_id for each in before}
            todo = [job for job in {job.evaluation_id: job for job in jobs}.values() if job.evaluation_id not in known]
            return before + await _perform(todo, options.output, len(before), config.settings.evaluate.concurrency)


def _assignments(plan: Plan, named: Sequence[str]) -> list[Assignment]:
    """The named evaluators; without names all that some monitor uses, each once."""
    every = {each.evaluator.name: each for monitor in plan.monitors for each in monitor.assignments}
    unknown = sorted(set(named) - set(every))
    if unknown:
        raise ConfigError(f"--evaluator: no monitor uses {', '.join(unknown)}; there is {', '.join(sorted(every))}")
    return [every[name] for name in (named or every)]


async def _perform(jobs: Sequence[Job], output: Path | None, before: int, concurrency: int) -> list[Evaluation]:
    made: list[Evaluation] = []
    spent = 0.0
    with writing(output) as sink, _progress() as progress:
        bar = progress.add_task("", total=before + len(jobs), completed=before, cost="")
        async with aclosing(_evaluated(jobs, concurrency)) as evaluations:
            async for evaluation in evaluations:
                sink.write(evaluation)
                made.append(evaluation)
                spent += evaluation.cost_usd or 0.0
                progress.update(bar, advance=1, cost=f"{spent:.2f} USD" if spent else "")
    return made


async def _evaluated(jobs: Iterable[Job], concurrency: int) -> AsyncGenerator[Evaluation]:
    """Evaluations in the order in which they end, so many at a time."""
    left = iter(jobs)
    running: set[asyncio.Task[Evaluation]] = set()
    try:
        while True:
            for job in left:
                running.add(asyncio.create_task(_evaluate(job)))
                if len(running) >= concurrency:
                    break
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                yield each.result()
    finally:
        for each in running:
            each.cancel()


async def _evaluate(job: Job) -> Evaluation:
    case = job.case()
    return evaluation_of(job, case, await run(job.assignment.evaluator, case, job.judge, now=utc_now))


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TextColumn("{task.fields[cost]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class _Rate(ProgressColumn):
    """Evaluations a second."""

    def render(self, task: Task) -> Text:
        """The rate of late, empty before there is one."""
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


def _complaints(by_evaluator: dict[str, Tally], line: float | None) -> Iterator[str]:
    for name, tally in by_evaluator.items():
        if not tally.scored and tally.failed:
            yield f"{name}: nothing could be scored, {sum(tally.failed.values())} failed ({', '.join(tally.failed)})"
        elif line is not None and below(tally, line):
            yield (
                f"{name}: the mean {tally.mean:.3f} is below {line:g}"
                if tally.scored
                else f"{name}: nothing was scored"
            )
