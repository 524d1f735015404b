"""The commands. Each imports its modules when it runs, so that `evalstream --help` answers at once."""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeVar, cast

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from collector.commands.usage import usage_sentence
from collector.errors import FAILED, WRONG, ConfigError, EvalstreamError
from collector.telemetry.plain import show

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Mapping

    from collector.config.configured import Config

Options = TypeVar("Options")

COMMANDS = {
    "Run it": ("demo", "init", "check", "run", "rules", "mcp"),
    "Look at it": ("audit", "explain", "diagnose", "gate", "dead-letters"),
    "Try an evaluator": ("turns", "score", "compare", "rejudge", "dataset", "plan"),
    "People's labels": ("labels", "calibrate", "align"),
    "Move data": ("fetch", "export", "log", "erase"),
}
"""The commands by what one wants, in the order of `evalstream --help`."""

USUAL_WAYS = {
    "Run it": "A new service: init, then check, then run.",
    "Look at it": "A fall in scores: diagnose, then explain one evaluation.",
    "Try an evaluator": "A new criterion: score, then compare evaluators, then rejudge.",
    "People's labels": "From labels to a better evaluator: labels next, then calibrate, then align.",
}


_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class GroupedCommands(TyperGroup):
    """The root command, whose help lists the commands under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click passes it
        """Write a section for each heading."""
        width = max(map(len, self.commands))
        for heading, names in COMMANDS.items():
            with formatter.section(heading):
                limit = formatter.width - 6 - width
                if heading in USUAL_WAYS:
                    formatter.write_text(USUAL_WAYS[heading])
                formatter.write_dl(
                    [(f"{name:<{width}}", self.commands[name].get_short_help_str(limit)) for name in names]
                )

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the options before the command."""
        with self._in_a_sentence():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Read the rest of the command line and run the command."""
        with self._in_a_sentence():
            return super().invoke(ctx)

    @contextmanager
    def _in_a_sentence(self) -> Generator[None]:
        """Make one sentence of what the parser says; a command without its words prints its help."""
        try:
            yield
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                raise
            raise ConfigError(usage_sentence(error, self.commands)) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; a second configuration file is refused."""
        if sum(word.partition("=")[0] in ("-c", "--config") for word in args[1:]) > 1:
            raise ConfigError("-c is given twice, and one file is read; keep one")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=GroupedCommands,
    name="evalstream",
    help="Evaluate live LLM traffic: OpenTelemetry traces in, scores out as OpenTelemetry and Prometheus.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich looks no better in a terminal and doubles the start-up time
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _group(name: str, text: str) -> typer.Typer:
    """A command that has commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name, help=text)
    return group


comparisons = _group("compare", "Compare evaluators, judges, or releases of the application.")
plans = _group("plan", "Plan the sampling for an error, or the targets of alerts.")
letters = _group("dead-letters", "List and reprocess records that failed.")
label_commands = _group("labels", "Evaluations that people should label next, drawn at random.")
exports = _group("export", "Send evaluations again, or write them as Parquet files.")
logs = _group("log", "Copy the logs to another file or cluster.")


def _file(text: str, *names: str) -> Any:
    """An option that names a file. Typer does not check it: the command says in one sentence what is wrong."""
    return Option(*names, help=text, readable=False)


def _labels(lines: str) -> Any:
    return Argument(help=f"JSONL: {lines}; the page's labels by default.", readable=False)


ConfigFile = Annotated[
    Path, Option("--config", "-c", help="The configuration file.", show_default=True, readable=False)
]
DEFAULT_CONFIG = Path("evalstream.yaml")
Json = Annotated[bool, Option("--json", help="Print JSON.")]
_FROM = Option("--from", help="Start: a time like 2026-11-20T09:00 (UTC), or a duration before now like 24h.")
Since = Annotated[str, _FROM]
MaybeSince = Annotated[str | None, _FROM]
Until = Annotated[str | None, Option("--to", help="End (exclusive), written in the same way; now by default.")]
EvaluatorNames = Annotated[list[str] | None, Option("--evaluator", help="Only this evaluator; repeatable.")]
Monitors = Annotated[list[str] | None, Option("--monitor", help="Only this monitor; repeatable.")]
OneMonitor = Annotated[str | None, Option(help="Only this monitor.")]
TheMonitor = Annotated[str | None, Option(help="The monitor; the only one by default.")]
RandomLabels = Annotated[bool, Option(help="The labelled evaluations were drawn with equal chances.")]
DryRun = Annotated[bool, Option("--dry-run", help="Show number and cost; request nothing.")]
Batch = Annotated[bool, Option("--batch", help="Ask in providers' batches: half the price, in a day; needs --output.")]
MaxUsd = Annotated[float | None, Option("--max-usd", min=0, help="Stop before judge costs exceed this.")]


def main() -> None:
    """Run a command; every error becomes one sentence on stderr and the right exit status."""
    _open_what_is_closed()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except ConfigError as error:
        sys.exit(_say(error, WRONG))
    except EvalstreamError as error:
        sys.exit(_say(error, FAILED))
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.filename is not None:  # a name too long, say
            sys.exit(_say(f"{error.filename}: {error.strerror}; name another file", WRONG))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is not yet written would fail again at the end
        if error.errno == errno.EPIPE:  # the reader of our output has gone, as in `… | head`
            sys.exit(FAILED)
        if error.errno != errno.ENOSPC:
            raise
        sys.exit(_say(f"the output cannot be written ({error.strerror}); free some room, or write elsewhere", FAILED))


def _open_what_is_closed() -> None:
    """Open nothing as each standard stream that is closed: else the next file would take its number, and its texts."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "w" if number else "r"))


