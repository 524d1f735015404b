"""`evalstream compare evaluators`: past evaluations made again by another evaluator or judge, beside the old ones.

The report comes as tables for people, and as JSON for programs.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from collector.calibration.labels import HumanLabel
from collector.commands.replay.comparison import Comparison, EvaluationPair, MeanChange, compare
from collector.commands.replay.people import PeopleComparison, compare_with_people, labels_of_file, labels_of_page
from collector.commands.score.gate import TWO_DEFINITIONS, opposed
from collector.commands.score.output import content_id, read_attempts
from collector.commands.score.runner import MOST_AT_ONCE, RunResult, guarded_run, require_prices, run_jobs
from collector.commands.score.score import limit_message, resume_hint, turns_in
from collector.config.command_options import JudgingOptions, require_known
from collector.config.configured import Config, EvaluatorEntry, without_audits
from collector.config.packs import pack_of
from collector.config.settings import UseSettings
from collector.errors import ConfigError, EvalstreamError
from collector.evaluate.job_builder import command_job
from collector.evaluate.plan import Assignment, Job, Monitor
from collector.judging.batches import at_batch_prices, open_batches
from collector.judging.open_judges import open_judges
from collector.past.evaluations import (
    REPLAY_OF,
    EvaluationFilter,
    PastEvaluation,
    SelectedEvaluations,
    priced_evaluations_in,
    select,
)
from collector.past.turns import Turns, by_conversation, case_of, turns_in_log
from collector.records.audits import audit_outcome
from collector.records.grouping import group_by
from collector.records.json import fields_of
from collector.records.turns import received_together
from collector.service import plan_builder
from collector.service.open_logs import Logs, open_stored_logs
from collector.service.tasks import run_despite_exits
from collector.statistics.agreement import ScoreScale
from collector.telemetry.plain import plain, report_problems, show
from collector.telemetry.wide_console import figures_table, wide_console
from collector.wording import cost_text, percent, plural, usd
from evaluators.batch import results_of
from evaluators.results import Evaluation

if TYPE_CHECKING:
    from evaluators.judges.batches.batch_terms import BatchPace


_REASON = 200
"""Characters of a reason that the table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedEvaluator:
    """One side of a comparison: the evaluator, its judge and their cost (None without a price).

    Of `unpriced` evaluations the cost is unknown, and `cost_usd` is without theirs.
    """

    evaluator: str
    version: str
    judge: str
    cost_usd: float | None
    unpriced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorComparison:
    """One evaluator's past evaluations compared with the new ones.

    `no_score` counts the new evaluations without a score, by their reasons.
    """

    old: ComparedEvaluator
    new: ComparedEvaluator
    comparison: Comparison | None
    people: PeopleComparison
    no_score: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """A whole replay. `unscored`, `gone`, `left`: not evaluated again for lack of an old score, of texts, of money;
    `other_versions`: scores that are left out, as another version of the evaluator or another judge made them;
    `all_in_use`: all others are by a version that is in use.
    """

    comparisons: tuple[EvaluatorComparison, ...]
    other_versions: int
    all_in_use: bool
    unscored: tuple[PastEvaluation, ...]
    gone: int
    left: int
    spent_usd: float


def compared_evaluators(pairs: Iterable[tuple[Evaluation, Evaluation]]) -> tuple[ComparedEvaluator, ComparedEvaluator]:
    """The old and the new side, by the records, each of one version."""
    old, new = zip(*sorted(pairs, key=lambda each: each[0].ended_at), strict=True)
    return _compared_evaluator(old), _compared_evaluator(new)


