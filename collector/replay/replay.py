"""`evalstream replay`: what was judged once is judged again by another evaluator or judge, and the two are compared."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from collector.config.loading import Config, Configured
from collector.config.sentences import unknown
from collector.config.settings import UseSettings
from collector.errors import ConfigError, EvalstreamError
from collector.evaluate.definitions import Definitions
from collector.evaluate.marks import Mark
from collector.evaluate.plan import Assignment, Job, Monitor
from collector.judges import open_judges
from collector.logs.log import Log, Record
from collector.opening import Logs, open_logs
from collector.planning import assignment_of
from collector.records import evaluation_to_json
from collector.replay.comparison import Pair, compare
from collector.replay.past import REPLAY_OF, Past, Selected, Stretch, past_in_file, past_in_log, selected
from collector.replay.report import Replayed, Report, as_json, as_text, sides
from collector.replay.subjects import Turns, by_conversation, case_of, identity_of, turns_in_log
from collector.scoring.allowance import require_prices
from collector.scoring.performing import Performed, careful, perform
from collector.scoring.score import going_on, stopped, turns_in
from evaluators.outcome import Evaluation

DONE, FAILED = 0, 1
_APPENDED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What the command line says.

    `stretch` is what is judged again. `by` is the evaluator that does it where it has another name than the old one,
    `judge` the judge to ask instead of the evaluator's own; both are looked up in the new configuration. `paths` hold
    turns and `evaluations` evaluations, where they shall not come from the logs. `max_usd` is what judges may cost.
    """

    stretch: Stretch
    by: str | None = None
    judge: str | None = None
    paths: Sequence[str] = ()
    evaluations: Path | None = None
    output: Path | None = None
    into_log: bool = False
    max_usd: float | None = None
    worst: int = 5
    json: bool = False


def replay(config: Config, new: Config, options: ReplayOptions) -> int:
    """Judge a stretch of `config`'s logs again as `new` says; the exit status: 1 where not all could be judged.

    Raises:
        ConfigError: there is nothing to judge, nobody to judge it, or its texts were never kept.
        EvalstreamError: its texts are gone.
    """
    _check(config, options)
    try:
        report = asyncio.run(_replay(config, new, options))
    except KeyboardInterrupt:
        print(f"evalstream: interrupted{going_on(options.output)}", file=sys.stderr)  # noqa: T201
        raise
    if options.json:
        print(as_json(report.figures), end="")  # noqa: T201 - the command's data
    else:
        as_text(report.figures, Console())
    for complaint in report.complaints:
        print(f"evalstream: {complaint}", file=sys.stderr)  # noqa: T201
    return FAILED if report.complaints else DONE


@dataclass(frozen=True, slots=True)
class _Outcome:
    figures: Report
    complaints: tuple[str, ...]


def _check(config: Config, options: ReplayOptions) -> None:
    if config.settings.log.kind == "memory" and not (options.paths and options.evaluations):
        raise ConfigError(
            f"{config.source}: log.kind is memory: its past is gone with the process; "
            "name files: --evaluations and the turns"
        )
    if not config.settings.store_text and not options.paths:
        raise ConfigError(
            f"{config.source}: store_text is false, so what was judged is not kept and cannot be judged again; "
            "name files with the turns, or set store_text: true for the time to come"
        )
    if options.into_log and config.settings.log.kind == "memory":
        raise ConfigError("--into-log: log.kind is memory: nothing that is written there stays")
    if options.output is not None and options.output.suffix == ".csv":
        raise ConfigError(f"--output: {options.output}: write a name that ends in .jsonl; a replay goes on from it")
    if options.by is not None and len(options.stretch.evaluators) != 1:
        raise ConfigError("--by: say with one --evaluator whose evaluations it shall be held against")


