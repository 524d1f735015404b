"""`evalstream compare judges`: an evaluator through several judges on labelled cases, and which of them is enough."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collector.commands.judges.bench import Attempt, Bench, JudgedCase, LossScale, bench
from collector.commands.judges.labelled_cases import LabelledCase, read_labelled_cases
from collector.commands.judges.report import as_json, as_text, bench_svg
from collector.commands.score.runner import RunResult, guarded_run, run_jobs
from collector.commands.score.score import limit_message
from collector.commands.score.spend_limit import require_prices
from collector.config.configured import Config, Configured
from collector.errors import ConfigError
from collector.evaluate.plan import Assignment, Job, Monitor
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.judging.layers import without_answer_cache
from collector.judging.open_judges import open_judges
from collector.service.open_logs import open_logs
from collector.service.plan_builder import expected_usd
from collector.telemetry.plain import show
from collector.wording import unknown
from evaluators.identity import conversation_id_of, judged_version, make_evaluation_id, subject_id_of
from evaluators.judge import Judge
from evaluators.results import Evaluation

DONE, FAILED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgesOptions:
    """The command's options. Each judge judges each case `repeat` times, `concurrency` evaluations at once.

    `margin` is by how much a judge may agree less with people than the best one. Without names all judges are asked
    that can be.
    """

    file: Path
    evaluator: str | None = None
    judges: Sequence[str] = ()
    repeat: int = 2
    margin: float = 0.05
    concurrency: int = 8
    max_usd: float | None = None
    output: Path | None = None
    plot: Path | None = None
    json: bool = False


def compare_judges(config: Config, options: JudgesOptions) -> int:
    """Run the bench and print it; returns the exit status: 1 where nothing was scored, or a limit was reached.

    Raises:
        ConfigError: a name is unknown, or a file cannot be used.
    """
    cases = read_labelled_cases(options.file)
    name = _evaluator(config, options, cases)
    configured = config.evaluators[name]
    cases = [case for case in cases if case.evaluator in (None, name)]
    judges = _judges(config, name, options)
    _check_scope(configured, cases, options.file)
    if options.max_usd is not None:
        require_prices(config, judges)
    made, result = asyncio.run(_run(config, name, judges, cases, options))
    show((as_json if options.json else as_text)(result, len(cases)), end="")
    if options.plot is not None:
        _write(options.plot, bench_svg(result))
    problems = [limit_message(made, options.max_usd, options.output)] if made.left and options.max_usd else []
    if result.take is None:
        problems.append("no judge could score enough of the cases; the failures are in the table")
    for problem in problems:
        show(f"evalstream: {problem}", err=True)
    return FAILED if problems else DONE


def _evaluator(config: Config, options: JudgesOptions, cases: Sequence[LabelledCase]) -> str:
    asking = [name for name, evaluator in config.evaluators.items() if evaluator.judge is not None]
    if options.evaluator is not None:
        if options.evaluator not in config.evaluators:
            raise ConfigError(f"--evaluator: {unknown('evaluator', options.evaluator, config.evaluators)}")
        if options.evaluator not in asking:
            raise ConfigError(f"--evaluator: {options.evaluator} uses no judge; name one that does")
        return options.evaluator
    labelled = sorted({case.evaluator for case in cases if case.evaluator in asking})
    named = labelled or asking
    if len(named) != 1:
        raise ConfigError(f"--evaluator: is missing; name one of {', '.join(named) or 'no evaluator asks a judge'}")
    return str(named[0])


def _judges(config: Config, evaluator: str, options: JudgesOptions) -> list[str]:
    """The judges to compare: those that are named, else all that can answer this evaluator's questions."""
    settings, writes = config.settings, config.evaluators[evaluator].evaluator.needs_writer
    if options.judges:
        for judge in options.judges:
            if judge not in settings.judge_names:
                raise ConfigError(f"--judge: {unknown('judge', judge, settings.judge_names)}")
        names = list(dict.fromkeys(options.judges))
    else:
        able = [name for name, judge in settings.judges.items() if judge.kind != "embeddings"]
        names = [name for name in able if not (writes and settings.judges[name].decides)]
    for name in names:
        if writes and any(settings.judges[member].decides for member in settings.members(name)):
            raise ConfigError(f"--judge: {name} decides and cannot write, which {evaluator} needs; leave it out")
    if len(names) < 2:
        raise ConfigError("--judge: there is nothing to compare; define several under `judges`, or name two")
    return names