def _compared_evaluator(evaluations: tuple[Evaluation, ...]) -> ComparedEvaluator:
    newest = evaluations[-1]
    priced = [evaluation for evaluation in evaluations if evaluation.cost_usd is not None]
    # old evaluations with an audit are left out of the cost, as the new ones have none
    alone = [evaluation for evaluation in priced if audit_outcome(evaluation) is None] or priced
    paid = math.fsum(evaluation.cost_usd or 0.0 for evaluation in alone)
    return ComparedEvaluator(
        evaluator=newest.evaluator, version=newest.evaluator_version,
        judge=newest.judge.model if newest.judge else "", cost_usd=paid * (len(priced) / len(alone)) if alone else None,
        unpriced=sum(made.is_unpriced for made in evaluations),
    )  # fmt: skip


def as_json(report: ReplayReport) -> str:
    """One JSON object."""
    document = {
        "evaluators": [_plain(comparison) for comparison in report.comparisons],
        "left_out": {
            "no_old_score": len(report.unscored), "text_is_gone": report.gone, "no_money": report.left,
            "other_versions": report.other_versions,
        },
        "spent_usd": report.spent_usd,
    }  # fmt: skip
    return orjson.dumps(document).decode() + "\n"


_FIGURES = ("pairs", "conversations", "weighted", "mean", "decided", "passing", "same_verdict", "rank_correlation")


def _plain(each: EvaluatorComparison) -> dict[str, Any]:
    comparison = each.comparison
    figures: dict[str, Any] = {"pairs": 0}
    if comparison is not None:
        figures = {
            **fields_of(comparison, *_FIGURES), "pass_to_fail": comparison.to_fail, "fail_to_pass": comparison.to_pass,
            "labels": each.people.labels, "agreement_with_people": each.people.agreement,
            "worst_disagreements": [_plain_pair(pair) for pair in comparison.worst],
        }  # fmt: skip
    return {"old": each.old, "new": each.new, "no_new_score": dict(each.no_score), **figures}


def _plain_pair(pair: EvaluationPair) -> dict[str, Any]:
    old, new = (fields_of(each, "evaluation_id", "score", "explanation") for each in (pair.old, pair.new))
    subject = fields_of(pair.old.subject, "conversation_id", "turn_id", "trace_id")
    return {**subject, "difference": pair.difference, "old": old, "new": new}


def as_text(report: ReplayReport, console: Console) -> None:
    """Print a table per evaluator, and its conclusions."""
    if report.left:
        console.print(f"Only a random part: --max-usd left out {plural(report.left, 'evaluation')}.")
    for comparison in report.comparisons:
        _print(comparison, console, "In this part, the" if report.left else "The")
    for line in _omissions(report):
        console.print(line, highlight=False)


def _print(each: EvaluatorComparison, console: Console, subject_start: str) -> None:
    comparison = each.comparison
    if comparison is None:
        console.print(Text(f"{each.new.evaluator}: no new score{_unscored(each)}"))
        return
    pairs, conversations = plural(comparison.pairs, "pair"), plural(comparison.conversations, "conversation")
    console.print(Text(f"\n{each.new.evaluator}: {pairs} in {conversations}"))
    console.print(Text(f"  old: {_who(each.old)}\n  new: {_who(each.new)}"), soft_wrap=True)
    console.print(_table(each, comparison))
    for line in _conclusions(each, comparison, subject_start):
        console.print(Text(line), soft_wrap=True)
    if comparison.worst:
        console.print("Largest differences:", highlight=False)
    for pair in comparison.worst:
        for line in _difference_lines(pair):
            console.print(Text(line), soft_wrap=True)


def _table(each: EvaluatorComparison, comparison: Comparison) -> Table:
    table = figures_table("", ("old", "new", "difference", "95 % interval"))
    table.add_row("mean score", *comparison.mean.cells)
    if comparison.passing is not None:
        part = "" if comparison.decided == comparison.pairs else f" ({comparison.decided:,} with verdicts)"
        table.add_row(f"passed{part}", *comparison.passing.cells)
    if each.people.agreement is not None:
        table.add_row("agrees with people", *each.people.agreement.cells)
    table.add_row("cost, without audits", *(cost_text(side.cost_usd, side.unpriced) for side in (each.old, each.new)))
    return table