async def _replay(config: Config, new: Config, options: ReplayOptions) -> _Outcome:
    async with AsyncExitStack() as stack:
        logs = await stack.enter_async_context(open_logs(config.settings.log))
        found = await _past(logs, options)
        if not found.scored:
            raise ConfigError(_nothing(found, options))
        names = _names(found, new, options)
        judging = _judging(new, names.values(), options.judge)
        if options.max_usd is not None:
            require_prices(judging, {each.judge for each in judging.evaluators.values() if each.judge})
        judges = await stack.enter_async_context(open_judges(judging, await Definitions.read(logs.definitions)))
        assignments = {old: assignment_of(UseSettings(name=name), judging, judges) for old, name in names.items()}
        wanted = [each for each in found.scored if each.evaluation.evaluator in assignments]
        jobs = _jobs(wanted, await _turns(config, logs, wanted, options), assignments)
        if not jobs:
            raise EvalstreamError(
                f"none of the {len(wanted)} evaluations has its turns any more: the log keeps them for log.retention; "
                "choose a later stretch, or name files with the turns"
            )
        run = await stack.enter_async_context(careful(new))
        _say_price(wanted, jobs)
        made = await perform(
            [job for _, job in jobs],
            output=options.output,
            concurrency=new.settings.evaluate.concurrency,
            run=run,
            max_usd=options.max_usd,
        )
        if options.into_log:
            await _append(logs.evaluations, made.evaluations, jobs)
    report = _report(found, len(wanted) - len(jobs), jobs, made, options)
    return _Outcome(report, tuple(_complaints(report, made, options)))


async def _past(logs: Logs, options: ReplayOptions) -> Selected:
    past = past_in_file(options.evaluations) if options.evaluations else await past_in_log(logs.evaluations)
    return selected(past, options.stretch)


def _nothing(found: Selected, options: ReplayOptions) -> str:
    where = str(options.evaluations or "the evaluations log")
    if not found.known:
        return f"{where} holds no evaluation yet, so there is nothing to judge again"
    if found.unscored:
        return f"{where}: none of {found.unscored} evaluations in this stretch has a score to compare with"
    return (
        f"{where}: none of {found.known} evaluations is in this stretch; "
        "widen --from and --to, or check --monitor and --evaluator"
    )


def _names(found: Selected, new: Config, options: ReplayOptions) -> dict[str, str]:
    """Who judges again, by the name of the old evaluator; names that nobody gave and nobody knows are left out."""
    scopes = {each.evaluation.evaluator: each.evaluation.scope for each in found.scored}
    named = {old: options.by or old for old in scopes}
    if options.stretch.evaluators:
        for each in named.values():
            if each not in new.evaluators:
                raise ConfigError(
                    f"{new.source}: no evaluator is called {each!r}; {unknown(each, sorted(new.evaluators))}"
                )
    names = {old: name for old, name in named.items() if name in new.evaluators}
    if options.judge is not None and not options.stretch.evaluators:
        names = {old: name for old, name in names.items() if new.evaluators[name].evaluator.needs_judge}
    if not names:
        raise ConfigError(f"{new.source}: has none of the evaluators to judge again: {', '.join(sorted(scopes))}")
    for old, name in names.items():
        if new.evaluators[name].evaluator.scope != scopes[old]:
            raise ConfigError(f"{name} scores a {new.evaluators[name].evaluator.scope}, and {old} a {scopes[old]}")
    return names


def _judging(new: Config, names: Collection[str], judge: str | None) -> Config:
    """The new configuration with these evaluators alone, and their judge where another is named."""
    known = sorted({*new.settings.judges, *new.settings.juries})
    if judge is not None and judge not in known:
        raise ConfigError(f"{new.source}: --judge: no judge is called {judge!r}; {unknown(judge, known)}")
    evaluators: dict[str, Configured] = {}
    for name in names:
        configured = new.evaluators[name]
        if judge is not None and configured.judge is None:
            raise ConfigError(f"--judge: {name} asks no judge; leave --judge out, or name another evaluator")
        evaluators[name] = replace(configured, judge=judge) if judge is not None else configured
    return replace(new, evaluators=evaluators)


