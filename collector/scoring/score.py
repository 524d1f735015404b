"""`evalstream score`: every evaluator of a configuration over files, with a bar, a table, and a line to fail under."""

from __future__ import annotations

import asyncio
import glob
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.assemble.trace import Assembler
from collector.assembling import assembler_of, linked
from collector.config.loading import Config
from collector.errors import ConfigError
from collector.evaluate.definitions import Definitions
from collector.evaluate.plan import Assignment, Plan
from collector.judges import open_judges
from collector.normalize import normalize
from collector.opening import open_logs
from collector.planning import plan_of
from collector.records import turn_from_json
from collector.scoring.allowance import judges_of, require_prices
from collector.scoring.cases import jobs_of
from collector.scoring.performing import Performed, careful, perform
from collector.scoring.report import as_json, as_table, below
from collector.scoring.summary import Tally, tallies
from evaluators.cases import Turn

DONE, FAILED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """What the command line says. `fail_under` is the mean below which the exit status is 1.

    `max_usd` is what judges may cost in this run.
    """

    paths: Sequence[str]
    evaluators: Sequence[str] = ()
    output: Path | None = None
    fail_under: float | None = None
    max_usd: float | None = None
    json: bool = False


def score(config: Config, options: ScoreOptions) -> int:
    """Score files; returns the exit status: 1 where a mean is below the line, or nothing could be scored."""
    turns = list(turns_in(options.paths, config))
    if not turns and list(options.paths) == ["-"]:
        raise ConfigError("standard input: no turn came; pipe turns into it, one JSON object a line")
    if not turns:
        raise ConfigError(f"{', '.join(options.paths)}: no turn is in it; evalstream normalize --explain says why")
    try:
        made = asyncio.run(_score(config, options, turns))
    except KeyboardInterrupt:
        print(f"evalstream: interrupted{going_on(options.output)}", file=sys.stderr)  # noqa: T201
        raise
    by_evaluator = tallies(made.evaluations)
    print(as_json(by_evaluator) if options.json else as_table(by_evaluator), end="")  # noqa: T201 - the command's data
    wrong = list(_complaints(by_evaluator, options.fail_under))
    if made.left:
        wrong.append(stopped(made, options.max_usd, options.output))
    for complaint in wrong:
        print(f"evalstream: {complaint}", file=sys.stderr)  # noqa: T201
    return FAILED if wrong else DONE


def going_on(output: Path | None) -> str:
    """What becomes of an interrupted run."""
    kept = output is not None and output.suffix != ".csv"
    return f"; the same command goes on from {output}" if kept else ", and nothing was kept to go on from"


def stopped(made: Performed, max_usd: float | None, output: Path | None) -> str:
    """That a run ended because its money was spent."""
    begun = len(made.evaluations)
    return f"--max-usd {max_usd:g} is spent: {begun} of {begun + made.left} are judged{going_on(output)}"


def turns_in(paths: Sequence[str], config: Config) -> Iterator[Turn]:
    """The turns of files, directories and globs; `-` is standard input, with a turn a line."""
    settings = config.settings.assemble
    yield from linked(_unlinked(paths, assembler_of(settings)), settings)


def _unlinked(paths: Sequence[str], assembler: Assembler) -> Iterator[Turn]:
    for path in paths:
        if path == "-":
            yield from (turn_from_json(line) for line in sys.stdin.buffer if line.strip())
        else:
            found = sorted(glob.glob(path)) if glob.has_magic(path) else [path]  # noqa: PTH207 - any path, absolute ones too
            if not found:
                raise ConfigError(f"{path}: matches no file")
            yield from normalize([Path(each) for each in found], assembler)


async def _score(config: Config, options: ScoreOptions, turns: Sequence[Turn]) -> Performed:
    async with open_logs(config.settings.log) as logs:
        definitions = await Definitions.read(logs.definitions)
        async with open_judges(config, definitions) as judges, careful(config) as run:
            assignments = _assignments(plan_of(config, judges), options.evaluators)
            if options.max_usd is not None:
                require_prices(config, judges_of(config, assignments))
            return await perform(
                list(jobs_of(turns, assignments)),
                output=options.output,
                concurrency=config.settings.evaluate.concurrency,
                run=run,
                max_usd=options.max_usd,
            )


def _assignments(plan: Plan, named: Sequence[str]) -> list[Assignment]:
    """The named evaluators; without names all that some monitor uses, each once."""
    every = {each.evaluator.name: each for monitor in plan.monitors for each in monitor.assignments}
    unknown = sorted(set(named) - set(every))
    if unknown:
        raise ConfigError(f"--evaluator: no monitor uses {', '.join(unknown)}; there is {', '.join(sorted(every))}")
    return [every[name] for name in (named or every)]


def _complaints(by_evaluator: dict[str, Tally], line: float | None) -> Iterator[str]:
    for name, tally in by_evaluator.items():
        if not tally.scored and tally.failed:
            failed = f"{sum(tally.failed.values())} failed ({', '.join(tally.failed)})"
            advice = (
                "; check its judge's base_url, model and key" if any("judge" in each for each in tally.failed) else ""
            )
            yield f"{name}: nothing could be scored, {failed}, the first one because: {tally.problem}{advice}"
        elif line is not None and below(tally, line):
            yield (
                f"{name}: the mean {tally.mean:.3f} is below {line:g}"
                if tally.scored
                else f"{name}: nothing was scored"
            )