def _check_scope(configured: Configured, cases: Sequence[LabelledCase], path: Path) -> None:
    scope = configured.evaluator.scope
    if any((scope == "conversation") != hasattr(case.case, "turns") for case in cases):
        raise ConfigError(f"{path}: {configured.evaluator.name} scores a {scope}; give it cases of that kind alone")
    if not cases:
        raise ConfigError(f"{path}: has no labels of {configured.evaluator.name}; name another with --evaluator")


@dataclass(frozen=True, slots=True)
class _Place:
    """The number of the attempt that an evaluation is."""

    judge: str
    case: int


async def _run(
    config: Config, name: str, judges: Sequence[str], cases: Sequence[LabelledCase], options: JudgesOptions
) -> tuple[RunResult, Bench]:
    configured = config.evaluators[name]
    # each judge is opened as that of an evaluator of its own, with the layers that it has in the service
    every = replace(config, evaluators={judge: replace(configured, judge=judge) for judge in judges})
    is_named = "log" in config.settings.model_fields_set
    async with open_logs(config.settings.log, create=is_named) as logs:
        definitions = await logs.generated_steps()
        async with open_judges(every, definitions) as opened, guarded_run(config, from_logs=False) as run:
            opened_judges = {judge: without_answer_cache(opened[judge]) for judge in judges}
            jobs = list(_jobs(every, opened_judges, cases, options.repeat))
            made = await run_jobs(
                [job for job, _ in jobs],
                output=options.output,
                concurrency=options.concurrency,
                run=run,
                max_usd=options.max_usd,
            )
            models = {each: judge.model for each, judge in opened_judges.items()}
    places = {job.evaluation_id: place for job, place in jobs}
    scale = LossScale(
        threshold=0.5 if configured.evaluator.threshold is None else configured.evaluator.threshold,
        verdicts=all(case.human in (0, 1) for case in cases),
        lower_is_better=configured.evaluator.direction == "lower_is_better",
    )
    judged = _judged(made.evaluations, places, judges, cases, configured)
    return made, bench(name, models, judged, scale, options.margin)


def _jobs(
    config: Config, judges: Mapping[str, Judge], cases: Sequence[LabelledCase], repeat: int
) -> Iterator[tuple[Job, _Place]]:
    """Every attempt, case by case, so that all judges meet the same load."""
    monitor = Monitor(name="judges", assignments=(), match={})
    evaluator = next(iter(config.evaluators.values())).evaluator
    assignments = {
        name: Assignment(
            evaluator=evaluator,
            judge=judge,
            version=judged_version(evaluator, judge.model),
            expected_usd=expected_usd(config, name),
            judge_name=name,
        )
        for name, judge in judges.items()
    }
    for number, labelled in enumerate(cases):
        subject, revision = subject_id_of(labelled.case)
        for attempt in range(repeat):
            for name, assignment in assignments.items():
                parts = (assignment.version, f"{name}\x1f{assignment.judge.model}", subject)
                evaluation_id = make_evaluation_id(evaluator.name, *parts, f"{revision}\x1f{number}\x1f{attempt}")
                yield (
                    Job(
                        evaluation_id=evaluation_id,
                        monitor=monitor,
                        assignment=assignment,
                        case=lambda case=labelled.case: case,
                        replay_point=ReplayPoint(0),
                        trigger_offset=0,
                        subject=(subject, revision),
                    ),
                    _Place(name, number),
                )


def _judged(
    evaluations: Sequence[Evaluation],
    places: Mapping[str, _Place],
    judges: Sequence[str],
    cases: Sequence[LabelledCase],
    configured: Configured,
) -> dict[str, list[JudgedCase]]:
    """The attempts by judge and case."""
    lower = configured.evaluator.direction == "lower_is_better"
    attempts: dict[_Place, list[Attempt]] = {}
    for evaluation in evaluations:
        attempts.setdefault(places[evaluation.evaluation_id], []).append(_attempt(evaluation))
    return {
        name: [
            JudgedCase(str(number), conversation_id_of(case.case), case.score(lower_is_better=lower), tuple(made))
            for number, case in enumerate(cases)
            if (made := attempts.get(_Place(name, number)))
        ]
        for name in judges
    }


def _attempt(evaluation: Evaluation) -> Attempt:
    why = None if evaluation.score is not None else evaluation.reason_code or "skipped"
    seconds = (evaluation.ended_at - evaluation.started_at).total_seconds()
    return Attempt(evaluation.score, why, evaluation.cost_usd, seconds)


def _write(path: Path, picture: str) -> None:
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); name another file with --plot") from error