async def _turns(config: Config, logs: Logs, past: Sequence[Past], options: ReplayOptions) -> Turns:
    if options.paths:
        return by_conversation(turns_in(options.paths, config))
    return await turns_in_log(logs.turns, {each.evaluation.subject.conversation_id for each in past})


def _jobs(past: Sequence[Past], turns: Turns, assignments: Mapping[str, Assignment]) -> list[tuple[Past, Job]]:
    found: dict[str, tuple[Past, Job]] = {}
    for each in past:
        job = _job(each.evaluation, turns, assignments[each.evaluation.evaluator])
        if job is not None:
            found[job.evaluation_id] = (each, job)
    return list(found.values())


def _job(old: Evaluation, turns: Turns, assignment: Assignment) -> Job | None:
    case = case_of(old, turns)
    if case is None:
        return None
    return Job(
        evaluation_id=assignment.evaluation_id(*identity_of(case)),
        monitor=Monitor(name=old.monitor, assignments=(), match={}),
        assignment=assignment,
        case=lambda: case,
        needs=Mark(0),
        emitted=0,
        sampling=old.sampling,
        attributes={**old.attributes, REPLAY_OF: old.evaluation_id},
    )


def _say_price(past: Sequence[Past], jobs: Sequence[tuple[Past, Job]]) -> None:
    costs = [each.evaluation.cost_usd for each in past if each.evaluation.cost_usd is not None]
    before = f"; the old ones cost {sum(costs):.2f} USD" if costs else ""
    guess = sum(job.assignment.expected_usd for _, job in jobs)
    about = f", for about {guess:.2f} USD as a first guess" if guess else ""
    print(f"evalstream: {len(jobs)} are judged again{about}{before}", file=sys.stderr)  # noqa: T201


async def _append(log: Log, evaluations: Sequence[Evaluation], jobs: Sequence[tuple[Past, Job]]) -> None:
    """Write into the evaluations log what is not there yet, each beside the one it repeats."""
    partitions = {job.evaluation_id: past.partition for past, job in jobs}
    there = {each.evaluation.evaluation_id for each in await past_in_log(log)}
    records = [
        Record(each.evaluation_id.encode(), evaluation_to_json(each), partition=partitions[each.evaluation_id])
        for each in evaluations
        if each.evaluation_id not in there and each.outcome != "failed"
    ]
    for start in range(0, len(records), _APPENDED_AT_ONCE):
        await log.append(records[start : start + _APPENDED_AT_ONCE])


def _report(
    found: Selected, gone: int, jobs: Sequence[tuple[Past, Job]], made: Performed, options: ReplayOptions
) -> Report:
    old_of = {job.evaluation_id: past.evaluation for past, job in jobs}
    by_name: dict[str, list[Pair]] = {}
    for each in made.evaluations:
        old = old_of[each.evaluation_id]
        by_name.setdefault(old.evaluator, []).append(Pair(old, each))
    return Report(
        replayed=tuple(_replayed(pairs, options.worst) for _, pairs in sorted(by_name.items())),
        unscored=found.unscored,
        gone=gone,
        left=made.left,
        spent_usd=made.spent_usd,
    )


def _replayed(pairs: Sequence[Pair], worst: int) -> Replayed:
    old, new = sides((each.old, each.new) for each in pairs)
    without = Counter(_why(each.new) for each in pairs if each.new.score is None)
    scored = [each for each in pairs if each.new.score is not None]
    return Replayed(old=old, new=new, comparison=compare(scored, worst=worst), no_score=dict(without))


def _why(evaluation: Evaluation) -> str:
    if evaluation.error is not None:
        return f"failed ({evaluation.error.type})"
    return f"skipped ({evaluation.reason})"


def _complaints(report: Report, made: Performed, options: ReplayOptions) -> Iterator[str]:
    for each in report.replayed:
        if each.comparison is None:
            reasons = ", ".join(f"{count} {what}" for what, count in each.no_score.items())
            yield f"{each.new.evaluator}: nothing could be scored: {reasons}"
    if made.left:
        yield stopped(made, options.max_usd, options.output)
