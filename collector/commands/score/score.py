"""`evalstream score`: the evaluators of a configuration over files, with a progress bar, a table and a minimum mean.

Its cases are every turn, and the conversations of turns with the same id. Its summary has, by evaluator, the mean score
with its interval, and the counts without a score: as a table for people, and as JSON for programs.
"""

import glob
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from rich.table import Table

from collector.assemble.trace import Assembler
from collector.commands.normalize import normalize
from collector.commands.score.configuration import WITHOUT_FILE
from collector.commands.score.gate import GateResult, as_junit, as_markdown, compare_two, compare_with_base, read_base
from collector.commands.score.runner import MOST_AT_ONCE, RunResult, guarded_run, judges_of, require_prices, run_jobs
from collector.config.command_options import JudgingOptions, require_known
from collector.config.configured import Config, without_audits
from collector.errors import ConfigError
from collector.evaluate.failures import REMEDIES, remedy_of
from collector.evaluate.job_builder import command_job
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.judging.batches import at_batch_prices, open_batches
from collector.judging.open_judges import open_judges
from collector.logs.memory import MemoryLog
from collector.past.turns import by_conversation
from collector.records.attributes import with_declared
from collector.records.grouping import group_by
from collector.records.json import fields_of
from collector.records.turns import received_together
from collector.records.whole_conversation import conversation_fields
from collector.service.assembly_builder import build_assembler, link_turns
from collector.service.open_logs import open_logs_for_steps
from collector.service.plan_builder import build_plan, lower_is_better
from collector.service.tasks import run_despite_exits
from collector.statistics.confusion import Confusion, confusions
from collector.statistics.intervals import mean_interval
from collector.telemetry.plain import report_problems, show, to_terminal
from collector.telemetry.wide_console import figures_table, report_text
from collector.wording import cost_text, percent, plural, usd
from evaluators.cases import Conversation, Turn
from evaluators.identity import digest_of
from evaluators.results import Evaluation

if TYPE_CHECKING:
    from evaluators.judges.batches.batch_terms import BatchPace


NONE: Mapping[str, Confusion] = {}
_FIRST = "; the first error: "
_WORDS, _LENGTH = 10, 40
"""The report names at most so many expected outputs that are no label, and so many characters of each."""


@dataclass(slots=True)
class ScoreSummary:
    """One evaluator's evaluations. Scores of one conversation count as dependent in the interval."""

    scored: int = 0
    passed: int = 0
    judged: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    """By reason."""
    failed: Counter[str] = field(default_factory=Counter[str])
    problem: str | None = None
    """The first failure's message; never judged text."""
    cost_usd: float | None = None
    unpriced: int = 0
    """Evaluations whose cost is unknown; `cost_usd` is without theirs."""
    tokens: int = 0
    labels: Counter[str] = field(default_factory=Counter[str])
    """How often each label was chosen that says more than pass and fail."""
    clusters: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """The scores of each conversation."""

    def add(self, evaluation: Evaluation) -> None:
        """Count one evaluation."""
        self.add_cost(evaluation)
        if evaluation.score is not None:
            self.clusters.setdefault(evaluation.subject.conversation_id, []).append(evaluation.score)
            self.scored += 1
            self.judged += evaluation.passed is not None
            self.passed += evaluation.passed is True
            if evaluation.label not in (None, "pass", "fail"):
                self.labels[evaluation.label] += 1
        elif evaluation.outcome == "skipped":
            self.skipped[evaluation.reason or "unknown"] += 1
        else:
            self.failed[evaluation.error.type if evaluation.error else "unknown"] += 1
            self.problem = self.problem or (evaluation.error.message if evaluation.error else None)

    def add_cost(self, evaluation: Evaluation) -> None:
        """Count what an attempt took alone."""
        if evaluation.usage:
            self.tokens += evaluation.usage.input_tokens + evaluation.usage.output_tokens
        if evaluation.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + evaluation.cost_usd
        self.unpriced += evaluation.is_unpriced

    @property
    def failures(self) -> str:
        """How many failed, and why."""
        of = self.scored + self.skipped.total() + self.failed.total()
        return f"{self.failed.total():,} of {of:,} failed ({', '.join(self.failed)}){_FIRST}{self.problem}"

    @property
    def mean(self) -> float | None:
        """The mean score; None without scores. As the sum is exact, a comparison shows the same mean, to all digits."""
        return math.fsum(chain.from_iterable(self.clusters.values())) / self.scored if self.scored else None

    @property
    def error(self) -> float | None:
        """The mean's standard error, by conversation (Taylor linearisation); None below two of them."""
        mean, conversations = self.mean, len(self.clusters)
        if mean is None or conversations < 2:
            return None
        squares = sum((sum(scores) - mean * len(scores)) ** 2 for scores in self.clusters.values())
        return math.sqrt(squares * conversations / (conversations - 1)) / self.scored

    @property
    def interval(self) -> tuple[float, float] | None:
        """The mean's 95 % interval, within [0, 1]; None without scores."""
        if self.mean is None:
            return None
        number = self.scored**2 / sum(len(scores) ** 2 for scores in self.clusters.values())
        return mean_interval(self.mean, self.error or 0.0, number)

    @property
    def pass_share(self) -> float | None:
        """The share of scores that meet the threshold; None without a threshold."""
        return self.passed / self.judged if self.judged else None