def _who(side: ComparedEvaluator) -> str:
    judge = f"judged by {plain(side.judge)}" if side.judge else "no judge"
    return f"{side.evaluator} (version {side.version}), {judge}"


def _conclusions(each: EvaluatorComparison, comparison: Comparison, subject_start: str) -> Iterator[str]:
    yield _verdict(comparison.mean, subject_start)
    yield each.people.verdict
    if comparison.same_verdict is not None:
        yield same_verdict_text(comparison, comparison.same_verdict)
    if not math.isnan(comparison.rank_correlation):
        weighting = ", not weighted" * comparison.weighted
        yield f"Rank correlation of the scores{weighting}: {comparison.rank_correlation:z.3f}."
    if comparison.weighted:
        yield "Means are weighted by 1 / sampling probability."
    if each.no_score:
        yield f"Without a new score{_unscored(each)}."


def same_verdict_text(comparison: Comparison, share: float) -> str:
    """The share of equal verdicts, and how many changed; it says which of them is weighted."""
    kinds = (" by weight", f"; of {comparison.decided} pairs, unweighted,") if comparison.weighted else ("", ";")
    flips = f"{comparison.to_fail} from pass to fail, {comparison.to_pass} from fail to pass"
    return f"Same verdict at the threshold: {percent(share, 1)}{kinds[0]}{kinds[1]} {flips}."


def _verdict(mean: MeanChange, subject_start: str) -> str:
    if mean.interval is None:
        what = "No interval, which needs at least two conversations that the old version judged"
        return f"{what}; begin earlier with --from, if the old version judged more then."
    low, high = mean.interval
    if low <= 0.0 <= high:
        return f"{subject_start} means do not differ beyond chance."
    return f"{subject_start} new scores are {'higher' if mean.difference > 0 else 'lower'}, beyond chance."


def _unscored(each: EvaluatorComparison) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in each.no_score.items())
    return f": {counts}" if counts else ""


def _difference_lines(pair: EvaluationPair) -> Iterator[str]:
    yield plain(f"  {pair.old.score:.3f} → {pair.new.score:.3f}  {_subject(pair.old)}")
    for side, evaluation in (("old", pair.old), ("new", pair.new)):
        if reason := " ".join((evaluation.explanation or "").split()):
            yield plain(f"      {side}: {reason[:_REASON]}{'…' if len(reason) > _REASON else ''}")


def _subject(evaluation: Evaluation) -> str:
    subject = evaluation.subject
    what = f"turn {subject.turn_id}" if subject.turn_id else f"conversation {subject.conversation_id}"
    return f"{what}, trace {subject.trace_id}" if subject.trace_id else what


_LISTED = 5
"""Omitted evaluations that are named."""


def _omissions(report: ReplayReport) -> Iterator[str]:
    if report.unscored:
        yield f"Omitted for lack of an old score: {plural(len(report.unscored), 'evaluation')}:"
        for omitted in (past.evaluation for past in report.unscored[:_LISTED]):
            yield plain(f"  {omitted.evaluation_id} ({_subject(omitted)}): {_no_score_reason(omitted)}")
        if len(report.unscored) > _LISTED:
            yield f"  and {len(report.unscored) - _LISTED:,} more"
    if report.gone:
        yield f"Omitted, as turns have expired (log.retention): {plural(report.gone, 'evaluation')}."
    if report.other_versions:
        others = plural(report.other_versions, "score")
        yield f"Omitted: {others} of another version or judge; a mean is of one version and judge."
        if report.all_in_use:
            yield "  evalstream rejudge --what all has these answers scored by the present version."
        else:
            yield "  The old side is not in use any more, so no command scores these answers by it."


