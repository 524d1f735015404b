"""`evalstream compare judges`: an evaluator through several judges on labelled cases, and which of them is enough.

The cases are turns or conversations of a file, each with what people say of it. The figures of the judges come as a
table with a conclusion, or as JSON.
"""

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import orjson
from rich.table import Table

from collector.calibration.label_lines import CASE_EXAMPLE, LabelLine, case_of_line, label_lines
from collector.calibration.labels import HumanLabel, by_subject, evaluations_by_id, label_of_answer, label_of_line
from collector.commands.judges.bench import Attempt, Bench, Figure, JudgedCase, JudgeFigures, LossScale, bench
from collector.commands.score.runner import RunResult, guarded_run, require_prices, run_jobs
from collector.commands.score.score import limit_message
from collector.config.command_options import JudgingOptions, require_known
from collector.config.configured import Config, EvaluatorEntry
from collector.errors import ConfigError
from collector.evaluate.job_builder import command_job
from collector.evaluate.plan import Assignment, Job, Monitor
from collector.judging.layers import without_answer_cache
from collector.judging.open_judges import open_judges
from collector.past.evaluations import evaluations_in, key_of
from collector.records.grouping import group_by
from collector.service.open_logs import open_logs_for_steps, open_stored_logs
from collector.service.plan_builder import expected_usd
from collector.service.tasks import run_despite_exits
from collector.statistics.agreement import FEWEST, ScoreScale
from collector.telemetry.plain import report_problems, show
from collector.telemetry.wide_console import figures_table, report_text
from collector.wording import at_most, listed, plural
from evaluators.cases import Conversation, Turn
from evaluators.identity import conversation_id_of, digest_of, judged_version, make_evaluation_id, subject_id_of
from evaluators.judge import Judge
from evaluators.results import Evaluation


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """A case, and what people say of it; of several lines about it the first."""

    line: LabelLine
    case: Turn | Conversation
    label: HumanLabel


def labelled_cases(
    lines: Iterable[LabelLine], path: Path, past: Sequence[Evaluation], scale: ScoreScale
) -> list[LabelledCase]:
    """The answers that the lines are about, each once, with people's label as `compare evaluators` counts it. `past`
    are the evaluations of the log.

    Raises:
        ConfigError: a line has no turn or conversation.
    """
    known, lower = evaluations_by_id(past), scale.lower_is_better
    labels = [(line, label_of_line(line, known, lower_is_better=lower)) for line in lines]
    logged = by_subject([label for _, label in labels], past)
    cases = [LabelledCase(line, case_of_line(line, path), label) for line, label in labels]
    answers = group_by(cases, lambda one: key_of(known[one.label.name]) if one.label.name else _answer(one))
    return [replace(about[0], label=logged.get(key) or _label(about)) for key, about in answers.items()]


def _answer(of: LabelledCase) -> Hashable:
    """The same for all lines about an answer that is not in the log. A line without an id is about its own."""
    row = of.line.row
    if row.turn_id or (row.conversation_id and isinstance(of.case, Conversation)):
        return subject_id_of(of.case), row.conversation_id, digest_of(replace(of.case, attributes={}))
    return row.evaluation_id or of.line.number


def _label(about: Sequence[LabelledCase]) -> HumanLabel:
    """People's label of an answer that is not in the log."""
    labels = [replace(one.label, name=one.line.row.evaluation_id or "") for one in about]
    draws = len({label.name for label in labels if label.probability is not None})
    return replace(label_of_answer(labels, draws), weight=min(label.weight for label in labels))


def representative(cases: Sequence[LabelledCase]) -> tuple[list[LabelledCase], int]:
    """The cases that were drawn, if these are enough, else all; and how many are left out. See `weighted_pairs`."""
    at_random = [case for case in cases if case.label.probability is not None]
    return (at_random, len(cases) - len(at_random)) if len(at_random) >= FEWEST else (list(cases), 0)


_CHOICES = {"best": "best", "enough": "enough", "open": "open", "worse": "worse", "silent": "too few"}