def summarize(evaluations: Iterable[Evaluation], before: Iterable[Evaluation] = ()) -> dict[str, ScoreSummary]:
    """The tallies by evaluator, in the order of their first evaluation, with the cost of attempts `before`."""
    by_name: dict[str, ScoreSummary] = {}
    for evaluation in evaluations:
        by_name.setdefault(evaluation.evaluator, ScoreSummary()).add(evaluation)
    for attempt in before:
        if attempt.evaluator in by_name:
            by_name[attempt.evaluator].add_cost(attempt)
    return by_name


def below(summary: ScoreSummary, line: float, *, lower_is_better: bool = False) -> bool:
    """Whether the mean is worse than the line, or is missing. If lower is better, the line is 1 less the given one."""
    return summary.mean is None or (summary.mean > turned(line) if lower_is_better else summary.mean < line)


def turned(line: float) -> float:
    """The line for evaluators whose best score is 0."""
    return round(1.0 - line, 9)


Figures = Sequence[tuple[str, str, object]]
"""Further figures of evaluators, each with its name."""


def as_json(by_evaluator: Mapping[str, ScoreSummary], lower: Collection[str] = (), more: Figures = ()) -> str:
    """One JSON object by evaluator; `lower` are the evaluators for which lower is better."""
    plain = {name: _plain(summary, name in lower) for name, summary in by_evaluator.items()}
    for name, key, figures in more:
        plain[name][key] = figures
    return orjson.dumps(plain).decode() + "\n"


def _plain(summary: ScoreSummary, lower_is_better: bool) -> dict[str, object]:
    return {
        "direction": "lower_is_better" if lower_is_better else "higher_is_better",
        **fields_of(summary, "scored", "mean", "interval", "pass_share", "tokens", "cost_usd", "unpriced"),
        "skipped": summary.skipped.total(),
        "skip_reasons": dict(summary.skipped),
        "failed": dict(summary.failed),
        **({"labels": dict(summary.labels.most_common())} if summary.labels else {}),
    }


def as_table(
    by_evaluator: Mapping[str, ScoreSummary], lower: Collection[str] = (), classified: Mapping[str, Confusion] = NONE
) -> str:
    """A table as text, coloured only on a terminal; `lower` are the evaluators for which lower is better."""
    table = figures_table("evaluator", ("scored", "mean", "95 % interval", "passed", "skipped", "failed", "cost"))
    for name, summary in by_evaluator.items():
        table.add_row(f"{name} (lower is better)" if name in lower else name, *_cells(summary))
    labels = [f"{name}: {_labels(summary)}" for name, summary in by_evaluator.items() if summary.labels]
    return report_text([table, *labels, *(_matrix(name, confusion) for name, confusion in classified.items())])