PastJob = tuple[PastEvaluation, Job]
"""A past evaluation, and the job that makes it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(JudgingOptions):
    """The command's options.

    `selection` selects the evaluations to make again. `by` is the new evaluator if its name differs from the old one's,
    `judge` the judge to use instead of the evaluator's own; both are looked up in the new configuration. `paths` hold
    the turns if they do not come from the log, `labels` hold people's labels if they are not the page's. `max_usd` is
    the limit of judge costs. With `batch` the judges are asked in batches, at a pace.
    """

    selection: EvaluationFilter
    by: str | None = None
    judge: str | None = None
    paths: Sequence[str] = ()
    labels: Path | None = None
    batch: bool = False
    pace: "BatchPace | None" = None


def replay(config: Config, new: Config, options: ReplayOptions) -> int:
    """Evaluate a selection of `config`'s logs again as `new` says; the exit status: 1 if not all could be evaluated.

    Raises:
        ConfigError: there is nothing to evaluate, no evaluator for it, or its texts were never stored.
        EvalstreamError: its texts have expired.
    """
    _check_options(config, options)
    try:
        report, problems = run_despite_exits(_replay(config, new, options))
    except KeyboardInterrupt:
        show(f"evalstream: interrupted{resume_hint(options.output)}", err=True)
        raise
    if options.json:
        show(as_json(report), end="")
    else:
        as_text(report, wide_console())
    return report_problems(problems)


def _check_options(config: Config, options: ReplayOptions) -> None:
    if config.settings.log.kind == "memory":
        raise ConfigError(f"{config.source}: log.kind is memory, so there are no past evaluations; {TWO_DEFINITIONS}")
    if not config.settings.store_text and not options.paths:
        raise ConfigError(
            f"{config.source}: store_text is false, so the texts are not stored and cannot be evaluated again; "
            "name files with the turns, or set store_text: true for future traffic"
        )
    if options.output is not None and options.output.suffix == ".csv":
        raise ConfigError(f"--output: {options.output}: write a name that ends in .jsonl, which a replay can resume")
    if options.by is not None and len(options.selection.evaluators) != 1:
        raise ConfigError("--by: name the one evaluator to compare it with: --evaluator NAME")


async def _replay(config: Config, new: Config, options: ReplayOptions) -> tuple[ReplayReport, Sequence[str]]:
    """The comparison, and what went wrong."""
    async with AsyncExitStack() as stack:
        logs = await stack.enter_async_context(open_stored_logs(config.settings.log))
        past = [judged async for judged in priced_evaluations_in(logs.evaluations)]
        scales = {name: ScoreScale.of(configured.evaluator) for name, configured in config.evaluators.items()}
        selected = select(past, options.selection, scales)
        if not selected.scored:
            raise ConfigError(_nothing(selected))
        names = _names(selected, config, new, options)
        judging = _judging(new, names.values(), options.judge)
        if options.max_usd is not None:
            require_prices(judging, {evaluator.judge for evaluator in judging.evaluators.values() if evaluator.judge})
        batches = stack.enter_context(open_batches(options.batch, options.output, options.pace))
        judges = await stack.enter_async_context(open_judges(judging, await logs.generated_steps(), batches=batches))
        priced = judging if batches is None else at_batch_prices(judging)
        assignments = {
            old: plan_builder.build_assignment(UseSettings(name=name), priced, judges) for old, name in names.items()
        }
        wanted = _of_evaluators(selected, assignments)
        if not options.selection.evaluators:
            wanted = _changed(wanted, assignments, config, new)
        of_all, wanted = wanted, replace(wanted, scored=_of_one_version(wanted.scored, config))
        labels = await _labels(logs, past, assignments, options)
        jobs = _jobs(wanted.scored, await _turns(config, logs, wanted.scored, options), assignments, new)
        if not jobs:
            where = "these files" if options.paths else "the log any more (log.retention)"
            of = plural(len(wanted.scored), "evaluation")
            raise EvalstreamError(f"no turn of the {of} is in {where}; name files that have them")
        run = await stack.enter_async_context(guarded_run(new, from_logs=True))
        _show_expected_cost(priced, jobs, options.output)
        made = await run_jobs(
            [job for _, job in jobs], output=options.output, run=run, max_usd=options.max_usd,
            concurrency=new.settings.evaluate.concurrency if batches is None else MOST_AT_ONCE,
        )  # fmt: skip
        if batches is not None:
            batches.finish()
    all_in_use = _in_use(config).issuperset(map(_version_of, wanted.scored))
    report = _report(wanted, jobs, made, labels, others=len(of_all.scored) - len(wanted.scored), all_in_use=all_in_use)
    return report, list(_problems(report, made, options))


def _nothing(selected: SelectedEvaluations) -> str:
    if not selected.read:
        return f"the evaluations log has no evaluations yet, so there is nothing to evaluate again; {TWO_DEFINITIONS}"
    if count := len(selected.unscored):
        return f"the evaluations log: no score to compare with in {plural(count, 'selected evaluation')}"
    return (
        f"the evaluations log: none of {plural(selected.read, 'evaluation')} is selected; "
        "widen --from and --to, or check --monitor and --evaluator"
    )


def _names(selected: SelectedEvaluations, config: Config, new: Config, options: ReplayOptions) -> dict[str, str]:
    """The new evaluators by the names of the old ones; omits those that were not named and do not exist any more."""
    scopes = {judged.evaluation.evaluator: judged.evaluation.scope for judged in selected.unscored + selected.scored}
    named = {old: options.by or old for old in scopes}
    if options.selection.evaluators:
        require_known(new.source, "evaluator", named.values(), new.evaluators)
    names = {old: name for old, name in named.items() if name in new.evaluators}
    if options.judge is not None and not options.selection.evaluators:
        names = {old: name for old, name in names.items() if new.evaluators[name].evaluator.needs_judge}
    if not names:
        raise ConfigError(f"{new.source}: has none of the selected evaluators: {', '.join(sorted(scopes))}")
    for old, name in names.items():
        now = new.evaluators[name].evaluator
        if now.scope != scopes[old]:
            raise ConfigError(f"{name} scores a {now.scope}, but {old} scores a {scopes[old]}; name another evaluator")
        if why := opposed(config.evaluators.get(old, new.evaluators[name]).evaluator, now):
            raise ConfigError(f"{new.source}: {why}")
    return names


def _judging(new: Config, names: Collection[str], judge: str | None) -> Config:
    """The new configuration with only these evaluators, which ask `judge` if one is named."""
    require_known(f"{new.source}: --judge", "judge", [judge], new.settings.judge_names)
    evaluators: dict[str, EvaluatorEntry] = {}
    for name in names:
        configured = new.evaluators[name]
        if judge is not None and configured.judge is None:
            raise ConfigError(f"--judge: {name} uses no judge; remove --judge or name another evaluator")
        evaluators[name] = replace(configured, judge=judge) if judge is not None else configured
    return without_audits(replace(new, evaluators=evaluators))


async def _turns(config: Config, logs: Logs, past: Sequence[PastEvaluation], options: ReplayOptions) -> Turns:
    if options.paths:
        return by_conversation(received_together(turns_in(options.paths, config)))
    conversations = {judged.evaluation.subject.conversation_id for judged in past}
    return await turns_in_log(logs.turns, conversations, config.settings.assemble.declared_attributes)


async def _labels(
    logs: Logs, past: Sequence[PastEvaluation], assignments: Mapping[str, Assignment], options: ReplayOptions
) -> dict[Hashable, HumanLabel]:
    """People's labels of what these evaluators judged, for the monitors that are compared, as in `calibrate`."""
    scales = {name: ScoreScale.of(assignment.evaluator) for name, assignment in assignments.items()}
    path, monitors = options.labels, options.selection.monitors
    of = EvaluationFilter(monitors=monitors)
    judged = [each.evaluation for each in past if each.evaluation.evaluator in scales and of.matches(each.evaluation)]
    return labels_of_file(path, judged, scales, monitors) if path else await labels_of_page(logs.labels, judged, scales)