def _finish(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a command to its end; its result is the exit status."""
    import asyncio

    raise typer.Exit(asyncio.run(work))


def _say(error: object, status: int) -> int:
    show(f"evalstream: {error}", err=True)
    return status


def _load(path: Path, *, complete: bool = False, serves: bool = False, option: str = "-c") -> Config:
    """Read a configuration; its warnings go to stderr. See `collector.config.loading.load`."""
    from collector.config.loading import load

    if option != "-c" and not path.exists():
        raise ConfigError(f"{option}: {path}: no such file; name a configuration")
    config = load(path, complete=complete or serves, serves=serves)
    for warning in config.warnings:
        show(f"evalstream: {config.source}: warning: {warning}", err=True)
    return config


def _version(letters: bool) -> None:
    if letters:
        from importlib.metadata import version

        from collector.telemetry.compilation import is_compiled

        show(f"evalstream {version('evalstream')}{', compiled' if is_compiled() else ''}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    del version


@app.command()
def demo(
    duration: Annotated[float | None, Option(min=1, help="Seconds to run; until Ctrl-C by default.")] = None,
    worse_after: Annotated[float, Option(min=0, help="Seconds until the answers get worse.")] = 45.0,
    port: Annotated[int, Option(min=0, max=65535, help="Port of OTLP/HTTP; 0 for any free port.")] = 4318,
    metrics_port: Annotated[int, Option(min=0, max=65535, help="Port of /metrics; 0 for any free port.")] = 9464,
    page_port: Annotated[int, Option(min=0, max=65535, help="Port of the page; 0 for any free port.")] = 8321,
) -> None:
    """Run everything on this machine, without keys or a broker.

    A small application sends OpenTelemetry spans; they are assembled, evaluated and exported. After a while its
    answers get worse on purpose. With OPENAI_API_KEY or OPENAI_BASE_URL set, that judge replaces the stand-in.
    """
    from collector.demo.run import DemoSettings, run_demo

    raise typer.Exit(run_demo(DemoSettings(duration, worse_after, port, metrics_port, page_port)))


@app.command()
def run(
    config: ConfigFile = DEFAULT_CONFIG,
    stages: Annotated[str, Option(help="Stages, separated by commas.")] = "receive,assemble,evaluate,export,watch,page",
    log_level: Annotated[
        Literal["info", "warning", "error"] | None,
        Option(envvar="EVALSTREAM_LOG_LEVEL", help="Lowest level of log lines."),
    ] = None,
    workers: Annotated[int, Option(min=1, help="How many processes on this machine share the work.")] = 1,
) -> None:
    """Run the service until SIGTERM or Ctrl-C."""
    import atexit
    import gc

    from collector.service.garbage import COLLECT_AFTER

    gc.set_threshold(*COLLECT_AFTER)  # before all else is imported
    atexit.register(gc.freeze)  # else the process goes through all of its state for seconds after it has stopped
    checked = _load(config, serves=True)
    from collector.service.app import serve, stages_of

    chosen = stages_of(stages, checked)
    if checked.settings.log.kafka is not None or checked.settings.receive.kafka:
        from collector.commands.check.kafka_plan import require_kafka
        from collector.telemetry.logging import log_as_json

        log_as_json()
        require_kafka(checked, chosen)
    if workers == 1:
        serve(checked, chosen, log_level=log_level)
        return
    from collector.service.workers.division import divide
    from collector.service.workers.supervision import serve_workers

    sys.exit(serve_workers(checked, divide(chosen, workers, checked.settings), log_level=log_level))


@app.command()
def check(
    config: ConfigFile = DEFAULT_CONFIG,
    json: Json = False,
    diff: Annotated[bool, Option("--diff", help="Print what the file would change in what runs.")] = False,
    against: Annotated[Path | None, Option(help="Print what differs from this other file.", dir_okay=False)] = None,
    schema: Annotated[str | None, Option(help="Print a JSON Schema: turn, configuration …", metavar="NAME")] = None,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Print the whole plan instead of a summary.")] = False,
    traces: Annotated[list[Path] | None, Option(metavar="<path>", help="Show texts that no dialect reads.")] = None,
    offline: Annotated[bool, Option("--offline", help="Ask no Kafka broker: check the file alone.")] = False,
) -> None:
    """Validate a configuration and print its plan.

    Prints about ten lines, problems first, and a few about the traffic so far if the service runs on this machine.
    Opens the files that the configuration names, and asks Kafka's brokers. If the service would refuse to start, the
    status is 2. --verbose adds what is received, sampled, evaluated and exported, what alerts detect, the capacity that
    the traffic needs, Kafka's topics, groups and permissions, and all lines about the traffic. Traces in receive.files
    are examined as with --traces. With --diff or --against, prints only what the file would change; with --diff, status
    1 if the service would refuse it.
    """
    from collector.commands.check.check import report
    from collector.commands.check.deferred_plan import batch_lines
    from collector.commands.check.kafka_plan import kafka_lines, retention_lines
    from collector.commands.check.summary import plan_json, summary
    from collector.commands.check.traffic import running_metrics, spent_at_present, trace_lines, traffic
    from collector.commands.check.unseen import unseen_lines
    from collector.config.named_files import elsewhere_notes
    from collector.config.yaml_file import hidden_values
    from collector.wording import plural

    if schema is not None:
        from collector.commands.schema import schema_text

        show(schema_text(schema), end="")
        return
    checked, hidden = _load(config, serves=True), hidden_values([config, *([against] if against else [])])
    notes = [f"note       {note}" for note in elsewhere_notes(checked)]  # also refuses a file that cannot be read
    planned = list(report(checked))  # also refuses a golden set with a mistake
    if diff or against is not None:
        _print_changes(checked, against, hidden, json=json, offline=offline)
        return
    clusters = list(kafka_lines(checked, offline=offline))
    unseen, running = list(unseen_lines(checked)), list(traffic(checked))
    retention = () if offline else retention_lines(checked)
    plan = [*planned, *notes, *unseen, *clusters, *batch_lines(checked), *running, *retention]
    if json:
        show(hidden(plan_json(checked, plan)))
        return
    more = f" ({plural(len(running) - 16, 'more line')} of traffic)" if running[16:] else ""
    brief = summary(checked, plan, spent_at_present(checked, running_metrics(checked)[0]))
    lines = plan if verbose else [*brief, *running[:16], f"details    evalstream check --verbose{more}"]
    for line in (*lines, *trace_lines(checked, traces or ())):
        show(fitting(hidden(line), _line_width()))


def _print_changes(
    config: Config, against: Path | None, hidden: Callable[[str], str], *, json: bool, offline: bool
) -> None:
    import asyncio

    from collector.commands.check.changes import Compared, change_lines, changes_json, running_configuration
    from collector.commands.check.kafka_plan import kafka_lines

    other = None if against is None else _load(against, complete=True, option="--against")
    compared = asyncio.run(running_configuration(config)) if other is None else Compared(other, str(against))
    list(kafka_lines(config, offline=offline))  # it refuses what the service could not start with
    if json:
        show(hidden(changes_json(config, compared)), end="")
    else:
        for line in change_lines(config, compared):
            show(fitting(hidden(line), _line_width()))
    if other is None and (compared.ignored or compared.changes_by(config).restart):
        raise typer.Exit(FAILED)  # the service would refuse it, running or at its start


def _line_width() -> int:
    """The columns of the terminal, from 60 to 100; 100 if the output is not a terminal."""
    if not sys.stdout.isatty():
        return 100
    import shutil

    return min(100, max(60, shutil.get_terminal_size().columns))


def fitting(line: str, width: int) -> str:
    """A line of the plan in lines of at most `width` columns."""
    import textwrap

    return textwrap.fill(line, width, subsequent_indent=" " * 13, break_long_words=False, break_on_hyphens=False)


@app.command()
def rules(
    config: ConfigFile = DEFAULT_CONFIG,
    formats: Annotated[
        list[str] | None, Option("--format", help="prometheus, prometheusrule (operator), grafana, alertmanager.")
    ] = None,
    output: Annotated[Path | None, _file("Folder to write files to (all formats by default).")] = None,
) -> None:
    """Generate alert rules and Grafana dashboards."""
    from collector.alerting.rules.write import render, write

    loaded = _load(config, serves=True)
    if output is not None:
        for path in write(loaded, formats or [], output):
            show(str(path))
        return
    for content in render(loaded, formats or ["prometheus"]).values():
        show(content, end="")


@app.command()
def fetch(
    source: Annotated[
        str, Argument(help="tempo, jaeger, phoenix, langfuse or mlflow.", metavar="SOURCE", show_default=False)
    ],
    output: Annotated[Path, _file("The file to write, as OTLP JSON lines.", "--output", "-o")],
    url: Annotated[str | None, Option(help="The source's address; by default its usual one on this machine.")] = None,
    since: Since = "24h",
    until: Until = None,
    query: Annotated[
        str | None,
        Option(
            help="Which traces. Tempo: TraceQL; Jaeger: an operation; Phoenix: an attribute's key:value; Langfuse: a "
            "name; MLflow: a filter."
        ),
    ] = None,
    services: Annotated[list[str] | None, Option("--service", help="Jaeger: only this service; repeatable.")] = None,
    project: Annotated[str | None, Option(help="Phoenix: the project. MLflow: the experiment.")] = None,
    limit: Annotated[int, Option(min=1, help="Maximum number of traces; the newest are taken.")] = 1000,
    token_file: Annotated[Path | None, _file("File with a token or name:secret; or EVALSTREAM_FETCH_TOKEN.")] = None,
    headers: Annotated[list[str] | None, Option("--header", help="A header; repeatable.", metavar="NAME=VALUE")] = None,
) -> None:
    """Write past traces of Tempo, Jaeger and others to a file.

    SOURCE is tempo, jaeger, phoenix, langfuse or mlflow. Traces are written unredacted, as the source has them, to a
    file that only its owner can read, for `turns`, `score` and `compare evaluators`. After an error there is no file.
    Status 1 if there are no traces, or if some are left out, which a message says.
    """
    from collector.commands.fetch.fetch import FetchOptions, fetch_traces

    _finish(fetch_traces(_options(FetchOptions, locals()), os.environ, show))


@app.command()
def turns(
    paths: Annotated[
        list[Path],
        Argument(help="OTLP or turn files (.pb, .json, .jsonl), directories, or - for stdin.", readable=False),
    ],
    explain: Annotated[bool, Option(help="Show how every span was read, and why it made no turn.")] = False,
    json: Annotated[bool, Option("--json", help="With --explain: JSON, one object per trace.")] = False,
    config: Annotated[Path | None, _file("The configuration: `assemble` and `dialects`.", "--config", "-c")] = None,
) -> None:
    """Print the turns in OTLP files as JSON lines.

    These are the turns that the service would assemble and evaluate.
    """
    from collector.commands.normalize import main as normalize_files
    from collector.config.dialects import NO_DIALECTS
    from collector.config.settings import AssembleSettings

    settings = _load(config).settings if config else None
    status = normalize_files(
        paths,
        sys.stdout,
        sys.stderr,
        settings=settings.assemble if settings else AssembleSettings(),
        dialects=settings.dialects if settings else NO_DIALECTS,
        explained=explain,
        as_json=json,
    )
    raise typer.Exit(status)


Stage = Annotated[
    Literal["receive", "assemble", "link", "evaluate"] | None,
    Option(help="Only this stage's: receive, assemble, link or evaluate."),
]


@letters.command("list")
def list_letters(
    config: ConfigFile = DEFAULT_CONFIG,
    stage: Stage = None,
    all_: Annotated[bool, Option("--all", help="Include those that were reprocessed.")] = False,
    json: Json = False,
) -> None:
    """List the dead letters: id, stage, position, attempts and reason."""
    from collector.commands.dead_letters import LetterFilter, list_letters
    from collector.telemetry.wide_console import wide_console

    _finish(list_letters(_load(config), LetterFilter(stage=stage, redriven=all_), wide_console(), as_json=json))


@letters.command("show")
def show_letter(
    letter_id: Annotated[str, Argument(help="The id, from `dead-letters list`.")], config: ConfigFile = DEFAULT_CONFIG
) -> None:
    """Show one dead letter, with the beginning of its value if that is stored."""
    from collector.commands.dead_letters import show_letter

    _finish(show_letter(_load(config), letter_id, show))


@letters.command("redrive")
def redrive_letters(
    ids: Annotated[list[str] | None, Argument(help="Ids; all dead letters by default.")] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    stage: Stage = None,
) -> None:
    """Reprocess dead letters, once their cause is fixed."""
    from collector.commands.dead_letters import LetterFilter, redrive_letters

    _finish(redrive_letters(_load(config), LetterFilter(ids=ids or (), stage=stage), show))


@app.command()
def score(
    paths: Annotated[list[str], Argument(help="Turns, conversations or OTLP: files, folders, globs, or - for stdin.")],
    config: ConfigFile = DEFAULT_CONFIG,
    evaluators: Annotated[
        list[str] | None,
        Option(
            "--evaluator", help="Only this evaluator; repeatable. Without a configuration file: its kind, like g_eval."
        ),
    ] = None,
    criteria: Annotated[str | None, Option(help="Without a configuration file: the criteria of the evaluator.")] = None,
    output: Annotated[Path | None, _file("Evaluations, .jsonl (resumes from it) or .csv.", "--output", "-o")] = None,
    fail_under: Annotated[float | None, Option(min=0, max=1, help="Exit with 1 if a mean is worse than this.")] = None,
    max_usd: MaxUsd = None,
    batch: Batch = False,
    worst: Annotated[int, Option(min=0, help="Print so many of each evaluator's worst answers, with reasons.")] = 0,
    against: Annotated[Path | None, _file("JSONL of an earlier run to compare; exit 1 if surely worse.")] = None,
    tolerance: Annotated[float, Option(min=0, max=1, help="How much worse a mean may be with --against.")] = 0.0,
    junit: Annotated[Path | None, _file("Write the result as JUnit XML.")] = None,
    markdown: Annotated[Path | None, _file("Write the result as a Markdown table.")] = None,
    json: Json = False,
) -> None:
    """Evaluate turns and conversations in files.

    Files are OTLP, JSON, JSON lines, CSV, or datasets of other libraries. Without a configuration file,
    OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL say which judge evaluators ask.
    """
    from collector.commands.score.configuration import with_a_monitor, without_file
    from collector.commands.score.score import ScoreOptions, score as score_files
    from collector.config.attribute_names import refuse_unknown_attributes

    options = _options(ScoreOptions, locals())
    if config == DEFAULT_CONFIG and not config.exists():
        loaded = without_file(options.evaluators, criteria, os.environ)
    else:
        loaded = _load(config)
        if criteria is not None:
            raise ConfigError(f"--criteria: {config} has the evaluators; write the criteria there")
        refuse_unknown_attributes(loaded)
    raise typer.Exit(score_files(with_a_monitor(loaded, options.evaluators), options))


@comparisons.command("judges")
def judges(
    file: Annotated[Path, _file("Labelled cases: a turn or conversation a line, with `human` beside it.")],
    config: ConfigFile = DEFAULT_CONFIG,
    evaluator: Annotated[str | None, Option(help="The evaluator; by default the only one that asks a judge.")] = None,
    judges: Annotated[list[str] | None, Option("--judge", help="A judge, jury or cascade; repeatable.")] = None,
    repeat: Annotated[int, Option(min=1, max=20, help="How often each judge judges each case.")] = 2,
    margin: Annotated[float, Option(min=0, max=1, help="How far agreement may be below the best judge's.")] = 0.05,
    max_usd: MaxUsd = None,
    output: Annotated[Path | None, _file("JSONL of evaluations; later runs resume from it.", "--output", "-o")] = None,
    json: Json = False,
) -> None:
    """Compare judges on labelled cases: which is enough.

    Shows agreement with people, repeatability, price and time of each, with 95 % intervals, and the cheapest judge that
    is not worse than the best by more than the margin. Status 1 if nothing could be scored, or at the spending limit.
    """
    from collector.commands.judges.judges import JudgesOptions, compare_judges

    raise typer.Exit(compare_judges(_load(config), _options(JudgesOptions, locals())))


@app.command()
def dataset(
    output: Annotated[Path, _file("The file to write.", "--output", "-o")],
    config: ConfigFile = DEFAULT_CONFIG,
    which: Annotated[
        Literal["failed", "low", "disagreed", "sampled"],
        Option(
            help="failed: did not pass. low: below --below, the worst first. disagreed: contradicted by "
            "people. sampled: whatever was scored, drawn at random."
        ),
    ] = "failed",
    form: Annotated[
        str, Option("--as", help="jsonl, turns, golden, deepeval, pydantic-evals, phoenix, langsmith, promptfoo.")
    ] = "jsonl",
    monitor: OneMonitor = None,
    evaluators: EvaluatorNames = None,
    since: Since = "7d",
    until: Until = None,
    below: Annotated[float | None, Option(min=0, max=1, help="With --which low: scores below this are low.")] = None,
    most: Annotated[int, Option("--n", min=1, help="Maximum number of cases.")] = 200,
    diverse: Annotated[bool | None, Option(help="Leave out nearly equal questions, unless --which sampled.")] = None,
    name: Annotated[str, Option(help="The name of the test set, if the format has one.")] = "evalstream",
) -> None:
    """Make a test set of past turns and conversations.

    Turns, their scores and people's labels are joined from the logs, redacted as stored, with the probability with
    which each was drawn. Can run beside the service. Status 1 if there are no cases.
    """
    from collector.commands.cases.cases import CasesOptions, write_cases

    _finish(write_cases(_load(config), _options(CasesOptions, locals()), show))


@comparisons.command("evaluators")
def replay(
    paths: Annotated[list[str] | None, Argument(help="Files with the turns; the turns log by default.")] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    new: Annotated[Path | None, _file("The new configuration; with --judge, by default -c.", "--with")] = None,
    since: MaybeSince = None,
    until: Until = None,
    monitors: Monitors = None,
    evaluators: EvaluatorNames = None,
    by: Annotated[str | None, Option(help="The new evaluator, if its name differs.")] = None,
    judge: Annotated[str | None, Option(help="The judge to use instead of the evaluator's own.")] = None,
    labels: Annotated[Path | None, _file("People's labels; the page's by default.", "--labels")] = None,
    output: Annotated[Path | None, _file("JSONL of evaluations; later runs resume from it.", "--output", "-o")] = None,
    max_usd: MaxUsd = None,
    batch: Batch = False,
    json: Json = False,
) -> None:
    """Compare a new evaluator or judge on past traffic.

    Past turns or conversations are evaluated again. The new scores are compared with the old ones, and both with
    people's labels. Without --judge, --with and --by, the present versions judge all again, at full cost.
    """
    from collector.commands.replay.replay import ReplayOptions, replay as replay_selection
    from collector.past.evaluations import EvaluationFilter

    options = _options(ReplayOptions, locals(), selection=_options(EvaluationFilter, locals()))
    loaded = _load(config)
    raise typer.Exit(replay_selection(loaded, _load(new, option="--with") if new else loaded, options))


@app.command()
def rejudge(
    config: ConfigFile = DEFAULT_CONFIG,
    since: Since = "24h",
    until: Until = None,
    what: Annotated[
        Literal["failed", "unscored", "all"],
        Option(
            help="failed: what failed. unscored: also what no version of the evaluator has judged. "
            "all: also what only another version has judged."
        ),
    ] = "unscored",
    reasons: Annotated[list[str] | None, Option("--reason", help="Only what has this reason; repeatable.")] = None,
    evaluators: EvaluatorNames = None,
    monitors: Monitors = None,
    max_usd: Annotated[
        float | None,
        Option(min=0, help="Limit of all the period's backfills. Required with judges; optional with --what failed."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Judge the past: a new evaluator, or what is missing.

    The running service makes the evaluations, beside the live traffic and apart from its budgets and metrics. Run the
    same command again to resume: nothing is judged twice.
    """
    from collector.commands.check.traffic import service_difference
    from collector.commands.rejudge.rejudge import RejudgeOptions, rejudge as rejudge_past
    from collector.evaluate.retry.past_jobs import Stretch

    options = _options(RejudgeOptions, locals(), stretch=_options(Stretch, locals()))
    _finish(rejudge_past(_load(config, serves=True), options, show, service_difference))


@app.command()
def audit(
    config: ConfigFile = DEFAULT_CONFIG,
    drained: Annotated[bool, Option("--drained", help="Nothing may be in flight.")] = False,
    as_json: Json = False,
) -> None:
    """Check that everything that was accepted has its outcome.

    Reads all logs, works out what is due by the configuration, and compares it with what is there. Runs beside the
    service and changes nothing. Status 1 if something does not add up. Before `--drained`, stop the senders, wait
    `assemble.idle_timeout` and for the judges, and stop the service. Conversations that a monitor's `idle_timeout`
    keeps open are not due.
    """
    from collector.commands.audit.audit import audit

    _finish(audit(_load(config, complete=True), show, drained=drained, json=as_json))


@logs.command("copy")
def copy_log(
    to: Annotated[Path, _file("The configuration of the copy: with another log.")], config: ConfigFile = DEFAULT_CONFIG
) -> None:
    """Copy the logs to another file, cluster or number of partitions.

    Stop the service first, and start it with the configuration of the copy afterwards: the service continues where it
    was. The target must be empty. No service starts on the source again. If the command is interrupted, run it again.
    """
    from collector.commands.log_copy.log_copy import copy_logs

    _finish(copy_logs(_load(config), _load(to, option="--to"), show))


@app.command()
def erase(
    config: ConfigFile = DEFAULT_CONFIG,
    users: Annotated[list[str] | None, Option("--user", help="The id of a user; repeatable.")] = None,
    conversations: Annotated[list[str] | None, Option("--conversation", help="A conversation id; repeatable.")] = None,
    to: Annotated[Path | None, _file("If logs are in Kafka: the new configuration, with another prefix.")] = None,
    files: Annotated[list[Path] | None, _file("A JSONL file of turns or evaluations; repeatable.", "--file")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Count what would be erased; change nothing.")] = False,
    json: Json = False,
) -> None:
    """Erase a person from the logs, and search for what is left.

    Stop the service first. Erases whole conversations and traces in which the person took part, with evaluations and
    labels. Then searches all bytes for the person's ids and texts. Says what it cannot reach. Status 1 if any
    of these are left.
    """
    from collector.commands.erase.erase import EraseOptions, erase as erase_person

    options = _options(EraseOptions, locals(), to=None if to is None else _load(to, option="--to"))
    _finish(erase_person(_load(config), options, show))


@exports.command("again")
def export(
    config: ConfigFile = DEFAULT_CONFIG,
    since: MaybeSince = None,
    until: Until = None,
    exporters: Annotated[list[str] | None, Option("--exporter", help="Only this exporter; repeatable.")] = None,
) -> None:
    """Send a time range of the evaluations log to exporters again.

    The evaluations have the same ids as before, so destinations recognise them. It can run beside the service.
    """
    from collector.commands.export_again import ExportOptions, export_again

    if since is None:
        raise ConfigError("name the time range: evalstream export again --from 24h")
    _finish(export_again(_load(config), _options(ExportOptions, locals()), show))


@exports.command("parquet")
def parquet(
    destination: Annotated[str, Argument(help="A directory, or a store's URL like s3://bucket/prefix.")],
    config: ConfigFile = DEFAULT_CONFIG,
    since: Since = "2d",
    until: Until = None,
    texts: Annotated[bool, Option(help="Write judges' explanations and people's notes.")] = True,
) -> None:
    """Write evaluations and labels as Parquet files by day.

    Whole days (UTC) are written, each file in place of the one before, so the command can run again and again, beside
    the service. Needs the extra `parquet`. Status 1 if a day was left out because the log no longer has all of it.
    """
    from collector.commands.parquet.parquet import ParquetOptions, write_parquet

    _finish(write_parquet(_load(config), _options(ParquetOptions, locals()), show))


@app.command()
def mcp(
    config: ConfigFile = DEFAULT_CONFIG,
    page: Annotated[str | None, Option(help="The page's address; by default this machine's.")] = None,
    token_file: Annotated[Path | None, _file("File with a token of the page; or EVALSTREAM_PAGE_TOKEN.")] = None,
    http: Annotated[str | None, Option(help="Serve at HOST:PORT/mcp instead of stdio.", metavar="HOST:PORT")] = None,
) -> None:
    """Serve coding agents over the Model Context Protocol.

    Agents may ask for means with errors, alerts, the worst evaluations, an evaluation with its conversation, what
    explains a drop, test cases and what a check says. Nothing is changed, and texts are shown if the page shows them.
    Needs the extra `mcp` and a running page. Over HTTP, clients need a token of the page.
    """
    import asyncio

    from collector.commands.mcp.server import McpOptions, address_of, page_address, page_token, serve_http, serve_stdio

    address = page or page_address(_load(config).settings.page)
    options = McpOptions(config=config, page=address, token=page_token(token_file))
    if http is None:
        asyncio.run(serve_stdio(options))
    else:
        asyncio.run(serve_http(options, *address_of(http)))


@app.command()
def explain(
    evaluation_id: Annotated[str, Argument(metavar="ID", help="The id of an evaluation, trace, turn or conversation.")],
    config: ConfigFile = DEFAULT_CONFIG,
    json: Json = False,
) -> None:
    """Show every step of one evaluation.

    Shows how the spans were read and why, the turn, monitor, draw, rate and weight, how long the evaluation waited, the
    judge's question, answer and cost, and which exporters have taken the result. Can run beside the service.

    With the id of a trace, turn or conversation, shows each evaluator's outcome for every turn, or why there is none:
    no monitor matched, or sampled out.
    """
    from collector.commands.trace import trace_evaluation

    _finish(trace_evaluation(_load(config, complete=True), evaluation_id, show, as_json=json))


@app.command()
def diagnose(
    config: ConfigFile = DEFAULT_CONFIG,
    monitor: TheMonitor = None,
    since: Since = "24h",
    until: Until = None,
    against: Annotated[
        str | None,
        Option(
            help="Start of the time before --from to compare with; by default seven times as long, without incidents."
        ),
    ] = None,
    evaluators: EvaluatorNames = None,
    json: Json = False,
) -> None:
    """Find the part of the traffic that explains a drop in scores.

    Compares every value of the evaluations' attributes, and every two together, with the rest of the traffic before and
    after. Names the parts that surely fell more than the rest, each with its share of the drop and evaluations to read.
    """
    from collector.commands.diagnose.diagnose import DiagnoseOptions, diagnose as explain

    loaded = _load(config)
    options = _options(
        DiagnoseOptions, locals(), monitor=_monitor(loaded, monitor), against=_parse_moment("--against", against)
    )
    _finish(explain(loaded, options, show, as_json=json))


@comparisons.command("releases")
def compare(
    config: ConfigFile = DEFAULT_CONFIG,
    monitor: TheMonitor = None,
    attribute: Annotated[str | None, Option(help="The attribute that tells versions apart.")] = None,
    baseline: Annotated[str | None, Option(help="The old version: a value of service_version or --attribute.")] = None,
    version: Annotated[str | None, Option(help="The new version.")] = None,
    since: Since = "7d",
    until: Until = None,
    json: Json = False,
) -> None:
    """Compare a new version of an application with the last one.

    Shows each evaluator's two means with the interval of their difference, valid however often you look. Compares side
    by side while both versions ran, otherwise before and after.
    """
    from collector.commands.compare import CompareOptions, compare as compare_versions

    loaded = _load(config)
    options = _options(CompareOptions, locals(), monitor=_monitor(loaded, monitor))
    _finish(compare_versions(loaded, options, show, as_json=json))


@app.command()
def gate(
    version: Annotated[str, Option(help="The new version: a value of --attribute.")],
    config: ConfigFile = DEFAULT_CONFIG,
    attribute: Annotated[str, Option(help="The attribute that tells versions apart.")] = "service_version",
    against: Annotated[str | None, Option(help="The old version; by default the one before.")] = None,
    monitor: OneMonitor = None,
    within: Annotated[str | None, Option(help="Only this service, or prompt; all by default.")] = None,
    tolerance: Annotated[float, Option(min=0.001, max=0.999, help="The fall that a promotion excludes.")] = 0.05,
    json: Json = False,
) -> None:
    """Decide on a release: promote (0), hold (3) or roll back (4).

    The number is the exit status. Roll back if an evaluator is surely worse; promote if none can be worse by the
    tolerance; else hold, as with too few scores. May be asked again at any time.
    """
    from collector.alerting.releases.gate import GateQuestion
    from collector.commands.compare import gate as decide

    question = _options(GateQuestion, locals())
    _finish(decide(_load(config, complete=True), question, datetime.now(UTC), show, as_json=json))


@plans.command("targets")
def targets(
    config: ConfigFile = DEFAULT_CONFIG,
    monitor: OneMonitor = None,
    since: Since = "14d",
    until: Until = None,
    json: Json = False,
) -> None:
    """Propose targets for alerts from past scores.

    For each evaluator: its mean, its daily wave, how alike the scores of a conversation are, and a target with room
    for these. Also says when alerts with this target would have paged, and how soon they would have found a fall.
    """
    from collector.commands.targets.targets import TargetsOptions, propose

    _finish(propose(_load(config, serves=True), _options(TargetsOptions, locals()), show, as_json=json))


@plans.command("sampling")
def plan(
    error: Annotated[float, Option(help="The intended standard error of a day's mean, like 0.02.")],
    config: ConfigFile = DEFAULT_CONFIG,
    monitor: TheMonitor = None,
    evaluator: Annotated[str | None, Option(help="Only this evaluator; all of the monitor by default.")] = None,
    usd_per_label: Annotated[float | None, Option(min=0, help="Cost of a label: plan the mean by people.")] = None,
    since: Since = "14d",
    until: Until = None,
    json: Json = False,
) -> None:
    """Plan the cheapest sampling for an error.

    Finds, from the monitor's own past, the sampling rate, boosts and share of audits or labels that give a day's mean
    this standard error at the least cost. Shows what the present ones reach and cost, and the configuration to paste.
    """
    from collector.commands.plan.plan import PlanOptions, print_plan

    if not 0.0 < error < 0.5:
        raise ConfigError(f"--error: {error:g} is no standard error of a mean of scores; write one like 0.02")
    loaded = _load(config, serves=True)
    _finish(print_plan(loaded, _options(PlanOptions, locals(), monitor=_monitor(loaded, monitor)), show, as_json=json))


def _monitor(config: Config, name: str | None) -> str:
    """The monitor that is named, or the only one there is."""
    names = sorted(config.settings.monitors)
    if name is None and len(names) != 1:
        raise ConfigError(f"--monitor: name one: {', '.join(names)}" if names else "--monitor: none is configured")
    return name or names[0]


def _options(kind: type[Options], parameters: Mapping[str, Any], **read: object) -> Options:
    """The options of a command: its parameters, which have the names of their fields. `read` are those read otherwise.

    A list becomes a tuple. A stretch of time ends now unless `--to` says when.
    """
    if "since" in parameters:
        read |= {
            "since": _parse_moment("--from", parameters["since"]),
            "until": _parse_moment("--to", parameters["until"]) or datetime.now(UTC),
        }
    values: dict[str, Any] = {**parameters, **read}
    named = {
        field.name: tuple(values[field.name]) if isinstance(values[field.name], list) else values[field.name]
        for field in fields(cast("Any", kind))
        if field.name in values and (values[field.name] is not None or field.default is MISSING)
    }
    return kind(**named)


def _parse_moment(option: str, text: str | None) -> datetime | None:
    from collector.past.evaluations import parse_moment

    if text is None:
        return None
    try:
        return parse_moment(text, datetime.now(UTC))
    except ValueError:
        remedy = "write a time like 2026-11-20T09:00 (UTC), a duration before now, like 24h or 7d, or now"
        raise ConfigError(f"{option}: {text!r} is not a time; {remedy}") from None


@app.command()
def calibrate(
    evaluator: Annotated[str, Option(help="The evaluator that the labels are about.")],
    labels: Annotated[Path | None, _labels("human (0..1, true or false) with score or evaluation_id")] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    target: Annotated[float, Option(min=0, max=1, help="Share of bad answers that the threshold should fail.")] = 0.9,
    json: Json = False,
    random: RandomLabels = False,
    monitor: Annotated[str | None, Option(help="Count only this monitor's answers.")] = None,
    certify: Annotated[float | None, Option(min=1e-4, max=0.9999, help="Failure rate to exclude, or status 1.")] = None,
) -> None:
    """Measure an evaluator's agreement with human labels."""
    from collector.commands.calibrate.calibrate import CalibrateOptions, measure, printed

    options = _options(CalibrateOptions, locals())
    result = measure(_load(config), options, now=time.time())
    show(printed(result, options), end="")
    if result.certificate is not None and not result.certificate.certified:
        raise typer.Exit(1)


@app.command()
def align(
    evaluator: Annotated[str, Option(help="The evaluator to improve.")],
    labels: Annotated[Path | None, _labels("human with a turn or conversation, or with evaluation_id")] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    proposer: Annotated[str | None, Option(help="The judge that proposes; the evaluator's own by default.")] = None,
    candidates: Annotated[int, Option(min=1, max=20, help="Changes that are tried at most.")] = 4,
    holdout: Annotated[float, Option("--held-out", min=0.1, max=0.9, help="Share of conversations to test on.")] = 0.5,
    random: RandomLabels = False,
    max_usd: MaxUsd = None,
    output: Annotated[Path | None, _file("The new definition; else EVALUATOR_aligned.yaml.", "--output", "-o")] = None,
    json: Json = False,
) -> None:
    """Improve an evaluator by people's labels.

    A model proposes a clause, a rubric or examples out of the labels that the evaluator disagrees with. The best
    proposal on one part of the labels is tested on the other part, once. If the proposal surely agrees more with
    people, it is written as a new definition beside the old one. Otherwise, or at the spending limit, the status is 1.
    """
    from collector.commands.align.align import AlignOptions, align as align_evaluator

    raise typer.Exit(align_evaluator(_load(config), _options(AlignOptions, locals())))


@label_commands.command("next")
def labels_next(
    number: Annotated[int, Option("--n", min=1, max=100_000, help="How many evaluations.")] = 50,
    evaluator: Annotated[str | None, Option(help="Only evaluations by this evaluator.")] = None,
    monitor: OneMonitor = None,
    by: Annotated[str, Option(help="The person who labels them; leaves out what they have labelled.")] = "",
    without: Annotated[list[Path] | None, _file("A file of an earlier call, whose evaluations are left out.")] = None,
    config: ConfigFile = DEFAULT_CONFIG,
) -> None:
    """Print evaluations to label, without their scores.

    Fill in `human` on each line (0..1, true or false), and give the file to `evalstream calibrate`. They are drawn like
    those of the page's queue; each line has the probability of its draw, by which `calibrate` weighs it.
    """
    from collector.commands.labels_next import LabelsNextOptions, next_labels, summary

    tasks = next_labels(_load(config, complete=True), _options(LabelsNextOptions, locals()))
    for line in tasks.lines:
        show(line.decode(), end="")
    show(summary(tasks), err=True)


@app.command()
def init(
    config: ConfigFile = DEFAULT_CONFIG,
    traces: Annotated[str | None, Option(help="Source of traces: http or kafka://host:port/topic.")] = None,
    judge: Annotated[str | None, Option(help="The judge's model.")] = None,
    base_url: Annotated[str | None, Option(help="The judge's OpenAI-compatible endpoint.")] = None,
    good: Annotated[str | None, Option(help="What a good answer is.")] = None,
    sample: Annotated[float | None, Option(min=0.0001, max=1, help="Share of conversations to evaluate.")] = None,
    scores: Annotated[str | None, Option(help="OTLP endpoint for scores; empty for none.")] = None,
    force: Annotated[bool, Option(help="Overwrite an existing file.")] = False,
) -> None:
    """Write a configuration from a few questions.

    Options answer their questions in advance.
    """
    from collector.commands.check.check import report
    from collector.commands.check.summary import summary
    from collector.commands.init import answers_of, configuration
    from collector.config.loading import check as check_values
    from collector.config.yaml_file import parse, substitute

    if config.exists() and not force:
        raise ConfigError(f"{config}: already exists; name another file with -c, or overwrite it with --force")
    answers = {"traces": traces, "judge": judge, "base_url": base_url, "good": good, "scores": scores}
    answers["sample"] = None if sample is None else str(sample)
    text = configuration(answers_of(answers, _ask))
    checked = check_values(substitute(parse(text.encode(), str(config)), str(config), os.environ), str(config))
    try:
        config.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{config}: cannot be written ({error.strerror}); name another file with -c") from error
    for line in summary(checked, report(checked)):
        show(fitting(line, _line_width()))
    asks = f"check -c {config} (asks Kafka), then evalstream " if checked.settings.receive.kafka else ""
    show(f"Next: evalstream {asks}run -c {config}", err=True)


def _ask(question: str) -> str:
    """Ask on stderr, so that stdout is data."""
    show(question, end=" ", err=True)
    return sys.stdin.readline().strip()


if __name__ == "__main__":
    main()