def _matrix(name: str, confusion: Confusion) -> Table:
    """Expected labels as rows and chosen ones as columns, with precision, recall and F1."""
    title = f"{name}: accuracy {confusion.accuracy:.3f}, macro F1 {confusion.macro_f1:.3f}"
    headings = (*confusion.labels, "precision", "recall", "F1")
    table = figures_table("expected \\ chosen", headings, title=title, title_justify="left")
    for label in confusion.labels:
        cells = (str(confusion.counts.get((label, chosen), 0)) for chosen in confusion.labels)
        table.add_row(label, *cells, *("–" if ratio is None else f"{ratio:.3f}" for ratio in confusion.ratios(label)))
    return table


def left_out_text(name: str, confusion: Confusion, labels: Collection[str]) -> str:
    """The expected outputs that are no label, as a line; "" without any."""
    left_out = sum(confusion.not_labels.values())
    of = f"{left_out:,} of {left_out + sum(confusion.counts.values()):,} expected outputs are no label"
    words = ", ".join(repr(word[:_LENGTH]) for word in sorted(confusion.not_labels)[:_WORDS])
    line = f"{name}: {of}, so accuracy and F1 leave them out: {words} (labels: {', '.join(sorted(labels))})\n"
    return line if left_out else ""


def _labels(summary: ScoreSummary) -> str:
    total = summary.labels.total()
    return ", ".join(f"{label} {count} ({percent(count / total)})" for label, count in summary.labels.most_common())