def _jobs(
    past: Sequence[PastEvaluation], turns: Turns, assignments: Mapping[str, Assignment], new: Config
) -> list[PastJob]:
    """The jobs; evaluators packed by the new configuration's monitor are asked together."""
    made = (
        (judged, _job(judged.evaluation, turns, _assignment(judged.evaluation, assignments, new))) for judged in past
    )
    return list({job.evaluation_id: (judged, job) for judged, job in made if job is not None}.values())


def _assignment(old: Evaluation, assignments: Mapping[str, Assignment], new: Config) -> Assignment:
    assignment, monitor = assignments[old.evaluator], new.settings.monitors.get(old.monitor)
    pack = pack_of(assignment.evaluator.name, monitor, new.evaluators) if monitor is not None else ()
    return plan_builder.with_pack(assignment, pack, new)


def _changed(
    selected: SelectedEvaluations, assignments: Mapping[str, Assignment], config: Config, new: Config
) -> SelectedEvaluations:
    """The evaluations by other definitions than the new ones: the others would be paid for to make the same again.

    With no second configuration and no other judge all are made again: it shows how steady the judge is.

    Raises:
        ConfigError: the second configuration changes none of them.
    """

    def differs(past: PastEvaluation) -> bool:
        old, version = past.evaluation, past.evaluation.evaluator_version
        if new is not config and old.evaluator in config.evaluators:
            monitor = old.monitor if old.monitor in config.settings.monitors else ""
            version = plan_builder.evaluator_version_in(config, old.evaluator, monitor)
        is_redefined = config.evaluators.get(old.evaluator) != new.evaluators.get(old.evaluator)
        return is_redefined or _assignment(old, assignments, new).version != version

    scored = tuple(filter(differs, selected.scored))
    if not scored and new is config:
        return selected
    failing = _evaluators(filter(differs, selected.unscored)) - _evaluators(selected.scored)
    changed = _of_evaluators(selected, _evaluators(scored) | failing)
    if not (scored or failing):
        same = f"what was judged in this time is defined as in {config.source}"
        raise ConfigError(f"{new.source}: {same}; change some of it, or repeat an evaluator with --evaluator NAME")
    if not scored:
        raise ConfigError(_nothing(changed))
    if same := ", ".join(sorted(_evaluators(selected.scored + selected.unscored) - _evaluators(scored) - failing)):
        show(f"evalstream: left out, as they did not change: {same} (--evaluator includes one)", err=True)
    return replace(changed, scored=scored)