def as_json(result: Bench, cases: int) -> str:
    """One JSON object."""
    return orjson.dumps({"cases": cases, **asdict(result)}).decode() + "\n"


def as_text(result: Bench, cases: int) -> str:
    """A row for each judge, and what follows."""
    return report_text([_table(result, cases), *_conclusions(result)])


def _table(result: Bench, cases: int) -> Table:
    names = ("scored", "agreement", "behind", "again", "USD/1k", "s")
    why = f"as {result.evaluator} has no verdicts, agreement and again are 1 minus the mean distance of scores"
    title = f"{result.evaluator}: {plural(cases, 'labelled case')}{'' if result.verdicts else f'; {why}'}"
    table = figures_table("judge", names, title=title, whole=True, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for figures in result.figures:
        again, cost, seconds = figures.repeatability, figures.cost_usd, figures.seconds
        table.add_row(
            figures.judge, f"{figures.scored}/{figures.cases}", _figure(figures.agreement), _behind(figures.behind),
            f"{again.value:z.2f}" if again else "–", f"{1000 * cost.value:.3g}" if cost else "–",
            "–" if seconds is None else f"{seconds:.2f}", _CHOICES[figures.choice],
        )  # fmt: skip
    return table


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    if figure.interval is None:
        return f"{figure.value:z.2f}"
    lowest, highest = figure.interval
    return f"{figure.value:z.2f} ({lowest:z.2f}…{highest:z.2f})"


def _behind(figure: Figure | None) -> str:
    """With its upper end alone, as the margin is compared with that."""
    if figure is None or figure.interval is None:
        return _figure(figure)
    return f"{figure.value:z.2f} (≤{at_most(max(0.0, figure.interval[1]))})"


def _conclusions(result: Bench) -> Iterator[str]:
    for figures in result.figures:
        if figures.failures:
            reasons = (f"{count} {reason}" for reason, count in sorted(figures.failures.items()))
            yield f"{figures.judge}: no score in some attempts: {', '.join(reasons)}"
    if result.take is None:
        if any(figures.choice == "open" for figures in result.figures):
            unjudged = any(figures.scored < figures.cases and not figures.failures for figures in result.figures)
            takes = f"a --margin of {result.margin:g} takes {plural(result.fewest, 'case')}"
            more = "Raise --max-usd" if unjudged else "Label more"
            yield f"No verdict yet: {takes}. {more}, or allow a larger margin."
        return
    chosen = next(figures for figures in result.figures if figures.judge == result.take)
    yield f"Take {chosen.judge}: {_why(chosen, result)}"
    undecided = [figures.judge for figures in result.figures if figures.choice == "open"]
    if undecided:
        yield f"These cases do not decide about {listed(undecided)}: label more, or allow a larger --margin."


def _why(chosen: JudgeFigures, result: Bench) -> str:
    fit = [figures for figures in result.figures if figures.choice in ("best", "enough")]
    best = next(figures for figures in fit if figures.choice == "best")
    behind = chosen.behind.interval[1] if chosen.behind is not None and chosen.behind.interval is not None else 0.0
    reason = f"it is at most {at_most(max(0.0, behind), 3)} behind {best.judge} (95 %; allowed {result.margin:g})"
    if chosen is best:
        reason = "it agrees with people best"
    if len(fit) == 1:
        return f"{reason}, and no other one is proven to be enough."
    if unpriced := [figures.judge for figures in fit if figures.cost_usd is None]:
        fastest = ", and is the fastest that is enough" * (len(unpriced) == len(fit))
        remedy = "set usd_per_million_input_tokens and usd_per_million_output_tokens to learn which is cheapest"
        return f"{reason}{fastest}. The price of {listed(unpriced)} is unknown: {remedy}."
    if chosen is best:
        return f"{reason}, and none that is enough is cheaper."
    if chosen.cost_usd is not None and best.cost_usd is not None and best.cost_usd.value:
        reason = f"{reason}, at {chosen.cost_usd.value / best.cost_usd.value:.0%} of its price"
    return f"{reason}."


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgesOptions(JudgingOptions):
    """The command's options. Each judge judges each case `repeat` times.

    `margin` is by how much a judge may agree less with people than the best one. Without names all suitable judges
    are asked.
    """

    file: Path
    evaluator: str | None = None
    judges: Sequence[str] = ()
    repeat: int = 2
    margin: float = 0.05


def compare_judges(config: Config, options: JudgesOptions) -> int:
    """Run the bench and print it; returns the exit status: 1 where nothing was scored, or a limit was reached.

    Raises:
        ConfigError: a name is unknown, or a file cannot be used.
    """
    lines = label_lines(options.file, CASE_EXAMPLE, remedy="; name another with --file")
    name = _evaluator(config, options, lines)
    configured = config.evaluators[name]
    own = [line for line in lines if line.evaluator in (None, name)]
    past, scale = asyncio.run(_past(config, name)), ScoreScale.of(configured.evaluator)
    if unknown := _of_unknown_monitors(own, past):
        what = f"{plural(len(unknown), 'drawn label')} of no evaluation in the log of this configuration"
        why = "so answers that several monitors judge may weigh wrong; set `log` to the service's"
        show(f"evalstream: {what}, {why}, or use lines of labels next --monitor", err=True)
    cases, picked = representative(labelled_cases(own, options.file, past, scale))
    if picked:
        show(f"evalstream: left out {plural(picked, 'case')} that somebody picked: the others were drawn", err=True)
    judges = _judges(config, name, options)
    _check_scope(configured, cases, options.file)
    if options.max_usd is not None:
        require_prices(config, judges)
    made, result = run_despite_exits(_run(config, name, judges, cases, options))
    show((as_json if options.json else as_text)(result, len(cases)), end="")
    problems = [limit_message(made, options.max_usd, options.output)] if made.left else []
    if all(figures.choice == "silent" for figures in result.figures):
        problems.append("no judge could score enough of the cases; the failures are in the table")
    return report_problems(problems)


def _of_unknown_monitors(lines: Sequence[LabelLine], past: Sequence[Evaluation]) -> list[LabelLine]:
    """The drawn lines whose weight may depend on monitors that neither the file nor the log has."""
    known, tasks = evaluations_by_id(past).keys(), [line for line in lines if line.row.label_probability is not None]
    unknown = [line for line in tasks if line.row.evaluation_id and known.isdisjoint(line.row.names)]
    monitors = {line.fields.get("monitor") for line in tasks}
    return unknown if len(monitors) > 1 or None in monitors else []


async def _past(config: Config, name: str) -> list[Evaluation]:
    async with open_stored_logs(config.settings.log, needed=False) as logs:
        return [one.evaluation async for one in evaluations_in(logs.evaluations) if one.evaluation.evaluator == name]


def _evaluator(config: Config, options: JudgesOptions, lines: Sequence[LabelLine]) -> str:
    asking = [name for name, evaluator in config.evaluators.items() if evaluator.judge is not None]
    if options.evaluator is not None:
        require_known("--evaluator", "evaluator", [options.evaluator], config.evaluators)
        if options.evaluator not in asking:
            raise ConfigError(f"--evaluator: {options.evaluator} uses no judge; name one that does")
        return options.evaluator
    named = sorted({line.evaluator for line in lines if line.evaluator in asking}) or asking
    if len(named) != 1:
        raise ConfigError(f"--evaluator: is missing; name one of {', '.join(named) or 'no evaluator asks a judge'}")
    return str(named[0])


def _judges(config: Config, evaluator: str, options: JudgesOptions) -> list[str]:
    """The judges to compare: those that are named, else all that can answer this evaluator's questions."""
    settings, writes = config.settings, config.evaluators[evaluator].evaluator.needs_writer
    if options.judges:
        require_known("--judge", "judge", options.judges, settings.judge_names)
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


def _check_scope(configured: EvaluatorEntry, cases: Sequence[LabelledCase], path: Path) -> None:
    scope = configured.evaluator.scope
    if any((scope == "conversation") != hasattr(case.case, "turns") for case in cases):
        raise ConfigError(f"{path}: {configured.evaluator.name} scores a {scope}; give it cases of that kind alone")
    if not cases:
        raise ConfigError(f"{path}: has no labels of {configured.evaluator.name}; name another with --evaluator")


_Place = tuple[str, int]
"""The judge and the number of the case that an evaluation is of."""


async def _run(
    config: Config, name: str, judges: Sequence[str], cases: Sequence[LabelledCase], options: JudgesOptions
) -> tuple[RunResult, Bench]:
    configured = config.evaluators[name]
    # each judge is opened for a separate evaluator, with the layers that it has in the service
    every = replace(config, evaluators={judge: replace(configured, judge=judge) for judge in judges})
    async with open_logs_for_steps(config.settings) as logs:
        definitions = await logs.generated_steps()
        async with open_judges(every, definitions) as opened, guarded_run(config, from_logs=False) as run:
            opened_judges = {judge: without_answer_cache(opened[judge]) for judge in judges}
            jobs = list(_jobs(every, opened_judges, cases, options.repeat))
            made = await run_jobs(
                [job for job, _ in jobs], output=options.output, concurrency=config.settings.evaluate.concurrency,
                run=run, max_usd=options.max_usd,
            )  # fmt: skip
            models = {each: judge.model for each, judge in opened_judges.items()}
    places = {job.evaluation_id: place for job, place in jobs}
    scale = LossScale(ScoreScale.of(configured.evaluator), configured.evaluator.has_verdicts)
    return made, bench(name, models, _judged(made.evaluations, places, judges, cases, scale), scale, options.margin)


def _jobs(
    config: Config, judges: Mapping[str, Judge], cases: Sequence[LabelledCase], repeat: int
) -> Iterator[tuple[Job, _Place]]:
    """Every attempt, case by case, so that all judges meet the same load."""
    monitor = Monitor(name="judges", assignments=(), match={})
    evaluator = next(iter(config.evaluators.values())).evaluator
    assignments = {
        name: Assignment(
            evaluator=evaluator, judge=judge, version=judged_version(evaluator, judge.model),
            expected_usd=expected_usd(config, name), judge_name=name,
        )
        for name, judge in judges.items()
    }  # fmt: skip
    for number, labelled in enumerate(cases):
        subject, revision = subject_id_of(labelled.case)
        make_job = partial(command_job, case=labelled.case, digest=digest_of(labelled.case))
        for attempt in range(repeat):
            for name, assignment in assignments.items():
                parts = (assignment.version, f"{name}\x1f{assignment.judge.model}", subject)
                evaluation_id = make_evaluation_id(evaluator.name, *parts, f"{revision}\x1f{number}\x1f{attempt}")
                yield make_job(monitor, assignment, evaluation_id=evaluation_id), (name, number)


def _judged(
    evaluations: Sequence[Evaluation], places: Mapping[str, _Place], judges: Sequence[str],
    cases: Sequence[LabelledCase], scale: LossScale,
) -> dict[str, list[JudgedCase]]:  # fmt: skip
    """The attempts by judge and case."""
    attempts: dict[_Place, list[Attempt]] = {}
    for evaluation in evaluations:
        attempts.setdefault(places[evaluation.evaluation_id], []).append(_attempt(evaluation, scale))
    return {
        name: [_judged_case(n, case, made) for n, case in enumerate(cases) if (made := attempts.get((name, n)))]
        for name in judges
    }


def _judged_case(number: int, case: LabelledCase, attempts: Sequence[Attempt]) -> JudgedCase:
    people, cluster = case.label.weighted(), conversation_id_of(case.case)
    return JudgedCase(str(number), cluster, people.human, attempts, people.weight, people.divided)


def _attempt(evaluation: Evaluation, scale: LossScale) -> Attempt:
    score = evaluation.score if not scale.verdicts or scale.scale.decides(evaluation.passed) else None
    none = evaluation.reason_code or ("skipped" if evaluation.score is None else "no_verdict")
    seconds = (evaluation.ended_at - evaluation.started_at).total_seconds()
    return Attempt(score, none if score is None else None, evaluation.cost_usd, seconds, evaluation.passed)
