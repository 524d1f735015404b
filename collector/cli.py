"""The commands. Each imports what it needs when it runs, so that `evalstream --help` answers at once."""

from __future__ import annotations

import math
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from collector.errors import ConfigError, EvalstreamError

DONE, FAILED, WRONG = 0, 1, 2
"""Exit statuses: done; the work failed; the command or its configuration is wrong."""

app = typer.Typer(
    name="evalstream",
    help="Judges live LLM traffic: OpenTelemetry traces in, scores out as OpenTelemetry and Prometheus.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # what rich formats looks no better in a terminal and takes twice as long to come
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The configuration file.", show_default=True)]
DEFAULT_CONFIG = Path("evalstream.yaml")


def main() -> None:
    """Run a command; every error becomes one sentence on stderr and the right exit status."""
    try:
        app()
    except ConfigError as error:
        sys.exit(_say(error, WRONG))
    except EvalstreamError as error:
        sys.exit(_say(error, FAILED))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone, as in `… | head`
        sys.stderr.close()
        sys.exit(FAILED)


def _say(error: Exception, status: int) -> int:
    print(f"evalstream: {error}", file=sys.stderr)
    return status


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"evalstream {version('evalstream')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    del version


@app.command()
def demo(
    duration: Annotated[
        float | None, typer.Option(min=1, help="End after so many seconds; without it, Ctrl-C ends it.")
    ] = None,
    worse_after: Annotated[
        float, typer.Option(min=0, help="Seconds after which the application answers badly, on purpose.")
    ] = 45.0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of OTLP/HTTP; 0 takes any free one.")] = 4318,
    metrics_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of /metrics; 0 takes any free one.")] = 9464,
    page_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes any free one.")] = 8321,
) -> None:
    """Watch the whole system on this machine: no key and no broker needed.

    A small application sends OpenTelemetry spans; they are assembled, judged and exported. After a while its answers
    get worse on purpose. With OPENAI_API_KEY or OPENAI_BASE_URL set, that judge is used instead of the stand-in.
    """
    from collector.demo.run import DemoSettings, run_demo

    raise typer.Exit(run_demo(DemoSettings(duration, worse_after, port, metrics_port, page_port)))


@app.command()
def run(
    config: ConfigFile = DEFAULT_CONFIG,
    stages: Annotated[
        str, typer.Option(help="Which stages this process runs, separated by commas.")
    ] = "receive,assemble,evaluate,export,watch,page",
) -> None:
    """Run the service until SIGTERM or Ctrl-C."""
    from collector.config.loading import load

    checked = load(config)
    from collector.app import serve, stages_of

    serve(checked, stages_of(stages))


@app.command()
def check(
    config: ConfigFile = DEFAULT_CONFIG,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as one JSON object.")] = False,
) -> None:
    """Check a configuration as `run` does; print what is watched, sampled and judged, and where the traffic went."""
    from collector.check import report
    from collector.config.loading import load
    from collector.plan_json import plan_json
    from collector.traffic import counts_of, traffic

    checked = load(config)
    if json:
        print(plan_json(checked, counts_of(checked)), end="")
        return
    for line in (*report(checked), *traffic(checked)):
        print(line)


@app.command()
def rules(
    config: ConfigFile = DEFAULT_CONFIG,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format", help="prometheus, prometheusrule, grafana or alertmanager; may be given several times."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the files, all formats if none is named; without it, stdout.")
    ] = None,
) -> None:
    """Write the alerts of a configuration, for Prometheus, Grafana and Alertmanager, and Grafana's dashboards."""
    from collector.config.loading import load
    from collector.rules.command import rendered, write

    loaded = load(config)
    if output is not None:
        for path in write(loaded, formats or [], output):
            print(path)
        return
    for content in rendered(loaded, formats or ["prometheus"]).values():
        print(content, end="")


@app.command()
def normalize(
    paths: Annotated[list[Path], typer.Argument(help="OTLP files (.pb, .json, .jsonl), or directories of them.")],
    explain: Annotated[bool, typer.Option(help="Say of every span how it was read, and why it made no turn.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Explanations as JSON, too, one object per trace.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The configuration, where it says how turns are assembled.")
    ] = None,
) -> None:
    """Print the turns that OTLP files hold, one JSON object a line: what the service would judge."""
    from collector.config.loading import load
    from collector.config.settings import AssembleSettings
    from collector.normalize import main as normalize_files

    settings = load(config).settings.assemble if config else AssembleSettings()
    status = normalize_files(paths, sys.stdout, sys.stderr, settings=settings, explained=explain, as_json=json)
    raise typer.Exit(status)