def _of_one_version(scored: Sequence[PastEvaluation], config: Config) -> tuple[PastEvaluation, ...]:
    """Scores by the present versions of each evaluator, which packs make several; without any, by the newest one's."""
    in_use = _in_use(config).intersection(map(_version_of, scored))
    newest = dict(map(_version_of, sorted(scored, key=attrgetter("evaluation.ended_at"))))
    versions = in_use.union(each for each in newest.items() if each[0] not in dict(in_use))
    return tuple(each for each in scored if _version_of(each) in versions)


def _in_use(config: Config) -> set[tuple[str, str]]:
    return {(name, version) for (_, name), version in plan_builder.evaluator_versions(config).items()}


_version_of = attrgetter("evaluation.evaluator", "evaluation.evaluator_version")


def _job(old: Evaluation, turns: Turns, assignment: Assignment) -> Job | None:
    if (case := case_of(old, turns)) is None:
        return None
    monitor = Monitor(name=old.monitor, assignments=(), match={})
    attributes = {**old.attributes, REPLAY_OF: old.evaluation_id}
    return command_job(monitor, assignment, case, sampling=old.sampling.of_subject, attributes=attributes)


def _show_expected_cost(new: Config, all_jobs: Sequence[PastJob], output: Path | None) -> None:
    stored = set(map(content_id, results_of(read_attempts(output))))
    if not (jobs := [each for each in all_jobs if content_id(each[1]) not in stored]):
        return
    by_evaluator = group_by((past.evaluation for past, _ in jobs), lambda old: old.evaluator)
    sides = [_compared_evaluator(tuple(old)) for old in by_evaluator.values()]
    costs = [side.cost_usd for side in sides if side.cost_usd is not None]
    before = f" (the old ones cost {cost_text(sum(costs), sum(side.unpriced for side in sides))})" if costs else ""
    about = f", for roughly {usd(guess)}" if (guess := _expected_usd(jobs, new)) else ""
    if any(plan_builder.known_usd(new, name) is None for name in {job.assignment.evaluator.name for _, job in jobs}):
        about = ", at an unknown cost (a judge has no price)"
    is_same = all(past.evaluation.evaluator_version == job.assignment.version for past, job in jobs)
    same = "; old and new are the same version, so this shows how steady its scores are" if is_same else ""
    show(f"evalstream: making {plural(len(jobs), 'evaluation')} again{about}{before}{same}", err=True)