def _cells(summary: ScoreSummary) -> list[str]:
    interval = summary.interval
    return [
        str(summary.scored),
        "–" if summary.mean is None else f"{summary.mean:.3f}",
        "–" if interval is None else f"{interval[0]:.3f} … {interval[1]:.3f}",
        "–" if summary.pass_share is None else percent(summary.pass_share, 1),
        *("\n".join(f"{n} {why}" for why, n in counts.items()) or "0" for counts in (summary.skipped, summary.failed)),
        cost_text(summary.cost_usd, summary.unpriced),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(JudgingOptions):
    """The command's options. `fail_under` is the mean below which the exit status is 1.

    If lower is better, the status is 1 above a mean of 1 - `fail_under`.

    `max_usd` is the limit of this run's judge costs. `worst` is how many of the worst answers are printed. `against`
    are the results of a base run, compared case by case: the exit status is 1 where an evaluator is worse for sure, by
    more than `tolerance`. With `batch` the judges are asked in batches, at a pace.
    """

    paths: Sequence[str]
    evaluators: Sequence[str] = ()
    fail_under: float | None = None
    worst: int = 0
    against: Path | None = None
    tolerance: float = 0.0
    junit: Path | None = None
    markdown: Path | None = None
    batch: bool = False
    pace: "BatchPace | None" = None


def score(config: Config, options: ScoreOptions) -> int:
    """Score files; returns the exit status: 1 where a mean is below `fail_under`, or an evaluation failed."""
    base = None if options.against is None else read_base(options.against)
    turns = list(turns_in(options.paths, config))
    if not turns:
        raise ConfigError(f"{', '.join(options.paths)}: no turns found; evalstream turns --explain FILE shows why")
    _note_duplicates(turns)
    reports = list[str]()
    try:
        made = run_despite_exits(_score(config, options, turns, reports))
    except KeyboardInterrupt:
        show(f"evalstream: interrupted{resume_hint(options.output)}", err=True)
        raise
    by_evaluator = summarize(made.evaluations, made.failed_before)
    lower = lower_is_better(config)
    labels = {name: frozenset(configured.evaluator.label_names) for name, configured in config.evaluators.items()}
    expected = {turn.turn_id: turn.expected_output or "" for turn in turns}
    classified = dict(confusions(made.evaluations, labels, expected))
    more: list[tuple[str, str, object]] = [
        (name, "classification", {**confusion.as_json(), "not_labels": confusion.not_labels})
        for name, confusion in classified.items()
    ]
    gate, text = list[GateResult](), as_table(by_evaluator, lower, classified)
    text += "".join(left_out_text(name, confusion, labels[name]) for name, confusion in classified.items())
    if base is not None:
        gate = compare_with_base(base, made.evaluations, tolerance=options.tolerance, lower_is_better=lower)
    elif len(names := options.evaluators) == 2:
        both, line = compare_two(made.evaluations, *(config.evaluators[name].evaluator for name in names))
        text += line
        if both is not None:
            more.append((names[1], "comparison", {"compared_with": names[0], **fields_of(both, "pairs", "mean")}))
    for result in gate:
        paired = fields_of(result.comparison, "pairs", "mean") if result.comparison else {"pairs": 0}
        more.append((result.evaluator, "comparison", {"verdict": result.verdict, **paired}))
        text += f"{result.evaluator}: {result.text}\n"
    for line in _worst(made.evaluations, turns, options.worst, lower):
        text += line.replace("\n", f"\n{' ' * 12}") + "\n"
    show(as_json(by_evaluator, lower, more) if options.json else text, end="")
    problems = dict(_problems(config, by_evaluator, options, lower))
    alone = (GateResult(evaluator=name, scored=of.scored, mean=of.mean) for name, of in by_evaluator.items())
    rows = [replace(result, **problems[result.evaluator]) for result in gate or alone]
    of_run = [limit_message(made, options.max_usd, options.output)] if made.left else []
    if gate and all(result.verdict == "no pairs" for result in gate):
        of_run.append(f"{options.against}: no case has a score in both runs; is it of the same files and evaluators?")
    _write_reports(options, [*rows, *(GateResult(evaluator="the whole run", problem=text) for text in of_run)])
    failures = ((row.evaluator, _brief(row.failure, by_evaluator[row.evaluator].problem, reports)) for row in rows)
    return report_problems([*(f"{name}: {failure}" for name, failure in failures if failure), *of_run])


def _brief(failure: str, cause: str | None, reports: Sequence[str]) -> str:
    """A failure without its cause, if a line about the judge has said it, with the remedy."""
    return failure.partition(_FIRST)[0] if cause and any(cause in report for report in reports) else failure


def _worst(
    evaluations: Iterable[Evaluation], turns: Sequence[Turn], most: int, lower: Collection[str]
) -> Iterator[str]:
    """The worst answers of each evaluator with their questions, scores and reasons."""
    by_id, conversations = {turn.turn_id: turn for turn in turns}, by_conversation(received_together(turns))
    scored = [(each.score, each) for each in evaluations if each.score is not None]
    for name, own in group_by(scored, lambda item: item[1].evaluator).items():
        for score, evaluation in sorted(own, key=lambda item: -item[0] if name in lower else item[0])[:most]:
            subject = evaluation.subject
            yield ""
            yield f"{name}: {score:g} ({subject.id})"
            turn_id, conversation = subject.turn_id, subject.conversation_id
            for turn in (by_id[turn_id],) if turn_id else conversations[conversation].values():
                yield from (f"  question  {turn.input}", f"  answer    {turn.actual_output}")
            yield f"  reason    {evaluation.explanation or 'none'}"


def _write_reports(options: ScoreOptions, results: Sequence[GateResult]) -> None:
    junit, markdown = as_junit(results), as_markdown(results).encode()
    for option, path, content in (("--junit", options.junit, junit), ("--markdown", options.markdown, markdown)):
        if path is not None:
            try:
                path.write_bytes(content)
            except OSError as error:
                remedy = f"name another file with {option}"
                raise ConfigError(f"{path}: cannot be written ({error.strerror}); {remedy}") from error


def resume_hint(output: Path | None) -> str:
    """How to continue an unfinished run, if its results are in a file."""
    resumable = output is not None and output.suffix != ".csv"
    return f"; run the same command again to resume from {output}" if resumable else ""


def limit_message(made: RunResult, max_usd: float | None, output: Path | None) -> str:
    """The message of a run that stopped at its spending limit."""
    done = f"{len(made.evaluations):,} of {plural(len(made.evaluations) + made.left, 'evaluation')} done"
    if max_usd is not None and made.next_usd > max_usd:  # another run would come no further
        return f"--max-usd {max_usd:g} must be above {usd(made.next_usd)}, the price of the next evaluation: {done}"
    return f"--max-usd {max_usd:g} pays for no more: {done}{resume_hint(output)}"


def turns_in(paths: Sequence[str], config: Config) -> Iterator[Turn]:
    """The turns of files, directories and globs; `-` is standard input, read like a .jsonl file."""
    settings = config.settings.assemble
    for turn in link_turns(_unlinked(paths, build_assembler(settings, config.settings.dialects)), settings):
        yield with_declared(turn, settings.declared_attributes)


def _unlinked(paths: Sequence[str], assembler: Assembler) -> Iterator[Turn]:
    for path in paths:
        matches = sorted(glob.glob(path)) if glob.has_magic(path) else [path]  # noqa: PTH207 - any path, absolute ones too
        if not matches:
            raise ConfigError(f"{path}: no file matches")
        yield from normalize([Path(match) for match in matches], assembler)


async def _score(config: Config, options: ScoreOptions, turns: Sequence[Turn], reports: list[str]) -> RunResult:
    """Make the evaluations; `reports` gets the lines about judges."""

    def report(text: str) -> None:
        reports.append(text)
        to_terminal(text)

    async with open_logs_for_steps(config.settings) as logs:
        definitions = await logs.generated_steps()
        async with AsyncExitStack() as stack:
            batches = stack.enter_context(open_batches(options.batch, options.output, options.pace))
            judges = await stack.enter_async_context(open_judges(config, definitions, batches=batches, report=report))
            run = await stack.enter_async_context(guarded_run(config, from_logs=False))
            plan = build_plan(without_audits(config if batches is None else at_batch_prices(config)), judges)
            require_known("--evaluator", "evaluator", options.evaluators, config.evaluators)
            assignments, runs = _assignments(plan, options.evaluators), _of_agent_runs(plan)
            if options.max_usd is not None:
                require_prices(config, judges_of(config, assignments))
            made = await run_jobs(
                list(jobs_of(turns, assignments, tuple(config.settings.assemble.declared_attributes), runs)),
                output=options.output,
                concurrency=config.settings.evaluate.concurrency if batches is None else MOST_AT_ONCE,
                run=run,
                max_usd=options.max_usd,
            )
            if batches is not None:
                batches.finish()
            if definitions.added and config.settings.log.kind != "memory" and isinstance(logs.definitions, MemoryLog):
                to_terminal(
                    f"the judge wrote the evaluation steps of {plural(definitions.added, 'evaluator')} for this run "
                    "alone, and the next run gets other steps; to keep them, set log.path, or write evaluation_steps"
                )
            return made


def _of_agent_runs(plan: Plan) -> Mapping[str, frozenset[bool]]:
    """By evaluator, whether its monitors watch runs of agents, turns, or, some of them, both."""
    uses = [(use.evaluator.name, monitor.agent_runs) for monitor in plan.monitors for use in monitor.assignments]
    return {name: frozenset(runs for other, runs in uses if other == name) for name, _ in uses}


def _assignments(plan: Plan, named: Sequence[str]) -> list[Assignment]:
    """The named evaluators; without names all that some monitor uses, each once."""
    every = {assignment.evaluator.name: assignment for monitor in plan.monitors for assignment in monitor.assignments}
    return [every[name] for name in (named or every)]


def _problems(
    config: Config, by_evaluator: dict[str, ScoreSummary], options: ScoreOptions, lower: Collection[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """The problems of each evaluator, and which evaluations failed, as fields of its `GateResult`."""
    for name, summary in by_evaluator.items():
        problem, failed, line = "", "", options.fail_under
        if summary.failed:
            judge, has_file = config.evaluators[name].judge or "<name>", config.source != WITHOUT_FILE
            advice = _advice(next(iter(summary.failed)), summary.failures, judge, has_file=has_file)
            extent, again = ("not all", resume_hint(options.output)) if summary.scored else ("nothing", "")
            failed = f"{extent} could be scored: {summary.failures}{advice}{again}"
        if (summary.scored or not failed) and line is not None and below(summary, line, lower_is_better=name in lower):
            problem = _shortfall(summary, line, name in lower)
        yield name, {"problem": problem, "failed": failed}


def _advice(kind: str, message: str, judge: str, *, has_file: bool = True) -> str:
    if not kind.startswith("judge"):
        return "; mend the evaluator's code: its pytest shows the traceback" if kind == "internal_error" else ""
    remedy = remedy_of(kind, message, judge) if kind in REMEDIES else None
    variables = "OPENAI_BASE_URL, OPENAI_MODEL and OPENAI_API_KEY"
    keys = f"base_url, model and api_key of judges.{judge}" if has_file else variables
    return f"; {remedy or f'check {keys}'}"


def _shortfall(summary: ScoreSummary, line: float, lower_is_better: bool) -> str:
    if not summary.scored:
        return "nothing was scored"
    if lower_is_better:
        return f"mean {summary.mean:.3f} is above {turned(line):g}, which is 1 less {line:g}, as lower is better"
    return f"mean {summary.mean:.3f} is below {line:g}"


def _note_duplicates(turns: Sequence[Turn]) -> None:
    """Turns are known by their ids, so only the last of several with the same id is evaluated."""
    counts = Counter(turn.turn_id for turn in turns)
    if twice := [each for each, count in counts.items() if count > 1]:
        to_terminal(
            f"turn_id {twice[0]!r} occurs {plural(counts[twice[0]], 'time')}; of turns with the same id only the last "
            f"is evaluated ({len(turns) - len(counts):,} left out); give each its own, or none"
        )


def jobs_of(
    turns: Iterable[Turn],
    assignments: Sequence[Assignment],
    declared: tuple[str, ...] = (),
    of_agent_runs: Mapping[str, Collection[bool]] | None = None,
) -> Iterator[Job]:
    """Every evaluation to be made: each evaluator on each turn, or on each conversation, once.

    `declared` are the names of the application's own attributes, `of_agent_runs` says by evaluator whether it scores
    the runs of agents inside turns, turns (unless it says otherwise), or both.
    """
    watched = of_agent_runs or {}
    monitor = Monitor(name="score", assignments=(), match={}, attributes=declared)
    of_turns = [assignment for assignment in assignments if assignment.evaluator.scope == "turn"]
    of_conversations = [assignment for assignment in assignments if assignment.evaluator.scope == "conversation"]
    members: list[Turn] = []
    for turn in turns:
        is_run = turn.agent_run_of is not None
        if of_conversations and not is_run:
            members.append(turn)
        digest = digest_of(turn) if of_turns else ""
        for assignment in (one for one in of_turns if is_run in watched.get(one.evaluator.name, (False,))):
            yield command_job(monitor, assignment, turn, digest=digest)
    for conversation_id, by_id in by_conversation(received_together(members)).items():
        ordered = tuple(by_id.values())
        conversation = Conversation(
            **conversation_fields(ordered), conversation_id=conversation_id, turns=ordered, closed_by="end_of_file"
        )
        attributes, digest = {"closed_by": conversation.closed_by}, digest_of(conversation)
        for assignment in of_conversations:
            yield command_job(monitor, assignment, conversation, attributes=attributes, digest=digest)