letters = typer.Typer(help="List, show and process again what could not be processed.", no_args_is_help=True)
app.add_typer(letters, name="dead-letters")
Stage = Annotated[str | None, typer.Option(help="Only those of this stage: receive, assemble, link or evaluate.")]


@letters.command("list")
def list_letters(
    config: ConfigFile = DEFAULT_CONFIG,
    stage: Stage = None,
    all_: Annotated[bool, typer.Option("--all", help="Also those that were processed again.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List the dead letters: id, stage, position, attempts and reason."""
    import asyncio

    from rich.console import Console

    from collector.config.loading import load
    from collector.dead_letters_command import Wanted, list_letters

    wanted = Wanted(stage=stage, redriven=all_)
    raise typer.Exit(asyncio.run(list_letters(load(config), wanted, Console(), as_json=json)))


@letters.command("show")
def show_letter(
    letter_id: Annotated[str, typer.Argument(help="The id, as `list` shows it.")], config: ConfigFile = DEFAULT_CONFIG
) -> None:
    """Show one dead letter, with the beginning of its value if that was kept."""
    import asyncio

    from collector.config.loading import load
    from collector.dead_letters_command import show_letter

    raise typer.Exit(asyncio.run(show_letter(load(config), letter_id, print)))


@letters.command("redrive")
def redrive_letters(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids; without any, all dead letters.")] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    stage: Stage = None,
) -> None:
    """Process dead letters once more, after what was wrong has been put right."""
    import asyncio

    from collector.config.loading import load
    from collector.dead_letters_command import Wanted, redrive_letters

    raise typer.Exit(asyncio.run(redrive_letters(load(config), Wanted(ids=ids or (), stage=stage), print)))


@app.command()
def score(
    paths: Annotated[list[str], typer.Argument(help="Turns, conversations or OTLP: files, directories, globs, - .")],
    config: ConfigFile = DEFAULT_CONFIG,
    evaluator: Annotated[list[str] | None, typer.Option(help="Only this evaluator; may be given again.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Evaluations as .jsonl (a later run goes on from it) or .csv.")
    ] = None,
    fail_under: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit status 1 if an evaluator's mean is below this.")
    ] = None,
    max_usd: Annotated[
        float | None, typer.Option("--max-usd", min=0, help="Stop before judges have cost more than this.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Score turns and conversations from files."""
    from collector.config.loading import load
    from collector.scoring.score import ScoreOptions
    from collector.scoring.score import score as score_files

    options = ScoreOptions(
        paths=paths,
        evaluators=tuple(evaluator or ()),
        output=output,
        fail_under=fail_under,
        max_usd=max_usd,
        json=json,
    )
    raise typer.Exit(score_files(load(config), options))


@app.command()
def replay(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Files with the turns; without any, the turns log has them.")
    ] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    new: Annotated[
        Path | None, typer.Option("--with", help="The configuration that judges again; without it, -c does.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="From then on: 2026-11-20T09:00 (UTC), or how long ago: 24h, 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Before then.")] = None,
    monitor: Annotated[list[str] | None, typer.Option(help="Only this monitor's; may be given again.")] = None,
    evaluator: Annotated[list[str] | None, typer.Option(help="Only this evaluator's; may be given again.")] = None,
    by: Annotated[str | None, typer.Option(help="The evaluator to hold against it, if it has another name.")] = None,
    judge: Annotated[str | None, typer.Option(help="The judge to ask instead of the evaluator's own.")] = None,
    evaluations: Annotated[
        Path | None, typer.Option(help="JSONL with the old evaluations; without it, the evaluations log has them.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New evaluations as .jsonl; a later run goes on from it.")
    ] = None,
    into_log: Annotated[
        bool, typer.Option("--into-log", help="Write the new ones into the evaluations log, too: page, exporters.")
    ] = False,
    max_usd: Annotated[
        float | None, typer.Option("--max-usd", min=0, help="Stop before judges have cost more than this.")
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of those furthest apart to show.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Judge a past stretch again by a new evaluator or judge; compare old and new."""
    from collector.config.loading import load
    from collector.replay.past import Stretch
    from collector.replay.replay import ReplayOptions
    from collector.replay.replay import replay as replay_stretch

    stretch = Stretch(
        since=_moment("--from", since),
        until=_moment("--to", until),
        monitors=tuple(monitor or ()),
        evaluators=tuple(evaluator or ()),
    )
    options = ReplayOptions(
        stretch=stretch,
        by=by,
        judge=judge,
        paths=tuple(paths or ()),
        evaluations=evaluations,
        output=output,
        into_log=into_log,
        max_usd=max_usd,
        worst=worst,
        json=json,
    )
    loaded = load(config)
    raise typer.Exit(replay_stretch(loaded, load(new) if new else loaded, options))


def _moment(option: str, text: str | None) -> datetime | None:
    from collector.replay.past import moment

    if text is None:
        return None
    try:
        return moment(text, datetime.now(UTC))
    except ValueError:
        wanted = "write a time like 2026-11-20T09:00 (UTC), or how long ago, like 24h or 7d"
        raise ConfigError(f"{option}: {text!r} is no time; {wanted}") from None


@app.command()
def calibrate(
    evaluator: Annotated[str, typer.Option(help="Whose scores the labels are about.")],
    labels: Annotated[
        Path | None,
        typer.Argument(
            help="JSONL: human (0..1, or true and false) with score or evaluation_id; without it, the page's labels."
        ),
    ] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    target: Annotated[
        float, typer.Option(min=0, max=1, help="Share of bad answers that a fitting threshold should fail.")
    ] = 0.9,
    plot: Annotated[Path | None, typer.Option(help="Write a picture as SVG.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Say how far an evaluator agrees with human labels, with intervals."""
    from collector.calibration.calibrate import CalibrateOptions
    from collector.calibration.calibrate import calibrate as calibrate_labels
    from collector.config.loading import load

    options = CalibrateOptions(labels=labels, evaluator=evaluator, target=target, plot=plot, json=json)
    print(calibrate_labels(load(config), options), end="")


@app.command()
def init(
    config: ConfigFile = DEFAULT_CONFIG,
    traces: Annotated[str | None, typer.Option(help="http, or kafka://host:port/topic.")] = None,
    judge: Annotated[str | None, typer.Option(help="The judge's model.")] = None,
    base_url: Annotated[str | None, typer.Option(help="The judge's OpenAI-compatible endpoint.")] = None,
    good: Annotated[str | None, typer.Option(help="What a good answer is.")] = None,
    sample: Annotated[float | None, typer.Option(min=0.0001, max=1, help="Share of conversations judged.")] = None,
    scores: Annotated[str | None, typer.Option(help="An OTLP endpoint for scores; empty for none.")] = None,
    force: Annotated[bool, typer.Option(help="Write over a file that is there.")] = False,
) -> None:
    """Ask a few questions and write a configuration; what is given as an option is not asked."""
    from collector.check import report
    from collector.config.loading import check as check_values
    from collector.config.reading import parse, substitute
    from collector.init import QUESTIONS, Answers, configuration

    if config.exists() and not force:
        raise ConfigError(f"{config}: is there already; name another file with -c, or write over it with --force")

    def ask(name: str, given: str | None, default: str) -> str:
        if given is not None:
            return given
        print(f"{QUESTIONS[name]} [{default}]", end=" ", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip() or default

    answers = Answers(
        traces=ask("traces", traces, "http"),
        judge=ask("judge", judge, "gpt-4.1-mini"),
        base_url=ask("base_url", base_url, "https://api.openai.com/v1"),
        good=ask("good", good, "Does the actual output answer what the input asks, completely and to the point?"),
        sample=_share(ask("sample", None if sample is None else str(sample), "0.1")),
        scores=ask("scores", scores, ""),
    )
    text = configuration(answers)
    checked = check_values(substitute(parse(text.encode(), str(config)), str(config), os.environ), str(config))
    try:
        config.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{config}: cannot be written ({error.strerror}); name another file with -c") from error
    for line in report(checked):
        print(line)
    print(f"Next: evalstream run -c {config}", file=sys.stderr)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 < share <= 1.0:
        raise ConfigError(f"sample: {text!r} is no share; write a number above 0 up to 1, like 0.1 for a tenth")
    return share


@app.command()
def schema() -> None:
    """Print the JSON Schemas of the configuration and of every record."""
    from collector.schema import schemas

    sys.stdout.write(schemas())


if __name__ == "__main__":
    main()