def _expected_usd(jobs: Sequence[PastJob], new: Config) -> float:
    """The cost by the tokens of old evaluations without an audit, as the new ones have none; else a guess."""
    alone = [each for each in jobs if audit_outcome(each[0].evaluation) is None] or jobs
    uses = ((past.evaluation, job.assignment) for past, job in alone)
    costs = (plan_builder.usd_again(new, use.evaluator.name, old) or use.expected_usd for old, use in uses)
    return sum(costs) * len(jobs) / len(alone)


def _report(
    wanted: SelectedEvaluations, jobs: Sequence[PastJob], made: RunResult, labels: Mapping[Hashable, HumanLabel], *,
    others: int, all_in_use: bool,
) -> ReplayReport:  # fmt: skip
    old_of = {job.evaluation_id: past.evaluation for past, job in jobs}
    scales = {past.evaluation.evaluator: ScoreScale.of(job.assignment.evaluator) for past, job in jobs}
    pairs = [EvaluationPair(old_of[evaluation.evaluation_id], evaluation) for evaluation in made.evaluations]
    # a pack makes a version of its own
    sides = group_by(pairs, lambda pair: (pair.old.evaluator, pair.old.evaluator_version, pair.new.evaluator_version))
    return ReplayReport(
        comparisons=tuple(_replayed(pairs, labels, scales[side[0]]) for side, pairs in sorted(sides.items())),
        other_versions=others,
        all_in_use=all_in_use,
        unscored=wanted.unscored,
        gone=len(wanted.scored) - len(jobs),
        left=made.left,
        spent_usd=made.spent_usd,
    )


def _evaluators(past: Iterable[PastEvaluation]) -> set[str]:
    return {each.evaluation.evaluator for each in past}


def _of_evaluators(selected: SelectedEvaluations, names: Collection[str]) -> SelectedEvaluations:
    both = ([past for past in of if past.evaluation.evaluator in names] for of in (selected.scored, selected.unscored))
    scored, unscored = map(tuple, both)
    return SelectedEvaluations(scored, unscored, selected.read)


def _replayed(
    pairs: Sequence[EvaluationPair], labels: Mapping[Hashable, HumanLabel], scale: ScoreScale
) -> EvaluatorComparison:
    old, new = compared_evaluators((pair.old, pair.new) for pair in pairs)
    without = Counter(_no_score_reason(pair.new) for pair in pairs if pair.new.score is None)
    scored = [pair for pair in pairs if pair.new.score is not None]
    people = compare_with_people(scored, labels, scale)
    return EvaluatorComparison(old=old, new=new, comparison=compare(scored), people=people, no_score=dict(without))


def _no_score_reason(evaluation: Evaluation) -> str:
    return f"failed ({evaluation.error.type})" if evaluation.error is not None else f"skipped ({evaluation.reason})"


def _problems(report: ReplayReport, made: RunResult, options: ReplayOptions) -> Iterator[str]:
    for comparison in report.comparisons:
        if comparison.comparison is None:
            yield f"{comparison.new.evaluator}: nothing could be scored{_unscored(comparison)}"
    if made.left:
        yield limit_message(made, options.max_usd, options.output)
